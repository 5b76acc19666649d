//! Keeping the model current: all teams in short, and each team that somebody looks at.

mod hub;
mod log;
mod sessions;
mod subscriber;
mod team_feed;

pub use hub::{Hub, Settings};
pub use log::follow_log;
pub use subscriber::{Stream, Subscriber, stream, stream_of};
pub use team_feed::TeamFeed;

pub(crate) use log::PARTS;
