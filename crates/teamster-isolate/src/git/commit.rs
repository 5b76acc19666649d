//! Commits a worker's changes, and keeps the commit of a finished task for ever.

use std::path::Path;

use teamster_fs::{Dir, proc};
use teamster_types::{TaskId, TeamName};

use super::command::{Git, GitCommand};
use super::error::GitError;
use super::names::{CommitId, attempt_ref, former_pin_ref, pin_ref};
use super::repo::Repo;
use super::worktree::Worktree;

/// The lock file in a worktree's git folder that exists while git writes its index.
pub(super) const INDEX_LOCK: &str = "index.lock";
const MOST_FORMER: u32 = 10_000;
/// The files in a worktree's git folder that exist until a merge or cherry-pick is committed.
const MERGING: [&str; 7] = [
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "SQUASH_MSG",
    "AUTO_MERGE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
];

/// The author to use where the user has configured none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The name.
    pub name: String,
    /// The email address.
    pub email: String,
}

impl Default for Author {
    fn default() -> Self {
        Self {
            name: "teamster".to_owned(),
            email: "teamster@localhost".to_owned(),
        }
    }
}

impl Worktree {
    /// Commits everything in the worktree that git does not ignore; `None` when there is nothing to commit. If a file
    /// cannot be added, the error names it and nothing is committed. No process may be working in the worktree: a lock
    /// left by a killed git is removed.
    pub fn commit_all(
        &self,
        message: &str,
        fallback: &Author,
    ) -> Result<Option<CommitId>, GitError> {
        if self.has_conflicts()? {
            return Err(GitError::refused(
                format!(
                    "a merge in {} has unresolved conflicts",
                    self.path.display()
                ),
                "resolve them there and `git add` the files, or `git merge --abort`",
            ));
        }
        self.remove_stale_index_lock()?;
        let head = self.head()?;
        self.with_fresh_index(|fresh| {
            let tree = fresh.take()?;
            fresh.refuse_left()?;
            if tree == self.tree_of(&head)? {
                fresh.install()?;
                return Ok(None);
            }
            let mut call = with_identity(self.call(), self, Some(fallback))?
                .args(["commit-tree", "--no-gpg-sign"])
                .args(["-p", head.as_str()]);
            for other in self.merged_heads()? {
                call = call.args(["-p", other.as_str()]);
            }
            let commit = call.args(["-m", message]).arg(tree).commit()?;
            self.call()
                .args(["update-ref", "-m", "commit: teamster", "HEAD"])
                .args([commit.as_str(), head.as_str()])
                .done()?;
            fresh.install()?;
            let admin = self.admin_dir()?;
            for name in MERGING {
                admin.remove(name)?;
            }
            Ok(Some(commit))
        })
    }

