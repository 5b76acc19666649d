//! Finds and removes what teams, workers and runs left behind.
//!
//! # What it owns
//!
//! - [`zombies`] lists teams, processes, panes, locks and heartbeats that nobody uses any more and removes them on proof.
//!   Removed teams go to the trash, where they stay for seven days.
//! - [`worktrees`] lists the worktrees of workers and removes those that hold nothing.
//! - [`old_runs`] removes what runs left in a project after the time that such things are kept.
//! - [`zombies::session_hooks`] runs a hook of Claude Code together with the sweep at the start and the end of a session.
//!
//! # How it works
//!
//! Everything is found first and judged by durable facts: records of processes, heartbeats, locks, commits. What cannot
//! be judged from here stays. What goes is judged once more under the lock that keeps others from changing it. A dry
//! run is the same without the last step.
//!
//! Whether a process is alive is decided in one place, [`teamster_fs::proc::Machine::life`]; whether a worker is, by
//! [`teamster_types::health`]. This crate asks them and is only more careful: a heartbeat from the future counts as a sign
//! of life.
//!
//! # What it refuses
//!
//! It ends no process unless a person asked for it, and only those that a whole record, or the launch in their environment,
//! proves to be ours. It removes no commit that is nowhere else. Nothing here is asynchronous, because the hooks of Claude
//! Code call it.

pub mod old_runs;
pub mod shell;
pub mod worktrees;
pub mod zombies;

use teamster_fs::FsError;
use teamster_isolate::git::GitError;
use teamster_store::StoreError;
use teamster_types::NameError;

/// Why cleaning up a project failed.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    /// The store or a file could not be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A call of git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A text is no valid name of a team.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl From<FsError> for GcError {
    fn from(error: FsError) -> Self {
        Self::Store(error.into())
    }
}

/// The result of cleaning up.
pub type Result<T, E = GcError> = std::result::Result<T, E>;
