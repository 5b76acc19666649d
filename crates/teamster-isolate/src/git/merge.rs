//! The merge train: one commit after the other is merged into the integration branch, each after a prediction.
//!
//! The tree that `git merge-tree` predicts is exactly the one that is committed. So only merges that are known to be
//! clean are made, and a merge needs no work tree that could be left half-way.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use teamster_fs::layout::INTEGRATION;
use teamster_types::{TaskId, WorkerName};

use super::commit::with_identity;
use super::error::GitError;
use super::integration::Integration;
use super::names::{BRANCHES, CommitId, head_ref};
use super::worktree::{Worktree, hold, team_folder};

/// The predicted result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergePrediction {
    /// The commit is already merged.
    Already,
    /// The merge is clean.
    Clean {
        /// The id of the resulting tree.
        tree: String,
    },
    /// Both sides have changed the same lines or files.
    Conflict {
        /// The conflicting files, relative to the root of the repository.
        files: Vec<PathBuf>,
    },
    /// The two commits have no common ancestor.
    Unrelated,
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The commit was already merged; nothing was done.
    Already,
    /// It was merged by this commit, which is the new tip of the integration branch.
    Made(CommitId),
    /// The integration branch is not at the commit that the caller expects: another process has moved it. Nothing was
    /// done.
    Moved,
    /// There is a conflict, and nothing was changed.
    Conflict {
        /// The conflicting files; empty when the two commits have no common ancestor.
        files: Vec<PathBuf>,
    },
}

impl Integration {
    /// Predicts the result of merging `commit` into the integration branch. Changes nothing.
    pub fn predict(&self, commit: &CommitId) -> Result<MergePrediction, GitError> {
        self.predict_on(&self.head()?, commit)
    }

    /// Merges the commit of a finished task into the integration branch, whose tip must be `onto`. A repeated call has
    /// no effect.
    pub fn merge(
        &self,
        onto: &CommitId,
        commit: &CommitId,
        task: &TaskId,
        worker: &WorkerName,
    ) -> Result<MergeOutcome, GitError> {
        let team = &self.team;
        self.join(
            onto,
            commit,
            &[
                format!("Merge task {task} of {worker}"),
                format!("Teamster-Team: {team}\nTeamster-Task: {task}\nTeamster-Worker: {worker}"),
            ],
        )
    }

    /// Merges new commits of the user's branch into the integration branch, whose tip must be `onto`, so that it can
    /// land there again.
    pub fn bring_up_to_date(
        &self,
        onto: &CommitId,
        branch: &str,
    ) -> Result<MergeOutcome, GitError> {
        let tip = self.user_branch(branch)?.ok_or_else(|| {
            GitError::failed(
                format!("there is no branch {branch} any more"),
                "`git branch` lists the branches",
            )
        })?;
        self.join(
            onto,
            &tip,
            &[format!("Merge {branch} into {}", self.branch())],
        )
    }

    /// Returns the tip of a branch of the user's; `None` when there is no such branch.
    pub(super) fn user_branch(&self, branch: &str) -> Result<Option<CommitId>, GitError> {
        let name = head_ref(branch);
        let is_name = self
            .repo
            .call()
            .args(["check-ref-format", &name])
            .yes()
            .unwrap_or(false);
        if !is_name || branch.starts_with(BRANCHES) {
            return Err(GitError::refused(
                format!("{branch:?} is not the name of one of your branches"),
                "name it as `git branch` shows it",
            ));
        }
        self.repo.resolve(&name)
    }

