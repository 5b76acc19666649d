//! What a back end provides, one change of one team made whole or not at all, and what it is given: a clock, and the
//! rules that judge what it cannot.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use teamster_journal::{Event, EventActor, NewEvent};
use teamster_types::failure::Failure;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::message::{Mailbox, Message};
use teamster_types::paths::Reservations;
use teamster_types::process::{Life, ProcessId};
use teamster_types::task::Task;
use teamster_types::team::{NewTeam, TeamConfig};
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use crate::error::Result;
use crate::export::TeamExport;
use crate::store::{DeletedTeam, Read, Signal};

pub use crate::rules::{created, no_task, refuse_held};

/// Tells the time. It is passed in, so that a test or a simulation can be its own clock.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Time;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Time::from_millis(millis.saturating_add(teamster_fs::fail::clock_offset()))
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Time {
        (**self).now()
    }
}

/// A place in the stream of one mailbox: everything before it has been passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// How far a mailbox has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailCursor {
    /// Everything before it is acknowledged and will not be delivered again.
    pub acked: Position,
    /// Everything before it was delivered at least once.
    pub delivered: Position,
}

/// Which tasks a worker that asks for work is offered, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// Pending tasks that are assigned to it.
    Own,
    /// Pending tasks that nobody owns or whose owner is lost, and tasks in progress whose lease ran out.
    Free,
}

/// One change of one team. What is put is kept only if the change ends well.
pub trait Txn {
    /// Returns the time of the change, by the store's clock.
    fn now(&self) -> Time;

    /// Returns a new secret or id.
    fn random(&mut self) -> String;

    /// Returns the process that makes the change.
    fn me(&self) -> ProcessId;

    /// Returns how long claims last when nobody says otherwise.
    fn lease(&self) -> std::time::Duration;

    /// Returns what becomes of tasks whose paths overlap.
    fn reservations(&self) -> Reservations;

    /// Returns the name of the team that is changed.
    fn team(&self) -> &TeamName;

    /// Returns the events of the journal from a position on, up to this change.
    fn events_from(&mut self, from: u64) -> Result<Vec<Event>>;

    /// Returns the team's registry.
    fn config(&mut self) -> Result<Arc<TeamConfig>>;

    /// Opens the registry to be changed: foreign programs are locked out of it until the change ends.
    fn open_config(&mut self) -> Result<TeamConfig>;

    /// Replaces the registry.
    fn put_config(&mut self, config: TeamConfig);

    /// Returns a task as it stands, for looking at: it may be changed by a foreign program right after.
    fn look(&mut self, id: &TaskId) -> Result<Option<Task>>;

    /// Opens a task to be changed: foreign programs are locked out of it until the change ends.
    fn open(&mut self, id: &TaskId) -> Result<Option<Task>>;

    /// Makes or replaces a task.
    fn put(&mut self, task: Task);

    /// Removes the task and its sidecar.
    fn remove(&mut self, id: &TaskId) -> Result<()>;

    /// Returns the id for a new task; foreign programs are locked out of the list until the change ends.
    fn new_id(&mut self) -> Result<TaskId>;

    /// Returns how the task failed so far.
    fn failure(&mut self, id: &TaskId) -> Result<Option<Failure>>;

    /// Replaces the record of a task's failures; `None` removes it.
    fn put_failure(&mut self, id: &TaskId, failure: Option<Failure>);

    /// Returns the first task after `after` that may suit; the caller looks at it and decides.
    fn next_candidate(
        &mut self,
        which: Candidates,
        worker: &WorkerName,
        capabilities: &[String],
        lost: &[WorkerName],
        after: Option<&TaskId>,
    ) -> Result<Option<TaskId>>;

    /// Tells whether any pending task is assigned to somebody.
    fn has_assigned(&mut self) -> Result<bool>;

    /// Returns the tasks that somebody is at work on.
    fn in_progress(&mut self) -> Result<Vec<TaskId>>;

    /// Looks again at everything a foreign program may have changed. True when that is worth another search.
    fn refresh(&mut self) -> Result<bool>;

    /// Takes the lock that other programs honour while a task is being claimed. False: somebody else has it.
    fn hold_claim(&mut self, id: &TaskId, worker: &WorkerName) -> Result<bool>;

    /// Gives the lock of a claim back without a claim.
    fn drop_claim(&mut self, id: &TaskId) -> Result<()>;

    /// Tells whether a process lives.
    fn life(&self, process: &ProcessId) -> Life;

    /// Returns a worker's heartbeat.
    fn heartbeat(&mut self, worker: &WorkerName) -> Result<Option<Heartbeat>>;

    /// Returns the heartbeats of all workers, for routing.
    fn heartbeats(&mut self) -> Result<Vec<Heartbeat>>;

    /// Tells what happened. At least one event makes a change real; a change without any is not made.
    fn event(&mut self, event: NewEvent);

    /// Replaces a task without an event (a renewed lease).
    fn put_unjournalled(&mut self, task: Task) -> Result<()>;

    /// Tells whether a mailbox exists.
    fn has_mailbox(&mut self, mailbox: &Mailbox) -> Result<bool>;

    /// Returns the workers that have an outbox.
    fn outboxes(&mut self) -> Result<Vec<WorkerName>>;

    /// Puts a message at the end of a mailbox.
    fn deliver(&mut self, mailbox: &Mailbox, message: Message) -> Result<()>;

    /// Puts a message into an inbox that Claude Code owns.
    fn deliver_native(&mut self, name: &str, message: &Message) -> Result<()>;

    /// Takes the first entry, if there is one, out of an inbox that Claude Code owns; or all, and the inbox with them
    /// (`for_good`).
    fn take_native(&mut self, name: &str, for_good: bool) -> Result<Vec<Value>>;

    /// Returns how far a mailbox has been read.
    fn cursor(&mut self, mailbox: &Mailbox) -> Result<MailCursor>;

    /// Moves the cursor of a mailbox.
    fn put_cursor(&mut self, mailbox: &Mailbox, cursor: MailCursor) -> Result<()>;

    /// Returns up to `limit` lines from `from` on, each with the position behind it; what is no message says why.
    fn lines(
        &mut self,
        mailbox: &Mailbox,
        from: Position,
        limit: usize,
    ) -> Result<Vec<(Position, Result<Message, String>)>>;

    /// Puts or removes a stop signal.
    fn put_signal(&mut self, worker: &WorkerName, signal: Option<&Signal>) -> Result<()>;
}

/// A back end: it opens changes. Plain reads are its [`Read`] part.
pub trait Backend: Read {
    /// Makes one change. `change` may run more than once, each time from the beginning, until it is not disturbed. Returns the
    /// position of the journal before its first event; it means nothing for a change that tells of none.
    fn change(
        &self,
        team: &TeamName,
        what: &'static str,
        change: &mut dyn FnMut(&mut dyn Txn) -> Result<()>,
    ) -> Result<u64>;

    /// Makes a team, whole or not at all, with its first event.
    fn new_team(&self, new: &NewTeam, base: Option<&str>) -> Result<TeamConfig>;

    /// Removes a team, keeping its files aside. Who still holds it is judged while nobody can claim.
    fn drop_team(&self, team: &TeamName, actor: &EventActor, force: bool) -> Result<DeletedTeam>;

    /// Returns everything of a team, as it is at one moment, with the claims that there are.
    fn whole_team(&self, team: &TeamName) -> Result<TeamExport>;

    /// Makes a team of all that, whole or not at all; refused when there is one of that name.
    fn put_whole_team(&self, export: &TeamExport) -> Result<()>;
}
