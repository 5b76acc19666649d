//! Everything that starts, watches and stops other programs.
//!
//! - [`ask`] asks a program a short question, such as its version, without ever waiting for it longer than we said.
//!   The program gets no input, its answer is cut at a limit, and when its time is up it is ended together with the
//!   group of processes it started.
//! - [`child`] runs a program under watch, line by line.
//! - [`detached`] starts a program that outlives us.
//! - [`git`] is the repository and its worktrees, [`tmux`] our own terminal server.
//! - [`tree`] finds and ends everything that one launch started.
//! - [`Held`] is a handle on one process that cannot reach another.
//! - [`OrTrace`] notes errors that stop nothing.
//! - [`end()`] ends a process that was recorded, and no other one that has its pid by now.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the crate that the ban on starting processes protects"
)]

mod bounded;
mod brief;
pub mod child;
pub mod detached;
mod die;
mod end;
pub mod git;
mod held;
mod spawn;
pub mod tmux;
mod trace;
pub mod tree;

pub use brief::{Answer, Silence, ask, find_program, is_program};
pub use die::{die, ignore_polite_signals};
pub use end::{Ended, GRACE, NotEnded, end};
pub use held::Held;
pub use rustix::process::Signal;
pub use trace::OrTrace;
