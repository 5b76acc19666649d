//! Seeing the team: the live page with its API, and the terminal view. Both render the one model of `teamster-view`.
//!
//! # How it works
//!
//! - [`watch`] keeps the model current: two threads for the lists of teams and sessions, and a feed with two threads for each
//!   team that somebody looks at. The system tells them which files changed; a slow poll is behind it for what it misses.
//! - [`server`] answers `/api/v1`, streams changes, and serves the page. [`guard`] rules on every request first.
//! - [`api`] has the types and the routes in one table, and makes the documents from them.
//! - What a page can do is done by `teamster-app`, by the functions that the command line calls.
//!
//! The asynchronous runtime exists only while the server runs; everything that looks at files does so in threads.
//!
//! # What it refuses
//!
//! It refuses requests that do not come over this machine's loopback, ask for another host, have no key, or are sent by another
//! page. It writes
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
