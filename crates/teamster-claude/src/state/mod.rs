//! `agent-state.json`: who works on this project right now, for any program that polls it.
//!
//! A change is a list of [`Op`]s made by one session at one moment. It is applied whole: one lock, one read, one
//! write, one rename. Whoever cannot have the lock in time leaves the change as one line in `pending.jsonl`, and the
//! next holder of the lock applies it first; so an update may be late, and is never lost.
//!
//! A session writes one file. The one that viewers know is `agent-state.json`; while it shows a living session,
//! another session writes to `sessions/{session}.json` and moves up when the shown one ends.
//!
//! - [`record`](AgentState) is what the file holds, [`ops`](Op) what may be done to it;
//! - `desk` knows which file is whose, archives and promotes;
//! - `pending` keeps late changes, and finishes what a killed process began.

mod desk;
mod ops;
mod pending;
mod read;
mod record;
mod roster;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use teamster_fs::layout::{self, Layout};
use teamster_fs::{Dir, FsError, Lock, Waited};

pub use ops::{Begin, Change, Effect, Op, Row};
pub use read::{Shown, Viewed};
pub use record::{AgentState, Letter, Model, Pattern, Phase, Status, Teammate};

/// A state is stale when it was not updated for longer.
pub const STALE_AFTER: Duration = Duration::from_secs(5 * 60);
/// Rows in a roster.
pub const MOST_ROWS: usize = 10;
/// Messages that are kept.
pub const MOST_MESSAGES: usize = 50;

/// Why a state was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Somebody else held the lock all the time.
    #[error("another process has held {} for {} ms", lock.display(), waited.as_millis())]
    Busy {
        /// The lock.
        lock: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// There is no project folder.
    #[error("there is no folder {}", .0.display())]
    NoProject(PathBuf),
    /// A session whose id cannot be a file's name, while another session is shown.
    #[error("the session `{0}` cannot have a file of its own")]
    Session(String),
    /// The file is there and cannot be understood.
    #[error("cannot understand {}: {error}", file.display())]
    Corrupt {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        error: String,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// What became of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// One for each operation, in order.
    pub effects: Vec<Effect>,
    /// The state of the session after it; `None` when there is none.
    pub state: Option<AgentState>,
    /// What could not be shown of changes that others had left.
    pub late: Vec<Effect>,
}

/// The state files of one project.
#[derive(Clone, Debug)]
pub struct States {
    project: PathBuf,
}

impl States {
    /// Those of the project in `layout`.
    pub fn of(layout: &Layout) -> Self {
        Self {
            project: layout.project.clone(),
        }
    }

    /// The file that viewers poll.
    pub fn path(&self) -> PathBuf {
        self.project.join(layout::BKIT).join(layout::AGENT_STATE)
    }

    /// Makes a change, waiting up to `patience` for others.
    pub fn apply(&self, change: Change, patience: Duration) -> Result<Applied, StateError> {
        self.make(&change.cleaned(), patience)
    }

    /// The same; when others hold the lock all the time, the change is left for the next holder. `None`: it was left.
    pub fn apply_or_leave(
        &self,
        change: Change,
        patience: Duration,
    ) -> Result<Option<Applied>, StateError> {
        let change = change.cleaned();
        match self.make(&change, patience) {
            Ok(applied) => Ok(Some(applied)),
            Err(StateError::Busy { .. }) => {
                let bkit = self.folder()?;
                pending::leave(&bkit, &change)?;
                // The lock may have become free since, and then nobody else would look.
                catch_up(&bkit, false);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn make(&self, change: &Change, patience: Duration) -> Result<Applied, StateError> {
        let project = self.open_project()?;
        let bkit = match project.child(layout::BKIT)? {
            Some(bkit) => bkit,
            None if change.creates() => project.child_or_create(layout::BKIT)?,
            // Nothing is there that could be changed.
            None => return Ok(Applied::default()),
        };
        let lock = match Lock::wait(&bkit, layout::STATE_LOCK, patience, false)? {
            Waited::Held(lock) => lock,
            Waited::TimedOut => {
                return Err(StateError::Busy {
                    lock: bkit.join(layout::STATE_LOCK),
                    waited: patience,
                });
            }
        };
        let finished = pending::finish(&bkit)?;
        let mut desk = desk::Desk::new(&bkit);
        let mut applied = desk.change(change)?;
        desk.put_away()?;
        drop(lock);
        applied.late = finished.effects;
        applied.late.extend(catch_up(&bkit, finished.stays));
        Ok(applied)
    }

    fn open_project(&self) -> Result<Dir, StateError> {
        Dir::open_root(&self.project)?.ok_or_else(|| StateError::NoProject(self.project.clone()))
    }

    fn folder(&self) -> Result<Dir, StateError> {
        Ok(self.open_project()?.child_or_create(layout::BKIT)?)
    }
}

/// Applies what was left while the lock was held, unless somebody else holds it by now, who will do so. What goes wrong
/// is left for the next holder: the caller's own change has happened.
///
/// Everything is looked at after the lock was let go. Whoever leaves something later than that finds the lock free.
fn catch_up(bkit: &Dir, mut stays: bool) -> Vec<Effect> {
    let mut late = Vec::new();
    while matches!(pending::is_waiting(bkit), Ok(true)) {
        // Somebody is stopped while it appends, or was for a moment only: then its line can be taken now.
        if stays && !pending::is_free(bkit) {
            break;
        }
        let waited = Lock::wait(bkit, layout::STATE_LOCK, Duration::ZERO, false);
        let Ok(Waited::Held(lock)) = waited else {
            break;
        };
        let Ok(finished) = pending::finish(bkit) else {
            break;
        };
        drop(lock);
        late.extend(finished.effects);
        stays = finished.stays;
    }
    late
}
