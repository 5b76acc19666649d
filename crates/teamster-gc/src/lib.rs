//! Finds and removes teams, processes, worktrees and files left behind by earlier runs.
//!
//! # What it owns
//!
//! - [`zombies`] lists abandoned teams, processes, panes, locks and heartbeats and removes those that are proven
//!   abandoned. Removed teams go to the trash, where they stay for seven days.
//! - [`worktrees`] lists the worktrees of workers and removes those without unsaved work.
//! - [`old_runs`] removes references, reports and logs of runs once their retention time is over.
//! - [`zombies::session_hooks`] runs a hook of Claude Code together with the sweep at the start and the end of a session.
//!
//! # How it works
//!
//! Everything is found first and judged by durable facts: records of processes, heartbeats, locks, commits. Anything
//! that cannot be judged from this machine is kept. Before an item is removed it is judged again, under the lock that
//! keeps other processes from changing it. A dry run does all of this but the removal.
//!
//! Whether a process is alive is decided in one place, [`teamster_fs::proc::Machine::process_state`]; whether a worker
//! is dead, in [`teamster_types::health::judge`]. This crate uses both, and is more careful in one case: a heartbeat
//! from the future counts as fresh, unless its process is proven gone.
//!
//! # What it refuses
//!
//! It ends no process unless a user asked for it, and only processes that a complete record, or the launch id in their
//! environment, proves to be teamster's. It removes no commit that exists nowhere else. Nothing here is asynchronous,
//! because Claude Code's hooks call it.

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
    /// A git command failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The text is not a valid team name.
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