    /// Returns the other parents of a merge that the agent has begun and not committed.
    fn merged_heads(&self) -> Result<Vec<CommitId>, GitError> {
        let found = self.admin_dir()?.read("MERGE_HEAD")?;
        let text = found.map_or_else(String::new, |(bytes, _)| {
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let odd = |_| GitError::unexpected_output("a merge", &self.path);
        text.lines().map(|line| line.parse().map_err(odd)).collect()
    }

    pub(super) fn has_conflicts(&self) -> Result<bool, GitError> {
        let unmerged = self.call().args(["ls-files", "--unmerged", "-z"]).bytes()?;
        Ok(!unmerged.is_empty())
    }

    /// Removes an index lock left by a killed git, which would stay for ever. It is only removed if no process is
    /// visibly working in the worktree.
    pub(super) fn remove_stale_index_lock(&self) -> Result<(), GitError> {
        if let Some(dir) = Dir::open_root(self.admin())?
            && let Some(stamp) = dir.stamp(INDEX_LOCK)?
            && proc::processes_in(&self.path).is_some_and(|pids| pids.is_empty())
            && dir.stamp(INDEX_LOCK)? == Some(stamp)
        {
            dir.remove(INDEX_LOCK)?;
        }
        Ok(())
    }
}

impl Repo {
    /// Pins the commit of a finished task under a reference. A commit that was pinned before and is not part of the new
    /// one is kept, too.
    pub fn pin(&self, team: &TeamName, task: &TaskId, commit: &CommitId) -> Result<(), GitError> {
        let name = pin_ref(team, task);
        let before = self.resolve(&name)?;
        if let Some(before) = &before {
            if before == commit {
                return Ok(());
            }
            if !self.is_ancestor(before, commit)? {
                self.keep_former(team, task, before)?;
            }
        }
        // The old value makes a concurrent update fail; an empty one means that the reference must not exist.
        let old = before.as_ref().map_or("", CommitId::as_str);
        self.call()
            .args(["update-ref", &name, commit.as_str(), old])
            .done()
    }

    /// Resets a task's pin to its value before `commit`, which is kept elsewhere. A pin that has been moved since is
    /// left alone.
    pub fn unpin(
        &self,
        team: &TeamName,
        task: &TaskId,
        commit: &CommitId,
        before: Option<&CommitId>,
    ) -> Result<(), GitError> {
        let name = pin_ref(team, task);
        if self.resolve(&name)?.as_ref() != Some(commit) {
            return Ok(());
        }
        let call = self.call().arg("update-ref");
        match before {
            Some(before) => call.args([&name, before.as_str(), commit.as_str()]),
            None => call.args(["-d", &name, commit.as_str()]),
        }
        .done()
    }

    /// Keeps the commit of a failed attempt, and returns the name of its reference.
    pub fn pin_attempt(
        &self,
        team: &TeamName,
        task: &TaskId,
        number: u64,
        commit: &CommitId,
    ) -> Result<String, GitError> {
        let name = attempt_ref(team, task, number);
        // The number is unique to a claim, so only a second call for the same attempt finds an existing reference.
        self.call()
            .args(["update-ref", &name, commit.as_str()])
            .done()?;
        Ok(name)
    }

    /// Returns the pinned commit of a task.
    pub fn pinned(&self, team: &TeamName, task: &TaskId) -> Result<Option<CommitId>, GitError> {
        self.resolve(&pin_ref(team, task))
    }

    fn keep_former(
        &self,
        team: &TeamName,
        task: &TaskId,
        commit: &CommitId,
    ) -> Result<(), GitError> {
        for number in 1..MOST_FORMER {
            let name = former_pin_ref(team, task, number);
            match self.resolve(&name)? {
                Some(there) if there == *commit => return Ok(()),
                Some(_) => {}
                None => {
                    return self
                        .call()
                        .args(["update-ref", &name, commit.as_str(), ""])
                        .done();
                }
            }
        }
        Err(GitError::refused(
            format!("task {task} was pinned {MOST_FORMER} times already"),
            "the same task is being repeated again and again",
        ))
    }
}

impl Git {
    /// Makes a folder a repository, with all its files in a first commit on `branch`.
    pub fn begin(
        &self,
        folder: &Path,
        branch: &str,
        message: &str,
        author: &Author,
    ) -> Result<CommitId, GitError> {
        // No template: it could contain hooks.
        self.at(folder)
            .args(["init", "--quiet", "--template="])
            .arg(format!("--initial-branch={branch}"))
            .done()?;
        self.at(folder).args(["add", "--all", "--force"]).done()?;
        self.at(folder)
            .env("GIT_AUTHOR_NAME", &author.name)
            .env("GIT_AUTHOR_EMAIL", &author.email)
            .env("GIT_COMMITTER_NAME", &author.name)
            .env("GIT_COMMITTER_EMAIL", &author.email)
            .args(["commit", "--quiet", "--no-verify", "--no-gpg-sign"])
            .arg(format!("--message={message}"))
            .done()?;
        self.at(folder).args(["rev-parse", "HEAD"]).commit()
    }
}

/// Adds an author identity to the call if the user has configured none.
pub(super) fn with_identity(
    call: GitCommand,
    worktree: &Worktree,
    fallback: Option<&Author>,
) -> Result<GitCommand, GitError> {
    let list = worktree
        .call()
        .args(["config", "--name-only", "--get-regexp"])
        .arg("^user\\.(name|email)$");
    let keys = list.run()?;
    // Code 1: there is none.
    if !matches!(keys.status.code(), Some(0 | 1)) {
        return Err(list.failed(&keys));
    }
    let has = |key: &str| {
        keys.stdout
            .split(|byte| *byte == b'\n')
            .any(|known| known == key.as_bytes())
    };
    let author = fallback.cloned().unwrap_or_default();
    let mut call = call;
    if !has("user.name") {
        call = call
            .env("GIT_AUTHOR_NAME", &author.name)
            .env("GIT_COMMITTER_NAME", &author.name);
    }
    if !has("user.email") {
        call = call
            .env("GIT_AUTHOR_EMAIL", &author.email)
            .env("GIT_COMMITTER_EMAIL", &author.email);
    }
    Ok(call)
}
