//! Noticing changes: all changes of a team as they happen, and what one worker listens for.

use std::time::Duration;

use teamster_journal::Event;
use teamster_types::{TaskId, WorkerName};

use crate::error::Result;
use crate::store::Signal;

/// A change that was noticed.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The journal has a new event.
    Event(Box<Event>),
    /// A worker's heartbeat was written or taken away.
    Beat(WorkerName),
    /// The file of a task is not what it was some seconds ago, whoever wrote it: behind an event that told of it already,
    /// or behind nothing.
    Task(TaskId),
    /// Files changed without an event, as when a program that is not ours writes to them. A change of ours whose event
    /// is not readable yet may be told this way first: better one look too many than a change that nobody sees.
    Foreign,
}

/// Tells of changes as they happen.
pub trait Watch: Send {
    /// Waits up to `patience` for the next changes; empty when nothing happened. Events come in order, each once.
    fn wait(&mut self, patience: Duration) -> Result<Vec<Change>>;
}

/// Tells whether anything may have changed since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Changes with every event.
    pub journal: u64,
    /// Changes with every change of the task files, by whomever; a renewed lease is one too.
    pub tasks: u64,
}

/// Holds what a worker heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Changes when the team may have changed.
    pub pulse: Pulse,
    /// The stop signals that wait for the worker.
    pub signals: Vec<Signal>,
}

/// Listens for one worker, whether it works or waits.
///
/// It may keep things open, so that a hundred workers who hear nothing cost next to nothing.
pub trait Listen: Send {
    /// Returns what there is to hear now.
    fn hear(&mut self) -> Result<Heard>;
}
