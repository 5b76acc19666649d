//! Who asks, and what that allows.

use teamster_store::Reader;
use teamster_types::WorkerName;

use crate::env_vars;
use crate::error::{AppError, Result};

/// The name of a person in messages and events.
const USER: &str = "user";
/// The name of whoever leads the team.
const LEAD: &str = "lead";

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A person at a terminal, or a script of theirs.
    Person,
    /// The same person, by the page that they opened.
    Page,
    /// The agent of a worker: its bridge has set `TEAMSTER_WORKER`. It acts in no other name and removes nothing.
    Worker(WorkerName),
}

impl Actor {
    /// Reads from the environment who asks.
    pub fn from_env() -> Result<Self> {
        match env_vars::text(env_vars::WORKER) {
            None => Ok(Self::Person),
            Some(name) => Ok(Self::Worker(name.parse().map_err(|error| {
                AppError::refused(format!("{} is set, but {error}", env_vars::WORKER))
                    .hint("it is set by a bridge for its agent; unset it")
            })?)),
        }
    }

    /// Returns the actor for what is asked by the page of this process.
    #[must_use]
    pub fn at_page(self) -> Self {
        match self {
            Self::Person | Self::Page => Self::Page,
            Self::Worker(name) => Self::Worker(name),
        }
    }

    /// Returns the word in the journal for the way by which a decision came.
    pub const fn via(&self) -> &'static str {
        match self {
            Self::Page => "studio",
            Self::Person | Self::Worker(_) => "terminal",
        }
    }

    /// Returns the name under which changes are journalled.
    pub fn name(&self) -> &str {
        match self {
            Self::Person | Self::Page => USER,
            Self::Worker(name) => name.as_str(),
        }
    }

    /// Refuses what only a person may do.
    pub fn must_be_person(&self, what: &str) -> Result {
        match self {
            Self::Person | Self::Page => Ok(()),
            Self::Worker(name) => Err(AppError::refused(format!(
                "{what} is for people, and {} says that {name} is calling",
                env_vars::WORKER
            ))
            .hint("send a message to the lead instead: `teamster message send --to lead …`")),
        }
    }

    /// Returns the worker to act for: the one that was asked for, else the caller itself.
    pub fn worker(&self, asked: Option<&str>, flag: &str) -> Result<WorkerName> {
        match (self, asked) {
            (Self::Worker(me), None) => Ok(me.clone()),
            (Self::Worker(me), Some(asked)) if asked == me.as_str() => Ok(me.clone()),
            (Self::Worker(me), Some(asked)) => {
                // A bad name is named as such, whoever asks.
                let other: WorkerName = asked.parse()?;
                Err(not_you(me, other.as_str(), flag))
            }
            (Self::Person | Self::Page, Some(asked)) => Ok(asked.parse()?),
            (Self::Person | Self::Page, None) => Err(AppError::usage(format!("{flag} is missing"))
                .hint(format!("name the worker: {flag} worker-1"))),
        }
    }

    /// Returns whose mail to read.
    pub fn reader(&self, asked: Option<&str>) -> Result<Reader> {
        match (self, asked) {
            (Self::Person | Self::Page, Some(LEAD)) => Ok(Reader::Lead),
            (Self::Worker(me), Some(LEAD)) => Err(not_you(me, LEAD, "--as")),
            _ => Ok(Reader::Worker(self.worker(asked, "--as")?)),
        }
    }

    /// Returns the name in which a message is sent. A person speaks as the lead, and to the lead as themselves.
    pub fn sender(&self, asked: Option<&str>, to_lead: bool) -> Result<String> {
        match (self, asked) {
            (Self::Person | Self::Page, None) => Ok(if to_lead { USER } else { LEAD }.to_owned()),
            (Self::Person | Self::Page, Some(name @ (LEAD | USER))) => Ok(name.to_owned()),
            (Self::Worker(me), Some(name @ (LEAD | USER))) => Err(not_you(me, name, "--from")),
            _ => Ok(self.worker(asked, "--from")?.into()),
        }
    }
}

fn not_you(me: &WorkerName, other: &str, flag: &str) -> AppError {
    AppError::refused(format!("{me} is calling and cannot act as {other}"))
        .hint(format!("leave {flag} out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> Actor {
        Actor::Worker("worker-1".parse().unwrap())
    }

    #[test]
    fn a_person_speaks_as_the_lead_and_to_the_lead_as_a_user() {
        let person = Actor::Person;
        assert_eq!(person.sender(None, false).unwrap(), "lead");
        assert_eq!(person.sender(None, true).unwrap(), "user");
        assert_eq!(person.sender(Some("w"), true).unwrap(), "w");
        assert!(person.sender(Some("team-lead"), false).is_err());
    }

    #[test]
    fn a_worker_acts_for_itself_only() {
        assert_eq!(worker().sender(None, true).unwrap(), "worker-1");
        assert_eq!(worker().sender(Some("worker-1"), true).unwrap(), "worker-1");
        for other in ["lead", "user", "worker-2", "../x"] {
            assert!(worker().sender(Some(other), false).is_err(), "{other}");
            assert!(worker().reader(Some(other)).is_err(), "{other}");
            assert!(worker().worker(Some(other), "--worker").is_err(), "{other}");
        }
        assert!(worker().must_be_person("removing a team").is_err());
    }
}
