//! A stream of changes.

use std::time::Duration;

use teamster_journal::Event;
use teamster_types::{TaskId, WorkerName};

use crate::error::Result;

/// Something changed.
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

/// Changes as they happen.
pub trait Watch: Send {
    /// Waits up to `patience` for the next changes; empty when nothing happened. Events come in order, each once.
    fn wait(&mut self, patience: Duration) -> Result<Vec<Change>>;
}
