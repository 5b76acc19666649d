//! A worker's seat: whoever holds it is that worker, and nobody else touches its worktree, its record or its tasks.

use std::time::Duration;

use teamster_fs::{Dir, FsError, Lock, Waited, layout};
use teamster_types::WorkerName;

/// Somebody who only looks whether a seat is free holds it for a moment.
const MOMENT: Duration = Duration::from_millis(200);

/// A worker's seat, held. The kernel frees it at its holder's death.
#[derive(Debug)]
pub struct WorkerLock {
    _lock: Lock,
}

impl WorkerLock {
    /// Takes the seat of a worker in its team's folder; `None` when another process is this worker.
    pub fn take(team_folder: &Dir, worker: &WorkerName) -> Result<Option<Self>, FsError> {
        let name = layout::bridge_lock(worker);
        Ok(match Lock::wait(team_folder, &name, MOMENT, false)? {
            Waited::Held(lock) => Some(Self { _lock: lock }),
            Waited::TimedOut => None,
        })
    }

    /// Whether a process is this worker now. Nothing is made where there was never one.
    pub fn is_taken(team_folder: &Dir, worker: &WorkerName) -> Result<bool, FsError> {
        if team_folder.stamp(&layout::bridge_lock(worker))?.is_none() {
            return Ok(false);
        }
        Ok(Self::take(team_folder, worker)?.is_none())
    }
}
