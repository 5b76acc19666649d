//! Sessions with an approval gate: `session`, `state`, `ticket`, `finding`

mod finding;
mod session;
mod state;
mod ticket;

use teamster_fs::Dir;
use teamster_party::Party;
use teamster_store::{Clock, SystemClock};
use teamster_types::Time;

use crate::context::Context;
use crate::error::{AppError, Result};
pub use finding::Finding;
pub use session::Session;
pub use state::State;
pub use ticket::Ticket;

/// What is said where there is no session.
const NONE: &str =
    "there is no session here; `teamster session init --team TEAM --task TEXT` begins one";

fn find(context: &Context) -> Result<Option<Party>> {
    match Dir::open_root(&context.layout.project)? {
        Some(project) => Ok(Party::find(&project)?),
        None => Ok(None),
    }
}

/// The project's session, if there is one.
fn session(context: &Context) -> Result<Option<(Party, teamster_party::PartySession)>> {
    let Some(party) = find(context)? else {
        return Ok(None);
    };
    Ok(party.session()?.map(|session| (party, session)))
}

/// The project's sessions; an error when there were never any.
fn party(context: &Context) -> Result<Party> {
    find(context)?.ok_or_else(|| {
        AppError::not_found(format!(
            "there is no session in {}",
            context.layout.project.display()
        ))
        .hint("`teamster session init --team TEAM --task TEXT` begins one")
    })
}

fn now() -> Time {
    SystemClock.now()
}
