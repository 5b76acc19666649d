//! Sessions with an approval gate, in the folder `.party` of a project: a format that other tools read, too. A run keeps a
//! session here, and people and scripts can lead one by hand with `teamster session`, `state`, `ticket` and `finding`.
//!
//! # What it owns
//!
//! ```text
//! .party/session.json      the session: team, phase, every step it took      PartySession
//!        findings/*.md     what a phase found out                            Phase
//!        tickets/*.json    pieces of work that must be done first            Ticket
//!        approvals/*.json  decisions at the gate, for auditors               ApprovalRecord
//!        archive/{id}/     earlier sessions
//!        sessions/{team}/  the same for a team whose session began during another team's
//!        events.ndjson     a log of sessions, steps, tickets and decisions
//! ```
//!
//! # How it works
//!
//! A session has a phase. The flow `party` of `teamster-types` defines the allowed transitions and their conditions,
//! such as a finding of the phase that is left, or completed tickets. [`Party`] is the folder; every change is made
//! under its one lock, and each file is replaced atomically.
//!
//! # What it refuses
//!
//! An illegal transition changes nothing. The record of a decision is never overwritten, and teamster never takes a
//! decision from it. People read these files and share them, so every text is redacted before it is written. Data of
//! other programs in a file is preserved.

mod approval;
mod error;
mod finding;
mod front_matter;
mod session;
mod ticket;

use std::time::Duration;

use teamster_fs::{Dir, Lock, LockWait, layout};
use teamster_types::TeamName;

pub use approval::{ApprovalDecision, ApprovalRecord, NewApproval};
pub use error::{PartyError, PartyErrorKind};
pub use finding::{PHASES, Phase};
pub use session::{FixLoop, MAX_ATTEMPTS, NewSession, PartySession, PhaseChange, TakenStep};
pub use ticket::{NewTicket, TaskTicket, Ticket, TicketStatus};

/// The result of an operation.
pub type Result<T, E = PartyError> = std::result::Result<T, E>;

/// How long a change waits for another change of the same session.
const PATIENCE: Duration = Duration::from_secs(5);

/// A project's folder for sessions.
#[derive(Debug)]
pub struct Party {
    dir: Dir,
}

impl Party {
    /// Returns the existing folder, or `None` when the project has none.
    pub fn find(project: &Dir) -> Result<Option<Self>> {
        Ok(project.child(layout::PARTY)?.map(|dir| Self { dir }))
    }

    /// Returns the folder, creating it if necessary.
    pub fn make(project: &Dir) -> Result<Self> {
        Self::create(project.child_or_create(layout::PARTY)?)
    }

    /// Returns the folder of a team's session, or `None` when there is none: the team's own if it has one, otherwise
    /// the project's.
    pub fn find_for(project: &Dir, team: &TeamName) -> Result<Option<Self>> {
        let own = project.descend(&layout::own_party(team))?;
        match own.map(|dir| Self { dir }) {
            Some(own) if own.has_session()? => Ok(Some(own)),
            _ => Self::find(project),
        }
    }

    /// Returns the folder for the session of a team, creating it if necessary. It is the project's, unless that holds
    /// an unfinished session of another team: then the team gets its own folder within it, and keeps it.
    pub fn make_for(project: &Dir, team: &TeamName) -> Result<Self> {
        let shared = Self::make(project)?;
        let own = project.descend(&layout::own_party(team))?;
        let has_own = match own.map(|dir| Self { dir }) {
            Some(own) => own.has_session()?,
            None => false,
        };
        // A damaged session belongs to no team.
        let other = shared.session().ok().flatten();
        let is_taken = other.is_some_and(|other| other.is_active() && other.team != team.as_str());
        if has_own || is_taken {
            return Self::create(project.descend_or_create(&layout::own_party(team))?);
        }
        Ok(shared)
    }

    /// Returns the sessions of teams that have their own folder, by team name.
    pub fn beside(project: &Dir) -> Result<Vec<(String, PartySession)>> {
        let Some(dir) = project.descend(&[layout::PARTY, layout::PARTY_SESSIONS])? else {
            return Ok(Vec::new());
        };
        let mut names: Vec<String> = dir.entries()?.into_iter().map(|entry| entry.name).collect();
        names.sort();
        let mut sessions = Vec::new();
        for name in names {
            if let Some(dir) = dir.child(&name)?
                && let Some(session) = (Self { dir }).session()?
            {
                sessions.push((name, session));
            }
        }
        Ok(sessions)
    }

    fn has_session(&self) -> Result<bool> {
        Ok(self.dir.stamp(layout::SESSION)?.is_some())
    }

    fn create(dir: Dir) -> Result<Self> {
        for folder in [layout::FINDINGS, layout::TICKETS, layout::APPROVALS] {
            dir.child_or_create(folder)?;
        }
        Ok(Self { dir })
    }

    /// Takes the lock that every change requires; the kernel releases it when the process dies.
    fn lock(&self) -> Result<Lock> {
        match Lock::wait(&self.dir, layout::PARTY_LOCK, PATIENCE, false)? {
            LockWait::Held(lock) => Ok(lock),
            LockWait::TimedOut => Err(PartyError::conflict(
                "another process is changing the session",
                "try again",
            )),
        }
    }

    fn folder(&self, name: &str) -> Result<Dir> {
        Ok(self.dir.child_or_create(name)?)
    }
}
