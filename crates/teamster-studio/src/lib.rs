//! Live views of a team: the web page with its API, and the terminal view `top`. Both render the one model of `teamster-view`.
//!
//! # What it owns
//!
//! The HTTP server, the stream of events, the page, and the screens of `teamster top` and `teamster replay` ([`top`]).
//!
//! # How it works
//!
//! - [`watch`] keeps the model current: two threads for the lists of teams and sessions, and a feed with two threads
//!   for each team that is being viewed. File system notifications trigger updates; a slow poll covers missed ones.
//! - [`server`] answers `/api/v1`, streams changes, and serves the page. [`guard`] accepts or rejects every request before
//!   anything else looks at it.
//! - [`api`] has the types and the routes in one table, and makes the documents from them.
//! - Commands from a page are executed by `teamster-app`, with the same functions as on the command line.
//!
//! The asynchronous runtime exists only while the server runs; all file access happens on separate threads.
//!
//! # What it refuses
//!
//! It rejects requests that do not come over this machine's loopback interface, name another host, have no key, or are
//! sent by another page. It writes no files: changes to a team are made by `teamster-app`, and the binary keeps the
//! key.

pub mod api;
mod error;
pub mod guard;
pub mod keys;
pub mod server;
mod shown;
pub mod top;
pub mod watch;

pub use error::ApiError;
pub use shown::{display_json, to_json};
