//! Sending messages.

use teamster_store::{OutgoingMessage, Recipient};
use teamster_types::TeamName;
use teamster_types::json::Object;
use teamster_types::message::Message;
use teamster_types::team::CLIENT_LEAD;
use teamster_workers::tools;

use crate::app::App;
use crate::error::{AppError, Result};

/// The recipient name of the team's lead.
pub const LEAD: &str = "lead";
/// The recipient name of all members.
pub const ALL: &str = "all";

/// Returns whether a name denotes the team's lead, as teamster or Claude Code calls it.
pub fn is_lead(name: &str) -> bool {
    matches!(name, LEAD | CLIENT_LEAD)
}

/// Sends a plain message to a worker, to [`LEAD`] or to [`ALL`]. Returns the recipient and the messages.
pub fn send(
    app: &App,
    team: &TeamName,
    from: String,
    to: &str,
    text: String,
) -> Result<(Recipient, Vec<Message>)> {
    let store = app.store()?;
    let to = tools::recipient(store, team, to)?;
    let sent = store.send(team, &outgoing(from, to.clone(), text)?)?;
    Ok((to, sent))
}

/// Creates a plain message.
fn outgoing(from: String, to: Recipient, content: String) -> Result<OutgoingMessage> {
    if content.is_empty() {
        return Err(AppError::refused("the message is empty").hint("write a text"));
    }
    Ok(OutgoingMessage {
        from,
        to,
        kind: "message".to_owned(),
        content,
        extra: Object::new(),
    })
}
