//! The journal of a team: every kind of event with its payload, and the state that follows from them.

mod changes;
pub mod cost;
mod event;
mod kind;
pub mod payload;
mod run_state;

pub use changes::{apply, changes};
pub use event::{Event, LINE_LIMIT, NewEvent, family};
pub use kind::{EventKind, Kind, Unread};
pub use run_state::{Finished, Gate, GateDecision, HOST, ON_BASE, RunState, StageEntry};
