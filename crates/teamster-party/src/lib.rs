//! Sessions with an approval gate, in the folder `.party` of a project.
//!
//! A session has a phase, and the flow `party` says which phase may follow which and what must be there first: a finding
//! of the phase that is left, tickets that are done. Every change is made under one lock and is one atomic replacement of
//! one file; the events beside it tell the story. A step that may not be taken changes nothing.
//!
//! People read these files and pass them on, so every text is redacted before it is written.

mod approval;
mod archive;
mod error;
mod finding;
mod front_matter;
mod session;
mod ticket;

use std::time::Duration;

use teamster_fs::{Dir, Lock, Waited, layout};

pub use approval::{Approval, Decision, NewApproval, Via};
pub use error::{Kind, PartyError};
pub use finding::{PHASES, Phase};
pub use session::{FixLoop, NewSession, Passed, Session, Stepped};
pub use ticket::{NewTicket, Ticket, TicketStatus};

/// The result of an operation.
pub type Result<T, E = PartyError> = std::result::Result<T, E>;

/// How long somebody else at the same session is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A project's folder for sessions.
#[derive(Debug)]
pub struct Party {
    dir: Dir,
}

impl Party {
    /// The folder as it is; `None` when the project has none.
    pub fn find(project: &Dir) -> Result<Option<Self>> {
        Ok(project.child(layout::PARTY)?.map(|dir| Self { dir }))
    }

    /// The folder, made if need be.
    pub fn make(project: &Dir) -> Result<Self> {
        let dir = project.child_or_create(layout::PARTY)?;
        for folder in [layout::FINDINGS, layout::TICKETS, layout::APPROVALS] {
            dir.child_or_create(folder)?;
        }
        Ok(Self { dir })
    }

    /// Whoever changes anything holds this; the kernel frees it at their death.
    fn hold(&self) -> Result<Lock> {
        match Lock::wait(&self.dir, layout::PARTY_LOCK, PATIENCE, false)? {
            Waited::Held(lock) => Ok(lock),
            Waited::TimedOut => Err(PartyError::conflict(
                "somebody else changes the session at this moment",
                "try again",
            )),
        }
    }

    fn folder(&self, name: &str) -> Result<Dir> {
        Ok(self.dir.child_or_create(name)?)
    }
}
