//! Keeping the model current: all teams in short, and each team that somebody looks at.

mod desk;
mod hub;
mod sessions;
mod subscriber;

pub use desk::Desk;
pub use hub::{Hub, Settings};
pub use subscriber::{Stream, Subscriber, stream};
