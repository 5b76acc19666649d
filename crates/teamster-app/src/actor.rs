//! The caller of a use case, and what it may do.

use std::sync::OnceLock;

use teamster_fs::processes;
use teamster_journal::EventActor;
use teamster_store::Reader;
use teamster_types::flow::DecisionChannel;
use teamster_types::{TeamName, WorkerName};

use crate::env_vars;
use crate::error::{AppError, Result};

/// The name of a person in messages and events.
const USER: &str = "user";
/// The name of a program that belongs to no worker and may change nothing.
const PROGRAM: &str = "program";
/// The name of the team's lead.
const LEAD: &str = "lead";

/// The caller of a use case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A person at a terminal, or a script that they run.
    Person,
    /// The same person, through the web page that they opened.
    Page,
    /// The agent of a worker: it runs below that worker's bridge, or `TEAMSTER_WORKER` names it. It may act only in its
    /// own name, and may not remove anything.
    Worker(WorkerName),
    /// A program that runs below an agent, a leader or a check, but belongs to no worker. It may only read.
    Program,
}

/// The worker whose bridge the caller runs below, regardless of the caller's own environment variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BridgeIdentity {
    /// The team of the worker.
    pub(crate) team: TeamName,
    /// The worker.
    pub(crate) worker: WorkerName,
}

impl BridgeIdentity {
    /// Finds the bridge above this process; `None` when there is none. The result is cached.
    pub(crate) fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<BridgeIdentity>> = OnceLock::new();
        FOUND.get_or_init(Self::detect).as_ref()
    }

    fn detect() -> Option<Self> {
        // A bridge carries its own identity in its environment; its descendants are below it.
        let parent = processes::parent_of(std::process::id())?;
        let carried = processes::carried_by_outermost(parent, env_vars::BRIDGE)?;
        let (team, worker) = carried.to_str()?.split_once('/')?;
        Some(Self {
            team: team.parse().ok()?,
            worker: worker.parse().ok()?,
        })
    }
}

impl Actor {
    /// Determines the caller: first by its ancestor processes, which descendants cannot change, then by the
    /// environment.
    pub fn find() -> Result<Self> {
        let bridge = BridgeIdentity::find();
        let named: Option<WorkerName> = match env_vars::text(env_vars::WORKER) {
            None => None,
            Some(name) => Some(name.parse().map_err(|error| {
                AppError::refused(format!("{} is set, but {error}", env_vars::WORKER))
                    .hint("it is set by a bridge for its agent; unset it")
            })?),
        };
        match (bridge, named) {
            (Some(bridge), Some(name)) if name != bridge.worker => Err(acts_for_another(
                &bridge.worker,
                name.as_str(),
                env_vars::WORKER,
            )),
            (Some(bridge), _) => Ok(Self::Worker(bridge.worker.clone())),
            // A check, a leader or an orphaned process can claim to be any worker, so its variables are not trusted.
            (None, _) if is_launched() => Ok(Self::Program),
            (None, Some(name)) => Ok(Self::Worker(name)),
            (None, None) => Ok(Self::Person),
        }
    }

    /// Returns the actor for requests from the page that this process serves.
    #[must_use]
    pub fn at_page(self) -> Self {
        match self {
            Self::Person | Self::Page => Self::Page,
            other @ (Self::Worker(_) | Self::Program) => other,
        }
    }

    /// Returns the name of the channel through which a decision came, for the journal.
    pub const fn via(&self) -> DecisionChannel {
        match self {
            Self::Page => DecisionChannel::Studio,
            Self::Person | Self::Worker(_) | Self::Program => DecisionChannel::Terminal,
        }
    }

    /// Returns the name in messages and findings.
    pub fn name(&self) -> &str {
        match self {
            Self::Person | Self::Page => USER,
            Self::Worker(name) => name.as_str(),
            Self::Program => PROGRAM,
        }
    }

    /// Returns the actor for the events that record a request.
    pub fn recorded_as(&self) -> EventActor {
        match self {
            Self::Person | Self::Page => EventActor::Person,
            Self::Worker(name) => EventActor::from(name),
            Self::Program => EventActor::Foreign,
        }
    }

    /// Refuses an action that only a person may perform.
    pub fn must_be_person(&self, what: &str) -> Result {
        match self {
            Self::Person | Self::Page => Ok(()),
            Self::Worker(name) => {
                let how = match env_vars::get(env_vars::WORKER) {
                    Some(_) => format!("{} says that {name} is calling", env_vars::WORKER),
                    None => format!("this runs below a worker, {name}"),
                };
                Err(
                    AppError::refused(format!("{what} is for people, and {how}")).hint(
                        "send a message to the lead instead: `teamster message send --to lead …`",
                    ),
                )
            }
            Self::Program => Err(reserved_for_people(what)),
        }
    }

    /// Returns the worker to act for: the requested one, otherwise the caller itself.
    pub fn worker(&self, asked: Option<&str>, flag: &str) -> Result<WorkerName> {
        match (self, asked) {
            (Self::Program, _) => Err(reserved_for_people("acting for a worker")),
            (Self::Worker(me), None) => Ok(me.clone()),
            (Self::Worker(me), Some(asked)) if asked == me.as_str() => Ok(me.clone()),
            (Self::Worker(me), Some(asked)) => {
                // An invalid name is reported as such to every caller.
                let other: WorkerName = asked.parse()?;
                Err(acts_for_another(me, other.as_str(), flag))
            }
            (Self::Person | Self::Page, Some(asked)) => Ok(asked.parse()?),
            (Self::Person | Self::Page, None) => Err(AppError::usage(format!("{flag} is missing"))
                .hint(format!("name the worker: {flag} worker-1"))),
        }
    }

    /// Returns the owner of the mailbox to read.
    pub fn reader(&self, asked: Option<&str>) -> Result<Reader> {
        match (self, asked) {
            (Self::Person | Self::Page, Some(LEAD)) => Ok(Reader::Lead),
            (Self::Worker(me), Some(LEAD)) => Err(acts_for_another(me, LEAD, "--as")),
            _ => Ok(Reader::Worker(self.worker(asked, "--as")?)),
        }
    }

    /// Returns the sender of a message. A person sends as the lead, but as themselves to the lead.
    pub fn sender(&self, asked: Option<&str>, to_lead: bool) -> Result<String> {
        match (self, asked) {
            (Self::Person | Self::Page, None) => Ok(if to_lead { USER } else { LEAD }.to_owned()),
            (Self::Person | Self::Page, Some(name @ (LEAD | USER))) => Ok(name.to_owned()),
            (Self::Worker(me), Some(name @ (LEAD | USER))) => {
                Err(acts_for_another(me, name, "--from"))
            }
            _ => Ok(self.worker(asked, "--from")?.into()),
        }
    }
}

/// Returns the error for an action that is reserved for people, called by a descendant of a worker, a leader or a
/// check.
pub(crate) fn reserved_for_people(what: &str) -> AppError {
    AppError::refused(format!(
        "{what} is for people, and this runs below a worker"
    ))
    .hint("call it from a terminal of your own")
}

/// Returns whether an ancestor process carries a launch number. This process itself is not considered, because it may
/// be a bridge. The result is cached.
fn is_launched() -> bool {
    static LAUNCHED: OnceLock<bool> = OnceLock::new();
    *LAUNCHED.get_or_init(|| {
        let parent = processes::parent_of(std::process::id());
        parent.is_some_and(|parent| processes::is_below_carrier(parent, env_vars::LAUNCH))
    })
}

fn acts_for_another(me: &WorkerName, other: &str, flag: &str) -> AppError {
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
