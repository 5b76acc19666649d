//! The interface of a back end: a transaction that changes one team atomically, and what the rules need from it, such
//! as a clock.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use teamster_journal::{Event, EventActor, NewEvent};
use teamster_types::failure::Failure;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::message::{Mailbox, Message};
use teamster_types::paths::Reservations;
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::task::Task;
use teamster_types::team::{NewTeam, TeamConfig};
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use crate::error::Result;
use crate::export::TeamExport;
use crate::store::{DeletedTeam, ReadStore, Signal};

pub use crate::rules::{created, no_task, refuse_held};

/// The source of time. Callers pass it in, so that a test or a simulation can control it.
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

/// A position in a mailbox: the reader has passed everything before it.
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

/// Which tasks are offered to a worker that asks for work, in ascending order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// Pending tasks that are assigned to the worker.
    Own,
    /// Pending tasks without an owner or with a lost owner, and tasks in progress whose lease has expired.
    Free,
}

/// What a transaction knows before it reads anything.
#[derive(Clone, Copy, Debug)]
pub struct TxnContext<'a> {
    /// The team that is changed.
    pub team: &'a TeamName,
    /// The time of the transaction, by the store's clock.
    pub now: Time,
    /// The process that makes the change, which is recorded in claims.
    pub process: &'a ProcessId,
    /// The default lease of a claim.
    pub lease: std::time::Duration,
    /// How tasks with overlapping paths are handled.
    pub reservations: Reservations,
}

/// A transaction on one team. Its writes take effect only if it commits.
///
/// The provided methods about foreign programs suit a store that only teamster writes to.
pub trait Txn {
    /// Returns what is known before anything is read.
    fn context(&self) -> TxnContext<'_>;

    /// Returns the time of the transaction, by the store's clock.
    fn now(&self) -> Time {
        self.context().now
    }

    /// Returns a new secret or id.
    fn random(&mut self) -> String {
        teamster_fs::random_hex()
    }

    /// Returns the process that makes the change, which is recorded in claims.
    fn me(&self) -> ProcessId {
        self.context().process.clone()
    }

    /// Returns the default lease of a claim.
    fn lease(&self) -> std::time::Duration {
        self.context().lease
    }

    /// Returns how tasks with overlapping paths are handled.
    fn reservations(&self) -> Reservations {
        self.context().reservations
    }

    /// Returns the name of the team that is changed.
    fn team(&self) -> &TeamName {
        self.context().team
    }

    /// Returns the events of the journal from a position on, up to this change.
    fn events_from(&mut self, from: u64) -> Result<Vec<Event>>;

    /// Returns the team's registry.
    fn config(&mut self) -> Result<Arc<TeamConfig>>;

    /// Opens the registry for writing: foreign programs are locked out of it until the transaction ends.
    fn open_config(&mut self) -> Result<TeamConfig>;

    /// Replaces the registry.
    fn put_config(&mut self, config: TeamConfig);

    /// Returns a task for reading only: a foreign program may change it immediately afterwards.
    fn read_task(&mut self, id: &TaskId) -> Result<Option<Task>>;

    /// Opens a task for writing: foreign programs are locked out of it until the transaction ends.
    fn open(&mut self, id: &TaskId) -> Result<Option<Task>> {
        self.read_task(id)
    }

    /// Creates or replaces a task.
    fn put(&mut self, task: Task);

    /// Removes the task and its failure record.
    fn remove(&mut self, id: &TaskId) -> Result<()>;

    /// Returns the id for a new task; foreign programs are locked out of the task list until the transaction ends.
    fn new_id(&mut self) -> Result<TaskId>;

    /// Returns the record of the task's failures.
    fn failure(&mut self, id: &TaskId) -> Result<Option<Failure>>;

    /// Replaces the record of a task's failures; `None` removes it.
    fn put_failure(&mut self, id: &TaskId, failure: Option<Failure>);

    /// Returns the first task after `after` that may be claimable; the caller must still check it.
    fn next_candidate(
        &mut self,
        which: Candidates,
        worker: &WorkerName,
        capabilities: &[String],
        lost: &[WorkerName],
        after: Option<&TaskId>,
    ) -> Result<Option<TaskId>>;

