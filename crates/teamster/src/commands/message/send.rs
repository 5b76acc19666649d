//! Implements `teamster message send` and `broadcast`.

use clap::Args;
use serde_json::json;
use teamster_app::messages::{self, ALL};
use teamster_store::Recipient;
use teamster_types::message::Message;

use crate::cli::TeamSelector;
use crate::commands::agent::BridgeClient;
use crate::context::Context;
use crate::error::Result;
use crate::shown::plain_line;

/// Send a message to a worker, the lead or everyone
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message send --to worker-1 \"Please look at task 3 first\"
  teamster message send --to lead --from worker-1 \"The form needs a designer\"
  teamster message send --to all \"Tests must stay green\"")]
pub struct MessageSendArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// The recipient: a worker, `lead` (or `team-lead`) or `all`
    #[arg(long, value_name = "NAME")]
    to: String,
    /// The sender [default: `TEAMSTER_WORKER`, else `lead`, or `user` for messages to the lead]
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// The text, at most 64 KiB
    text: String,
}

impl MessageSendArgs {
    pub fn run(self, context: &Context) -> Result {
        let from = context
            .actor
            .sender(self.from.as_deref(), messages::is_lead(&self.to))?;
        if let Some(bridge) = BridgeClient::find(context, self.team.team.as_deref())? {
            return bridge.send(context, &self.to, &self.text);
        }
        let team = self.team.find(context)?;
        let (to, sent) = messages::send(context, &team, from, &self.to, self.text)?;
        context.out.answer(
            || match (&to, sent.first()) {
                (Recipient::All, _) | (_, None) => json!({ "sent": sent.len() }),
                (_, Some(message)) => json!({ "message": message.as_object() }),
            },
            || sent_text(&to, &sent),
        )
    }
}

fn sent_text(to: &Recipient, sent: &[Message]) -> String {
    let names: Vec<String> = sent
        .iter()
        .map(|message| plain_line(message.to()))
        .collect();
    match (to, sent) {
        (Recipient::Worker(_) | Recipient::Lead, [message]) => {
            format!(
                "sent message {} to {}",
                plain_line(message.id()),
                names.join(", ")
            )
        }
        _ => format!("sent to {} members: {}", sent.len(), names.join(", ")),
    }
}

/// Send a message to every member
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message broadcast \"Tests must stay green\"")]
pub struct MessageBroadcastArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// The sender [default: `TEAMSTER_WORKER`, else `lead`]
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// The text, at most 64 KiB
    text: String,
}

impl MessageBroadcastArgs {
    pub fn run(self, context: &Context) -> Result {
        let from = context.actor.sender(self.from.as_deref(), false)?;
        if let Some(bridge) = BridgeClient::find(context, self.team.team.as_deref())? {
            return bridge.send(context, ALL, &self.text);
        }
        let team = self.team.find(context)?;
        let (_, sent) = messages::send(context, &team, from, ALL, self.text)?;
        context.out.answer(
            || json!({ "sent": sent.len() }),
            || format!("sent to {} members", sent.len()),
        )
    }
}
