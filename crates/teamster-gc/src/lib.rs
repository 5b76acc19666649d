//! Finds and removes what teams, workers and runs left behind.
//!
//! - [`zombies`] lists teams, processes, panes, locks and worktrees that nobody uses any more, and removes them on proof.
//! - [`session_hooks`] runs a hook of Claude Code together with the sweep that belongs to the start and the end of a
//!   session.
//!
//! Nothing here is asynchronous, because the hooks of Claude Code call it.

pub mod session_hooks;
pub mod zombies;
