//! Keeping the model current: all teams in short, and each team that somebody looks at.

mod desk;
mod hub;
mod log;
mod sessions;
mod subscriber;

pub use desk::Desk;
pub use hub::{Hub, Settings};
pub use log::follow_log;
pub use subscriber::{Stream, Subscriber, stream, stream_of};

pub(crate) use log::PARTS;