    /// Returns whether any pending task has an owner.
    fn has_assigned(&mut self) -> Result<bool>;

    /// Returns the tasks that are in progress.
    fn in_progress(&mut self) -> Result<Vec<TaskId>>;

    /// Rereads everything that a foreign program may have changed. Returns true when another search is worthwhile.
    fn refresh(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Takes the lock that other programs respect while a task is being claimed. Returns false when another claimer
    /// holds it.
    fn lock_claim(&mut self, _id: &TaskId, _worker: &WorkerName) -> Result<bool> {
        Ok(true)
    }

    /// Releases the lock of a claim that was not made.
    fn unlock_claim(&mut self, _id: &TaskId) -> Result<()> {
        Ok(())
    }

    /// Returns whether a process is alive.
    fn process_state(&self, process: &ProcessId) -> ProcessState;

    /// Returns a worker's heartbeat.
    fn heartbeat(&mut self, worker: &WorkerName) -> Result<Option<Heartbeat>>;

    /// Returns the heartbeats of all workers, for routing.
    fn heartbeats(&mut self) -> Result<Vec<Heartbeat>>;

    /// Adds an event. Staged writes take effect only in a transaction with at least one event.
    fn event(&mut self, event: NewEvent);

    /// Replaces a task without an event (a renewed lease).
    fn put_unjournalled(&mut self, task: Task) -> Result<()>;

    /// Returns whether a mailbox exists.
    fn has_mailbox(&mut self, mailbox: &Mailbox) -> Result<bool>;

    /// Returns the workers that have an outbox.
    fn outboxes(&mut self) -> Result<Vec<WorkerName>>;

    /// Appends a message to a mailbox.
    fn deliver(&mut self, mailbox: &Mailbox, message: Message) -> Result<()>;

    /// Adds a message to an inbox that Claude Code owns.
    fn deliver_native(&mut self, name: &str, message: &Message) -> Result<()>;

    /// Removes and returns the first entry of an inbox that Claude Code owns; with `for_good`, removes all entries and
    /// the inbox itself.
    fn take_native(&mut self, _name: &str, _for_good: bool) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }

    /// Returns how far a mailbox has been read.
    fn cursor(&mut self, mailbox: &Mailbox) -> Result<MailCursor>;

    /// Moves the cursor of a mailbox.
    fn put_cursor(&mut self, mailbox: &Mailbox, cursor: MailCursor) -> Result<()>;

    /// Returns up to `limit` lines from `from` on, each with the position after it. A line that is not a message is an
    /// error that says why.
    fn lines(
        &mut self,
        mailbox: &Mailbox,
        from: Position,
        limit: usize,
    ) -> Result<Vec<(Position, Result<Message, String>)>>;

    /// Sets a stop signal, or removes those of the worker.
    fn put_signal(&mut self, worker: &WorkerName, signal: Option<&Signal>) -> Result<()>;
}

/// A back end: it runs transactions. Plain reads are its [`ReadStore`] part.
pub trait Backend: ReadStore {
    /// Runs one transaction. `change` may run several times, each time from the beginning, until it commits without a
    /// conflict. Returns the journal position before its first event; the value is meaningless for a change without
    /// events.
    fn change(
        &self,
        team: &TeamName,
        what: &'static str,
        change: &mut dyn FnMut(&mut dyn Txn) -> Result<()>,
    ) -> Result<u64>;

    /// Creates a team atomically, with its first event.
    fn new_team(&self, new: &NewTeam, base: Option<&str>) -> Result<TeamConfig>;

    /// Removes a team and moves its files to the trash. Whether the team is still in use is checked while no task can
    /// be claimed.
    fn drop_team(&self, team: &TeamName, actor: &EventActor, force: bool) -> Result<DeletedTeam>;

    /// Returns a consistent snapshot of everything a team has, claims included.
    fn snapshot_team(&self, team: &TeamName) -> Result<TeamExport>;

    /// Creates a team from an export, atomically; refused when a team of that name exists.
    fn restore_team(&self, export: &TeamExport) -> Result<()>;
}
