//! What one worker listens for, whether it works or waits.

use crate::error::Result;
use crate::store::Signal;

/// Whether anything may have changed since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Changes with every event.
    pub journal: u64,
    /// Changes with every change of the task files, by whomever; a renewed lease is one too.
    pub tasks: u64,
}

/// What a worker heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Changes when the team may have changed.
    pub pulse: Pulse,
    /// The stop signals that wait for the worker.
    pub signals: Vec<Signal>,
}

/// One worker's ear. It may keep things open, so that a hundred workers who hear nothing cost next to nothing.
pub trait Listen: Send {
    /// What there is to hear now.
    fn hear(&mut self) -> Result<Heard>;
}