    /// Merges `commit` into the branch. The branch is moved by a single update that names its old tip, so the merge has
    /// happened or not, whatever happens to the worktree afterwards: if a full disk or a failing filter keeps the
    /// worktree from being updated, [`Integration::recover`] does that later.
    fn join(
        &self,
        onto: &CommitId,
        commit: &CommitId,
        message: &[String],
    ) -> Result<MergeOutcome, GitError> {
        let dir = team_folder(&self.repo, &self.team)?;
        let _held = hold(&dir, INTEGRATION)?;
        self.is_still_there()?;
        if self.head()? != *onto {
            return Ok(MergeOutcome::Moved);
        }
        let tree = match self.predict_on(onto, commit)? {
            MergePrediction::Already => return Ok(MergeOutcome::Already),
            MergePrediction::Clean { tree } => tree,
            MergePrediction::Conflict { files } => return Ok(MergeOutcome::Conflict { files }),
            MergePrediction::Unrelated => return Ok(MergeOutcome::Conflict { files: Vec::new() }),
        };
        let made = self.worktree.commit_merge(&tree, [onto, commit], message)?;
        match self.advance(onto, &made, &message[0]) {
            Ok(()) => Ok(MergeOutcome::Made(made)),
            Err(error) => match self.head()? {
                // The update was made, and only its result was lost.
                head if head == made => Ok(MergeOutcome::Made(made)),
                head if head != *onto => Ok(MergeOutcome::Moved),
                _ => Err(error),
            },
        }
    }

    /// Predicts the result of merging `commit` into `head`. Changes nothing.
    pub fn predict_on(
        &self,
        head: &CommitId,
        commit: &CommitId,
    ) -> Result<MergePrediction, GitError> {
        self.worktree.predict(head, commit)
    }
}

impl Worktree {
    /// Returns a commit that contains both `onto` and `commit`: one of the two, or a merge that is made without
    /// touching a file or a branch. On a conflict it returns [`MergeOutcome::Conflict`], and makes no commit.
    pub fn combine(
        &self,
        onto: &CommitId,
        commit: &CommitId,
        message: &str,
    ) -> Result<MergeOutcome, GitError> {
        let tree = match self.predict(onto, commit)? {
            MergePrediction::Already => return Ok(MergeOutcome::Already),
            _ if self.repo.is_ancestor(onto, commit)? => {
                return Ok(MergeOutcome::Made(commit.clone()));
            }
            MergePrediction::Clean { tree } => tree,
            MergePrediction::Conflict { files } => return Ok(MergeOutcome::Conflict { files }),
            MergePrediction::Unrelated => return Ok(MergeOutcome::Conflict { files: Vec::new() }),
        };
        let made = self.commit_merge(&tree, [onto, commit], &[message.to_owned()])?;
        Ok(MergeOutcome::Made(made))
    }

    /// Commits a tree as the merge of two commits. No branch is moved.
    fn commit_merge(
        &self,
        tree: &str,
        parents: [&CommitId; 2],
        message: &[String],
    ) -> Result<CommitId, GitError> {
        let mut call = with_identity(self.call(), self, None)?
            .args(["commit-tree", "--no-gpg-sign"])
            .args(["-p", parents[0].as_str(), "-p", parents[1].as_str()]);
        for paragraph in message {
            call = call.arg("-m").arg(paragraph);
        }
        call.arg(tree).commit()
    }

    /// Predicts the result of merging `commit` into `head` by the rules of this worktree. Changes nothing.
    pub(super) fn predict(
        &self,
        head: &CommitId,
        commit: &CommitId,
    ) -> Result<MergePrediction, GitError> {
        if self.repo.is_ancestor(commit, head)? {
            return Ok(MergePrediction::Already);
        }
        let call = self
            .ruled_call()?
            .args(["merge-tree", "--write-tree", "--name-only"])
            .args(["--no-messages", "-z"])
            .args([head.as_str(), commit.as_str()]);
        let ended = call.run()?;
        let mut fields = ended
            .stdout
            .split(|byte| *byte == 0)
            .filter(|field| !field.is_empty());
        let tree = fields.next().map(String::from_utf8_lossy);
        match (ended.status.code(), tree) {
            (Some(0), Some(tree)) => Ok(MergePrediction::Clean {
                tree: tree.into_owned(),
            }),
            (Some(1), Some(_)) => Ok(MergePrediction::Conflict {
                files: fields.map(|path| OsStr::from_bytes(path).into()).collect(),
            }),
            _ if String::from_utf8_lossy(&ended.stderr).contains("unrelated histories") => {
                Ok(MergePrediction::Unrelated)
            }
            _ => Err(call.failed(&ended)),
        }
    }
}
