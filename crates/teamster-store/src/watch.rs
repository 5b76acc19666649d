//! A stream of changes.

use std::time::Duration;

use teamster_types::WorkerName;
use teamster_types::event::Event;

use crate::error::Result;

/// Something changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The journal has a new event.
    Event(Box<Event>),
    /// A worker's heartbeat was written or taken away.
    Beat(WorkerName),
    /// Files changed without an event, as when a program that is not ours writes to them. A change of ours whose event
    /// is not readable yet may be told this way first: better one look too many than a change that nobody sees.
    Foreign,
}

/// Changes as they happen.
pub trait Watch: Send {
    /// Waits up to `patience` for the next changes; empty when nothing happened. Events come in order, each once.
    fn wait(&mut self, patience: Duration) -> Result<Vec<Change>>;
}
