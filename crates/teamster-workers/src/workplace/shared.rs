//! A worktree on another machine: work is fetched from a shared repository and pushed back to it.

use std::path::{Path, PathBuf};

use teamster_isolate::git::{CommitId, GitError, Repo, SecretFile, SharedRepo};
use teamster_types::task::Task;
use teamster_types::{TaskId, TeamName, WorkerName};

use super::{AttemptWork, Foundation, KeepAs, KeptWork, OmittedWork, Workplace, WorkplaceError};

/// A workplace that exchanges work through a shared repository. A task's result counts only once it is pushed there.
pub struct SharedRepoWorkplace<W> {
    inner: W,
    repo: Repo,
    shared: SharedRepo,
    team: TeamName,
    worker: WorkerName,
}

impl<W: Workplace> SharedRepoWorkplace<W> {
    /// Wraps a workplace so that its work goes through a shared repository.
    pub fn new(
        inner: W,
        repo: Repo,
        shared: SharedRepo,
        team: TeamName,
        worker: WorkerName,
    ) -> Self {
        Self {
            inner,
            repo,
            shared,
            team,
            worker,
        }
    }

    fn push(&self, task: &Task, keep: KeepAs, kept: &KeptWork) -> Result<(), GitError> {
        let commit: Option<CommitId> = kept.commit.as_deref().and_then(|it| it.parse().ok());
        match (keep, commit, &kept.name) {
            (KeepAs::Result, Some(commit), _) => {
                let (team, worker) = (&self.team, &self.worker);
                self.repo
                    .push_work(&self.shared, team, worker, task.id(), &commit)
            }
            (KeepAs::Attempt(_), Some(_), Some(name)) => self.repo.push_ref(&self.shared, name),
            _ => Ok(()),
        }
    }

    fn push_error(&self, error: &GitError, kept: &KeptWork) -> WorkplaceError {
        let place = kept.name.as_deref().unwrap_or("its worktree");
        WorkplaceError(format!(
            "the work could not be pushed to {}: {}; it is kept on this machine, as {place} in {}",
            self.shared,
            error.message,
            self.repo.project().display()
        ))
    }
}

impl<W: Workplace> Workplace for SharedRepoWorkplace<W> {
    fn folder(&self) -> &Path {
        self.inner.folder()
    }

    fn last_attempt(&self, task: &TaskId) -> Result<Option<AttemptWork>, WorkplaceError> {
        self.inner.last_attempt(task)
    }

    fn patch_of(&self, commit: &str, files: &[String]) -> Result<Vec<u8>, WorkplaceError> {
        self.inner.patch_of(commit, files)
    }

    fn patch_since_fork(&self, commit: &str, files: &[String]) -> Result<Vec<u8>, WorkplaceError> {
        self.inner.patch_since_fork(commit, files)
    }

    fn prepare(&mut self, on: &Foundation) -> Result<OmittedWork, WorkplaceError> {
        fetch(&self.repo, &self.shared, &self.team).map_err(|error| {
            WorkplaceError(format!(
                "the team's work cannot be fetched from {}: {}",
                self.shared, error.message
            ))
        })?;
        self.inner.prepare(on)
    }

    fn changes(&self) -> Result<Vec<PathBuf>, WorkplaceError> {
        self.inner.changes()
    }

    fn take_secrets(&mut self) -> Vec<SecretFile> {
        self.inner.take_secrets()
    }

    fn set_secrets_aside(&mut self) -> Result<Vec<SecretFile>, WorkplaceError> {
        self.inner.set_secrets_aside()
    }

    fn commit(&mut self, message: &str) -> Result<(), WorkplaceError> {
        self.inner.commit(message)
    }

    fn keep(
        &mut self,
        task: &Task,
        keep: KeepAs,
        message: &str,
    ) -> Result<KeptWork, WorkplaceError> {
        let kept = self.inner.keep(task, keep, message)?;
        match (self.push(task, keep, &kept), keep) {
            (Ok(()), _) => Ok(kept),
            (Err(error), KeepAs::Result) => Err(self.push_error(&error, &kept)),
            // The work of a failed attempt is at least kept in the local repository.
            (Err(error), KeepAs::Attempt(_)) => {
                tracing::warn!("{}", self.push_error(&error, &kept));
                Ok(kept)
            }
        }
    }

    fn revert_result(
        &mut self,
        task: &Task,
        attempt: u64,
    ) -> Result<Option<String>, WorkplaceError> {
        let name = self.inner.revert_result(task, attempt)?;
        if let Some(name) = &name
            && let Err(error) = self.repo.push_ref(&self.shared, name)
        {
            tracing::warn!(
                "{name} could not be pushed to {}: {}",
                self.shared,
                error.message
            );
        }
        Ok(name)
    }
}

/// Fetches the team's current work.
pub fn fetch(repo: &Repo, shared: &SharedRepo, team: &TeamName) -> Result<(), GitError> {
    repo.fetch_team(shared, team)?;
    repo.follow_integration(team)
}
