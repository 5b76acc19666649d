//! Sessions with an approval gate: `session`, `state`, `ticket`, `finding`

mod finding;
mod session;
mod state;
mod ticket;

use teamster_fs::Dir;
use teamster_party::{Kind, Party, PartyError};
use teamster_store::{Clock, SystemClock};
use teamster_types::Time;

use crate::context::Context;
use crate::error::{CommandError, ErrorKind, Result};
pub use finding::Finding;
pub use session::Session;
pub use state::State;
pub use ticket::Ticket;

/// The project's sessions; an error when there were never any.
fn party(context: &Context) -> Result<Party> {
    let found = match Dir::open_root(&context.layout.project)? {
        Some(project) => Party::find(&project)?,
        None => None,
    };
    found.ok_or_else(|| {
        CommandError::not_found(format!(
            "there is no session in {}",
            context.layout.project.display()
        ))
        .hint("`teamster session init --team TEAM --task TEXT` begins one")
    })
}

fn now() -> Time {
    SystemClock.now()
}

impl From<PartyError> for CommandError {
    fn from(error: PartyError) -> Self {
        let kind = match error.kind {
            Kind::NotFound => ErrorKind::NotFound,
            Kind::Conflict => ErrorKind::Conflict,
            Kind::Refused => ErrorKind::Refused,
            Kind::Unreachable => ErrorKind::Unreachable,
            Kind::Damaged => ErrorKind::Failed,
        };
        CommandError::new(kind, error.message).hint(error.hint)
    }
}
