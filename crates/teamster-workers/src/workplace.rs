//! Where a worker works, and how its agent's changes are kept.

mod foundation;
mod setup;
mod shared;
mod worktree;

use std::path::{Path, PathBuf};

use teamster_isolate::git::SecretFile;
use teamster_types::TaskId;
use teamster_types::task::Task;

pub use foundation::{FinishedWork, Foundation};
pub use setup::{NotTrusted, SetupError, SetupSource, WorktreeSetup, make_usable};
pub use shared::{SharedRepoWorkplace, fetch};
pub use worktree::InWorktree;

/// An error that kept a worker from working, in words for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorkplaceError(pub String);

/// The name under which work is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAs {
    /// Keep the work as the task's result.
    Result,
    /// Keep the work under the number of an attempt without a result: no work is thrown away.
    Attempt(u64),
}

/// Finished work that a task could not start from because it conflicts or is gone, each described in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmittedWork {
    /// Work that the task waited for.
    pub waited_for: Vec<String>,
    /// Work of the same worker.
    pub own: Vec<String>,
}

/// Work that was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptWork {
    /// The commit that holds the work, where there is one.
    pub commit: Option<String>,
    /// The commit that the work began at.
    pub base: Option<String>,
    /// The branch or ref that holds the work.
    pub name: Option<String>,
    /// The files that were changed, from the top of the project.
    pub files: Vec<String>,
}

/// The work of an attempt without a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptWork {
    /// The short id of the commit that holds the work.
    pub name: String,
    /// The commit that holds the work.
    pub commit: String,
    /// The files that were changed, from the top of the project.
    pub files: Vec<String>,
}

/// Where a worker works. Only the worker's agent changes files there.
pub trait Workplace: Send {
    /// Returns the folder that agents are started in.
    fn folder(&self) -> &Path;

    /// Returns whether others work in the same folder.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns the work of the task's last attempt without a result, if it was kept.
    fn last_attempt(&self, task: &TaskId) -> Result<Option<AttemptWork>, WorkplaceError> {
        let _ = task;
        Ok(None)
    }

    /// Returns what a commit changed since it forked from the team's work, as a patch of all files or only of the given ones.
    /// The patch is empty in a workplace without commits.
    fn patch_of(&self, commit: &str, files: &[String]) -> Result<Vec<u8>, WorkplaceError> {
        let _ = (commit, files);
        Ok(Vec::new())
    }

    /// Returns what the team changed in these files since the given commit forked from its work, as a patch. The patch is
    /// empty in a workplace without commits.
    fn patch_since_fork(&self, commit: &str, files: &[String]) -> Result<Vec<u8>, WorkplaceError> {
        let _ = (commit, files);
        Ok(Vec::new())
    }

    /// Prepares the workplace for a task: clean, up to date with the team's work, and with the finished work that the task
    /// builds on. Existing changes are kept elsewhere. Returns the finished work that had to be left out.
    fn prepare(&mut self, on: &Foundation) -> Result<OmittedWork, WorkplaceError>;

    /// Returns the files that the agent changed, from the top of the project.
    fn changes(&self) -> Result<Vec<PathBuf>, WorkplaceError>;

    /// Returns, once, the files that were moved away because they must not be committed and are not reported yet: those
    /// left by a killed worker, and those that were moved before a search failed.
    fn take_secrets(&mut self) -> Vec<SecretFile> {
        Vec::new()
    }

    /// Moves files that must not be committed to the team's private folder, and returns all files moved since the task began.
    fn set_secrets_aside(&mut self) -> Result<Vec<SecretFile>, WorkplaceError> {
        Ok(Vec::new())
    }

    /// Commits the current changes, because the agent asks for it in the middle of its work.
    fn commit(&mut self, message: &str) -> Result<(), WorkplaceError>;

    /// Commits the current changes, so that they outlive the workplace. The caller has called
    /// [`set_secrets_aside`](Workplace::set_secrets_aside) since the agent ended, and it succeeded.
    fn keep(
        &mut self,
        task: &Task,
        keep: KeepAs,
        message: &str,
    ) -> Result<KeptWork, WorkplaceError>;

    /// Reverts the last [`keep`](Workplace::keep) as the task's result, because another worker has the task: the work is kept
    /// as this attempt instead. Returns its new name.
    fn revert_result(
        &mut self,
        task: &Task,
        attempt: u64,
    ) -> Result<Option<String>, WorkplaceError>;
}

/// The project's own folder, for projects without git: nothing is committed, and workers see each other's files.
#[derive(Clone, Debug)]
pub struct InPlace {
    folder: PathBuf,
}

impl InPlace {
    /// Creates a workplace in this folder.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }
}

impl Workplace for InPlace {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn prepare(&mut self, _: &Foundation) -> Result<OmittedWork, WorkplaceError> {
        Ok(OmittedWork::default())
    }

    fn changes(&self) -> Result<Vec<PathBuf>, WorkplaceError> {
        Ok(Vec::new())
    }

    fn commit(&mut self, _: &str) -> Result<(), WorkplaceError> {
        Ok(())
    }

    fn keep(&mut self, _: &Task, _: KeepAs, _: &str) -> Result<KeptWork, WorkplaceError> {
        Ok(KeptWork::default())
    }

    fn revert_result(&mut self, _: &Task, _: u64) -> Result<Option<String>, WorkplaceError> {
        Ok(None)
    }
}
