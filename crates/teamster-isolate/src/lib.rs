//! Everything that starts, watches and stops other programs.
//!
//! - Asking a program a short question, such as its version ([`ask`]).
//! - [`git`]: the repository, a worktree for each worker, and what a worker has changed.
//! - [`tmux`]: panes in which a person can watch workers.
//!
//! No program is ever waited for longer than we said. It gets no input, its answer is cut at a limit, and when its time is
//! up it is ended together with the group of processes it started.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the crate that the ban on starting processes protects"
)]

mod bounded;
mod brief;
pub mod git;
pub mod tmux;

pub use brief::{Answer, Silence, ask, find_program};
