//! Starts, supervises and stops other programs.
//!
//! # What it owns
//!
//! No other crate starts a process or sends a signal; `clippy.toml` refuses `std::process::Command` elsewhere.
//!
//! - [`git`] is the repository: worktrees of workers, what they changed, the integration branch and the landing.
//! - [`child`] supervises an agent or a check and delivers its output line by line.
//! - [`detached`] starts programs that outlive this process.
//! - [`guard`] supervises a program, and ends its descendants when it is killed.
//! - [`foreground`] runs a program of the user's choice at their terminal, such as an editor.
//! - [`probe()`] asks a program a short question, such as for its version, within a time limit.
//! - [`process_tree`] finds and ends all processes of one launch, even those that try to escape.
//! - [`terminate()`] ends one recorded process, and never another one with the same pid.
//! - [`tmux`] is teamster's own terminal server, which shows workers in panes.
//!
//! # How it works
//!
//! Every program starts through one module, which removes git's variables and the address of the store from the
//! inherited environment, and keeps two threads from starting programs at once. A launch has an id; its processes are
//! found again by their parents, by that id in their environment and by their cgroup. A signal to a recorded process
//! goes through a pidfd, which stays bound to the process it was opened for. A direct child is signalled with its
//! process group, which cannot be reused before the child is reaped.
//!
//! Whether a process is alive is not decided here but in [`teamster_fs::proc::Machine::process_state`], which every crate uses;
//! whether a worker is dead, in [`teamster_types::health::judge`].
//!
//! # What it refuses
//!
//! It signals only processes that one of its launches started (by descent, launch id or cgroup), or that a complete
//! record names (pid, start time, boot, pid namespace). Git, tmux and probes have a time limit, and agents and checks
//! one that their caller sets; only a guarded program and a program at the user's terminal run as long as they like. It
//! moves the user's branch only by fast-forward, and throws no work away: uncommitted work is kept under another name
//! before anything is put in its place.

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
