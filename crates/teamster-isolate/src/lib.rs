//! Everything that starts, watches and stops other programs.
//!
//! # What it owns
//!
//! No other crate starts a process or sends a signal; `clippy.toml` refuses `std::process::Command` elsewhere.
//!
//! - [`git`] is the repository: worktrees of workers, what they changed, the integration branch and the landing.
//! - [`child`] runs an agent or a check under watch and hands out its output line by line.
//! - [`detached`] starts programs that outlive us.
//! - [`guard`] stands above a program, and ends what it leaves running when it is killed.
//! - [`foreground`] runs a program of the person's own at their terminal, such as an editor.
//! - [`probe()`] asks a program a short question, such as its version, and never waits longer than the caller said.
//! - [`process_tree`] finds and ends everything that one launch started, however it tried to get away.
//! - [`terminate()`] ends one process that was recorded, and no other one that has its pid by now.
//! - [`tmux`] is our own terminal server, which shows workers in panes.
//!
//! # How it works
//!
//! Every program starts through one function, which removes the caller's variables of git and keeps two threads from
//! starting programs at once. A launch has a number; its processes are found again by their parents, by that number in
//! their environment and by their cgroup. A signal goes through a pidfd, which stays with the
//! process it was opened for, so it reaches that process or nobody.
//!
//! Whether a process is alive is not decided here but in [`teamster_fs::proc::Machine::life`], which every crate asks;
//! whether a worker is dead, in [`teamster_types::health::judge`].
//!
//! # What it refuses
//!
//! It signals no process that a whole record (pid, start time, boot, pid namespace) does not prove to be ours, waits
//! for no program without a limit, forces nothing in git, and throws no work away: what stands in the way of a worktree
//! is moved to another name.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the crate that the ban on starting processes protects"
)]

mod bounded;
pub mod child;
pub mod detached;
pub mod foreground;
pub mod git;
pub mod guard;
mod probe;
mod process_handle;
pub mod process_tree;
mod spawn;
mod terminate;
pub mod tmux;

pub use probe::{ProbeError, ProbeOutput, find_program, is_program, probe};
pub use rustix::process::Signal;
pub use spawn::STORE;
pub use teamster_fs::OrTrace;
pub use terminate::{GRACE, TerminateError, Termination, terminate};
