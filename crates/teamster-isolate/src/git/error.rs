//! How a call of git fails.

use std::io::ErrorKind;
use std::path::Path;

use teamster_fs::FsError;

use super::names::CommitId;
use super::repo::Repo;

/// What sort of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitProblem {
    /// There is no git, or one that is too old.
    NoProgram,
    /// The project lies in no repository.
    NotRepository,
    /// The repository has no work tree.
    Bare,
    /// There is nothing to start from yet.
    NoCommits,
    /// Something stands in the way that is not ours to move.
    Refused,
    /// Something in a worktree cannot be taken into a commit.
    NotTaken,
    /// Somebody else is at it, and was all the time.
    Busy,
    /// It did not end in time, and was ended.
    TimedOut,
    /// A disk is full.
    NoRoom,
    /// The call of git failed, or its output could not be understood.
    Failed,
}

/// A failure: what happened, and what to do now.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct GitError {
    /// What sort of failure it is.
    pub problem: GitProblem,
    /// What happened, to what.
    pub message: String,
    /// What to do now.
    pub hint: String,
}

impl GitError {
    pub(crate) fn new(
        problem: GitProblem,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            problem,
            message: message.into(),
            hint: hint.into(),
        }
    }

    pub(crate) fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(GitProblem::Refused, message, hint)
    }

    pub(crate) fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(GitProblem::Failed, message, hint)
    }

    /// Replaces the hint where the folder in which it happened will be gone when somebody reads about it.
    pub(crate) fn in_removed_tree(mut self, repo: &Repo, commit: &CommitId) -> Self {
        if self.problem == GitProblem::Failed {
            self.hint = format!(
                "`git -C {} worktree add --detach ../check {commit}` shows more",
                repo.project().display()
            );
        }
        self
    }

    /// Makes the error for an answer that git never gives.
    pub(crate) fn odd(what: &str, folder: &Path) -> Self {
        Self::failed(
            format!("git gave an answer about {what} that makes no sense"),
            format!("`git -C {} fsck` checks the repository", folder.display()),
        )
    }
}

impl From<FsError> for GitError {
    fn from(error: FsError) -> Self {
        let elsewhere = "nothing was changed there; look at what stands in that place";
        let (problem, hint) = match error.io_kind() {
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                (GitProblem::NoRoom, "make room there")
            }
            Some(_) => (GitProblem::Failed, elsewhere),
            None => (GitProblem::Refused, elsewhere),
        };
        Self::new(problem, error.to_string(), hint)
    }
}
