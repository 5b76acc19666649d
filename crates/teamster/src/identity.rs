//! Who is calling, and what that allows.

use teamster_store::Reader;
use teamster_types::WorkerName;

use crate::env_vars;
use crate::error::{CommandError, Result};

/// The name of a person in messages and events.
const USER: &str = "user";
/// The name of whoever leads the team.
const LEAD: &str = "lead";

/// Who is calling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A person, or a script of theirs.
    Person,
    /// The agent of a worker: its bridge has set `TEAMSTER_WORKER`. It acts in no other name and removes nothing.
    Worker(WorkerName),
}

impl Identity {
    /// Reads it from the environment.
    pub fn from_env() -> Result<Self> {
        match env_vars::text(env_vars::WORKER) {
            None => Ok(Self::Person),
            Some(name) => Ok(Self::Worker(name.parse().map_err(|error| {
                CommandError::refused(format!("{} is set, but {error}", env_vars::WORKER))
                    .hint("it is set by a bridge for its agent; unset it")
            })?)),
        }
    }

    /// The name under which changes are journalled.
    pub fn actor(&self) -> &str {
        match self {
            Self::Person => USER,
            Self::Worker(name) => name.as_str(),
        }
    }

    /// Refuses what only a person may do.
    pub fn must_be_person(&self, what: &str) -> Result {
        match self {
            Self::Person => Ok(()),
            Self::Worker(name) => Err(CommandError::refused(format!(
                "{what} is for people, and {} says that {name} is calling",
                env_vars::WORKER
            ))
            .hint("send a message to the lead instead: `teamster message send --to lead …`")),
        }
    }

    /// The worker to act for: the one that was asked for, else the caller itself.
    pub fn worker(&self, asked: Option<&str>, flag: &str) -> Result<WorkerName> {
        match (self, asked) {
            (Self::Worker(me), None) => Ok(me.clone()),
            (Self::Worker(me), Some(asked)) if asked == me.as_str() => Ok(me.clone()),
            (Self::Worker(me), Some(asked)) => {
                // A bad name is named as such, whoever asks.
                let other: WorkerName = asked.parse()?;
                Err(not_you(me, other.as_str(), flag))
            }
            (Self::Person, Some(asked)) => Ok(asked.parse()?),
            (Self::Person, None) => Err(CommandError::usage(format!("{flag} is missing"))
                .hint(format!("name the worker: {flag} worker-1"))),
        }
    }

    /// Whose mail to read.
    pub fn reader(&self, asked: Option<&str>) -> Result<Reader> {
        match (self, asked) {
            (Self::Person, Some(LEAD)) => Ok(Reader::Lead),
            (Self::Worker(me), Some(LEAD)) => Err(not_you(me, LEAD, "--as")),
            _ => Ok(Reader::Worker(self.worker(asked, "--as")?)),
        }
    }

    /// In whose name a message is sent. A person speaks as the lead, and to the lead as themselves.
    pub fn sender(&self, asked: Option<&str>, to_lead: bool) -> Result<String> {
        match (self, asked) {
            (Self::Person, None) => Ok(if to_lead { USER } else { LEAD }.to_owned()),
            (Self::Person, Some(name @ (LEAD | USER))) => Ok(name.to_owned()),
            (Self::Worker(me), Some(name @ (LEAD | USER))) => Err(not_you(me, name, "--from")),
            _ => Ok(self.worker(asked, "--from")?.into()),
        }
    }
}

fn not_you(me: &WorkerName, other: &str, flag: &str) -> CommandError {
    CommandError::refused(format!("{me} is calling and cannot act as {other}"))
        .hint(format!("leave {flag} out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> Identity {
        Identity::Worker("worker-1".parse().unwrap())
    }

    #[test]
    fn a_person_speaks_as_the_lead_and_to_the_lead_as_a_user() {
        let person = Identity::Person;
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
