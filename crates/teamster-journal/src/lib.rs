//! The journal of a team: what an event is, and what follows from all of them.

mod event;
pub mod gate;
mod usage;

pub use event::{Event, LINE_LIMIT, NewEvent, apply, changes};
pub use usage::{Tokens, Used};
