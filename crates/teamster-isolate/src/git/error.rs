//! Errors of git commands.

use std::io::ErrorKind;
use std::path::Path;

use teamster_fs::FsError;

use super::names::CommitId;
use super::repo::Repo;
use super::secrets::SecretFile;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitProblem {
    /// There is no git, or one that is too old.
    NoProgram,
    /// The project is not in a repository.
    NotRepository,
    /// The repository has no work tree.
    Bare,
    /// The repository has no commit yet.
    NoCommits,
    /// Something is in the way that teamster must not move.
    Refused,
    /// A file in a worktree cannot be added to a commit.
    NotTaken,
    /// Another process held the lock until the timeout.
    Busy,
    /// The command exceeded its time limit and was killed.
    TimedOut,
    /// The disk is full.
    NoRoom,
    /// The git command failed, or its output could not be parsed.
    Failed,
}

/// A failure: what happened, and how to continue.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct GitError {
    /// The kind of failure.
    pub problem: GitProblem,
    /// What happened, and to what.
    pub message: String,
    /// How to continue.
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

    /// Adds where files were moved before the failure, because nothing else will say it.
    pub(crate) fn after_moving(mut self, moved: &[SecretFile]) -> Self {
        for file in moved.iter().filter(|file| file.kept.is_some()) {
            self.message.push_str("; moved away before: ");
            self.message.push_str(&file.to_string());
        }
        self
    }

    /// Replaces the hint if it refers to a check worktree that will be gone when the error is read.
    pub(crate) fn in_removed_tree(mut self, repo: &Repo, commit: &CommitId) -> Self {
        if self.problem == GitProblem::Failed {
            self.hint = format!(
                "`git -C {} worktree add --detach ../check {commit}` shows more",
                repo.project().display()
            );
        }
        self
    }

    /// Returns the error for unexpected output of git.
    pub(crate) fn unexpected_output(what: &str, folder: &Path) -> Self {
        Self::failed(
            format!("git printed something unexpected about {what}"),
            format!("`git -C {} fsck` checks the repository", folder.display()),
        )
    }
}

impl From<FsError> for GitError {
    fn from(error: FsError) -> Self {
        let elsewhere = "nothing was changed there; check what is at that path";
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
