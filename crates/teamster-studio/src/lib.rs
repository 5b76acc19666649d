//! Seeing the team: the live page with its API, and the terminal view. Both render the one model of `teamster-view`.
//!
//! # How it works
//!
//! - [`watch`] keeps the model current: a thread for the list of all teams, and a feed, a thread of its own, for each
//!   team that somebody looks at. Both hear from the system that files changed; nobody waits for a poll.
//! - [`server`] answers `/api/v1`, streams changes, and serves the page. [`guard`] rules on every request first.
//! - [`api`] has the types and the routes in one table, and makes the documents from them.
//! - What a page can do is done by `teamster-app`, by the functions that the command line calls.
//!
//! The asynchronous runtime exists only while the server runs; everything that looks at files does so in threads.
//!
//! # What it refuses
//!
//! Whoever is not on this machine's loopback, asks for another host, has no key, or is sent by another page. It writes
//! nothing but its own settings; what changes a team is done by `teamster-app`.

pub mod api;
mod error;
pub mod guard;
pub mod keys;
pub mod server;
mod shown;
pub mod top;
pub mod watch;

pub use error::ApiError;
pub use shown::{fit_to_see, to_json};
