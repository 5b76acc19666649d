//! The integration worktree, in which a team's finished tasks are merged, with its own branch.
//!
//! The branch is authoritative, and the worktree follows it. A merge is a single update of the branch that names its
//! old value, so it either happens or not; a killed process can only leave a worktree that is not fully updated. That
//! can be told from work: every file is as before the merge or as after it. Any other change found there is saved to a
//! branch before the worktree is reset, so no work is thrown away.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use teamster_fs::layout::{self, INTEGRATION};
use teamster_fs::{Dir, FileKind, proc};
use teamster_types::TeamName;

use super::commit::INDEX_LOCK;
use super::displaced;
use super::error::{GitError, GitProblem};
use super::merge::MergePrediction;
use super::names::{CommitId, head_ref, integration_branch, moved_ref, rejected_ref};
use super::registered;
use super::repo::Repo;
use super::worktree::{
    KeepRule, Removal, Worktree, hold, team_folder, unkept_commits, unmerged_words, vanished,
};
use crate::OrTrace as _;

/// How long to wait for a git process that a killed teamster left running in the worktree.
const AT_WORK: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// The integration branch of a team and its worktree.
#[derive(Clone, Debug)]
pub struct Integration {
    pub(super) repo: Repo,
    pub(super) team: TeamName,
    pub(super) worktree: Worktree,
}

/// An integration worktree that is ready for use, and the branch with work that was found in it and not committed to
/// its branch.
#[derive(Debug)]
pub struct PreparedIntegration {
    /// The worktree.
    pub integration: Integration,
    /// A branch with the work that was found; only the team should work there, but another program did.
    pub salvaged: Option<String>,
}

impl Integration {
    /// Creates the worktree and its branch from `base`, or reuses those that an earlier run left, at whatever point it
    /// was killed. A branch with work based on another commit is refused and left alone.
    pub fn prepare(
        repo: &Repo,
        team: &TeamName,
        base: &CommitId,
    ) -> Result<PreparedIntegration, GitError> {
        let dir = team_folder(repo, team)?;
        let _held = hold(&dir, INTEGRATION)?;
        let mut salvaged = clear_place(repo, team, &dir)?;
        ensure_branch(repo, team, base)?;
        let path = dir.join(INTEGRATION);
        if dir.stamp(INTEGRATION)?.is_none() {
            registered::add(repo, &path, &integration_branch(team))?;
        }
        let worktree = Worktree::named(repo, team, INTEGRATION)?.ok_or_else(|| vanished(&path))?;
        let integration = Self {
            repo: repo.clone(),
            team: team.clone(),
            worktree,
        };
        salvaged = integration.settle()?.or(salvaged);
        let head = integration.head()?;
        if !repo.is_ancestor(base, &head)? {
            // It contains nothing that is not in `base`, or it would have been refused.
            integration.advance(&head, base, "teamster: begin again from a newer commit")?;
        }
        Ok(PreparedIntegration {
            integration,
            salvaged,
        })
    }

    /// Returns the existing worktree of a run without changing it; `None` when there is none.
    pub fn open(repo: &Repo, team: &TeamName) -> Result<Option<Self>, GitError> {
        let worktree = Worktree::named(repo, team, INTEGRATION)?;
        Ok(worktree.map(|worktree| Self {
            repo: repo.clone(),
            team: team.clone(),
            worktree,
        }))
    }

    /// Returns the path of the worktree.
    pub fn path(&self) -> &Path {
        self.worktree.path()
    }

    /// Returns the name of its branch.
    pub fn branch(&self) -> String {
        integration_branch(&self.team)
    }

    /// Returns the tip of its branch.
    pub fn head(&self) -> Result<CommitId, GitError> {
        self.repo
            .resolve(&head_ref(&self.branch()))?
            .ok_or_else(|| {
                GitError::failed(
                    format!("the branch {} is gone", self.branch()),
                    "the commits of finished tasks are kept; begin the run again",
                )
            })
    }

    /// Returns whether everything in its folder is committed.
    pub fn is_clean(&self) -> Result<bool, GitError> {
        self.worktree.is_clean()
    }

    /// Resets the worktree: on its branch, at the tip, clean. Returns the branch with the uncommitted work that was
    /// found there, if there was any.
    pub fn recover(&self) -> Result<Option<String>, GitError> {
        let dir = team_folder(&self.repo, &self.team)?;
        let _held = hold(&dir, INTEGRATION)?;
        self.settle()
    }

    /// Removes the worktree and its branch, if the worktree is clean and all its commits are on a branch of the user's.
    pub fn remove_if_landed(&self) -> Result<Removal, GitError> {
        self.worktree.remove_if_safe()
    }

    /// Recovers like [`Self::recover`], for a caller that holds the lock.
    pub(super) fn settle(&self) -> Result<Option<String>, GitError> {
        self.is_still_there()?;
        self.worktree
            .rules()?
            .refuse_changed_attributes(&self.repo)?;
        self.wait_for_others()?;
        self.worktree.remove_stale_index_lock()?;
        let elsewhere = self.leave_other_branch()?;
        if self.worktree.unsaved()?.is_none() {
            return Ok(elsewhere);
        }
        let salvaged = if self.is_on_the_way()? {
            None
        } else {
            Some(self.worktree.salvage()?)
        };
        // A file that git was told to skip would not be reset.
        self.worktree.clear_flags()?;
        // The overwritten files are in the branch's history, or in the salvaged branch.
        self.worktree
            .ruled_call()?
            .args(["reset", "--quiet", "--hard", "HEAD", "--"])
            .done()?;
        // A nested repository is not salvaged, and `git clean` leaves it alone, too.
        self.worktree
            .call()
            .args(["clean", "--quiet", "-f", "-d"])
            .done()?;
        self.worktree.remove_hidden()?;
        match self.worktree.unsaved()? {
            None => Ok(salvaged.or(elsewhere)),
            Some(why) => Err(GitError::refused(
                format!("{} cannot be restored: {why}", self.path().display()),
                "check it with `git status`, and move away what is not the team's",
            )),
        }
    }

    /// Moves the branch from `old` to `new`, then updates the worktree. Only the first step counts: a worktree that
    /// cannot be updated is no error here, because [`Self::settle`] will find it and report why.
    pub(super) fn advance(
        &self,
        old: &CommitId,
        new: &CommitId,
        reason: &str,
    ) -> Result<(), GitError> {
        self.refuse_others()?;
        let follow = self
            .worktree
            .ruled_call()?
            .args(["read-tree", "-m", "-u"])
            .args([old.as_str(), new.as_str()]);
        self.repo
            .call()
            .args(["update-ref", "-m", reason])
            .arg(head_ref(&self.branch()))
            .args([new.as_str(), old.as_str()])
            .done()?;
        if !follow.run().is_ok_and(|ended| ended.status.success()) {
            // The worktree was changed since it was found clean, or the disk is full, or a filter failed.
            self.settle().or_trace("settle the integration worktree");
        }
        Ok(())
    }

    /// Fails if the branch is checked out in another work tree, whose files would no longer match the branch.
    fn refuse_others(&self) -> Result<(), GitError> {
        refuse_others(&self.repo, &self.team, self.path())
    }

    /// Waits for a git process that outlived a killed teamster and must not be judged half-way.
    fn wait_for_others(&self) -> Result<(), GitError> {
        let start = Instant::now();
        loop {
            let is_locked = match Dir::open_root(self.worktree.admin())? {
                Some(admin) => admin.stamp(INDEX_LOCK)?.is_some(),
                None => false,
            };
            let others = proc::processes_in(self.path()).is_some_and(|pids| !pids.is_empty());
            if !(is_locked && others) {
                return Ok(());
            }
            if start.elapsed() >= AT_WORK {
                return Err(GitError::new(
                    GitProblem::Busy,
                    format!("another git is running in {}", self.path().display()),
                    "only the team merges there; stop it, and try again",
                ));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Switches back to the integration branch if something else is checked out; commits that are on no branch get one.
    fn leave_other_branch(&self) -> Result<Option<String>, GitError> {
        let entry =
            registered::at(&self.repo, self.path())?.ok_or_else(|| vanished(self.path()))?;
        if entry.branch.as_ref() == Some(&self.branch()) {
            return Ok(None);
        }
        let mut salvaged = None;
        if self.worktree.unsaved()?.is_some() {
            salvaged = Some(self.worktree.salvage()?);
        } else if let (None, Some(head)) = (&entry.branch, &entry.head) {
            let safe = KeepRule::merged("");
            if unkept_commits(&self.repo, &self.team, std::slice::from_ref(head), safe)? > 0 {
                salvaged = Some(self.worktree.new_branch(head)?);
            }
        }
        self.worktree
            .call()
            .args(["symbolic-ref", "HEAD"])
            .arg(head_ref(&self.branch()))
            .done()?;
        self.worktree
            .ruled_call()?
            .args(["reset", "--quiet", "--hard", "HEAD", "--"])
            .done()?;
        Ok(salvaged)
    }

    /// Returns whether the differences come from a merge whose worktree update was interrupted: the index is that of
    /// the branch or of its first parent, and so is every existing file.
    fn is_on_the_way(&self) -> Result<bool, GitError> {
        let head = self.head()?;
        let Some(before) = self.repo.resolve(&format!("{head}^1"))? else {
            return Ok(false);
        };
        if self.worktree.unfinished()?.is_some() || self.worktree.has_conflicts()? {
            return Ok(false);
        }
        let index = self.worktree.call().args(["write-tree"]).text()?;
        if index != self.worktree.tree_of(&head)? && index != self.worktree.tree_of(&before)? {
            return Ok(false);
        }
        let after = self.differing(&head)?;
        let earlier = self.differing(&before)?;
        Ok(after.is_disjoint(&earlier))
    }

    /// Returns the files in the worktree that differ from `commit`; a missing file does not count as work.
    fn differing(&self, commit: &CommitId) -> Result<BTreeSet<Vec<u8>>, GitError> {
        self.worktree.with_spare_index(|index| {
            self.worktree
                .call()
                .env("GIT_INDEX_FILE", index)
                .arg("read-tree")
                .arg(commit.as_str())
                .done()?;
            let status = self
                .worktree
                .ruled_call()?
                .env("GIT_INDEX_FILE", index)
                .args(["status", "--porcelain=v1", "-z", "--no-renames"])
                .args(["--untracked-files=all", "--ignore-submodules=none"])
                .bytes()?;
            Ok(status
                .split(|byte| *byte == 0)
                .filter_map(|line| match line {
                    [_, b'D' | b' ', b' ', ..] => None,
                    [_, _, b' ', path @ ..] => Some(path.to_vec()),
                    _ => None,
                })
                .collect())
        })
    }

    /// Returns the folder in it that corresponds to the project, which may be a subfolder of the repository.
    pub fn work_folder(&self) -> PathBuf {
        self.worktree.work_folder()
    }

    /// Fails if the worktree was replaced, for instance by a link or another folder: a reset there would destroy
    /// foreign files.
    pub(super) fn is_still_there(&self) -> Result<(), GitError> {
        match Worktree::named(&self.repo, &self.team, INTEGRATION)? {
            Some(now) if now.path() == self.path() && now.admin() == self.worktree.admin() => {
                Ok(())
            }
            _ => Err(vanished(self.path())),
        }
    }

    /// Returns the underlying worktree.
    pub fn worktree(&self) -> &Worktree {
        &self.worktree
    }

    /// Returns whether `head` is exactly the merge of `second` into `first`.
    pub fn is_merge_of(
        &self,
        head: &CommitId,
        first: &CommitId,
        second: &CommitId,
    ) -> Result<bool, GitError> {
        let said = self
            .repo
            .call()
            .args([
                "rev-parse",
                &format!("{head}^@"),
                &format!("{head}^{{tree}}"),
            ])
            .text()?;
        let said: Vec<&str> = said.lines().collect();
        let [one, other, tree] = said.as_slice() else {
            return Ok(false);
        };
        if (*one, *other) != (first.as_str(), second.as_str()) {
            return Ok(false);
        }
        let merged = self.predict_on(first, second)?;
        Ok(matches!(merged, MergePrediction::Clean { tree: expected } if expected == *tree))
    }

    /// Moves the branch back to `to`, where the host left it, if another process has moved it. The commit it was moved
    /// to is kept under a reference, whose name is returned.
    pub fn put_back(&self, to: &CommitId) -> Result<Option<String>, GitError> {
        let dir = team_folder(&self.repo, &self.team)?;
        let _held = hold(&dir, INTEGRATION)?;
        self.settle()?;
        let head = self.head()?;
        if head == *to {
            return Ok(None);
        }
        let mut number = 1_u32;
        let name = loop {
            let name = moved_ref(&self.team, number);
            match self.repo.resolve(&name)? {
                Some(there) if there != head => number += 1,
                _ => break name,
            }
        };
        self.repo
            .call()
            .args(["update-ref", "-m", "teamster: moved by somebody else"])
            .args([name.as_str(), head.as_str()])
            .done()?;
        self.repo
            .call()
            .args(["update-ref", "-m", "teamster: put back"])
            .arg(head_ref(&self.branch()))
            .args([to.as_str(), head.as_str()])
            .done()?;
        self.worktree
            .call()
            .args(["reset", "--quiet", "--hard", "HEAD", "--"])
            .done()?;
        Ok(Some(name))
    }

    /// Removes the integration branch and its worktree after a rejection; its commits are kept under a reference, so
    /// that no work is lost. Returns that reference; `None` when there is no such branch. An interrupted removal is
    /// completed.
    pub fn roll_back(repo: &Repo, team: &TeamName) -> Result<Option<String>, GitError> {
        let dir = team_folder(repo, team)?;
        let _held = hold(&dir, INTEGRATION)?;
        let branch = head_ref(&integration_branch(team));
        let Some(head) = repo.resolve(&branch)? else {
            return Ok(repo.rejected(team)?.map(|(name, _)| name));
        };
        let name = rejected_ref(team);
        if let Some(earlier) = repo.resolve(&name)?
            && !repo.is_ancestor(&earlier, &head)?
        {
            // An earlier run of this name was rejected, too; its work keeps a reference.
            let mut number = 1_u32;
            while repo.resolve(&format!("{name}.was-{number}"))?.is_some() {
                number += 1;
            }
            repo.call()
                .args(["update-ref", &format!("{name}.was-{number}")])
                .arg(earlier.as_str())
                .done()?;
        }
        repo.call()
            .args(["update-ref", "-m", "teamster: rejected"])
            .args([name.as_str(), head.as_str()])
            .done()?;
        if let Some(integration) = Self::open(repo, team)? {
            // Everything in it is now in the commit that was just saved, or ignored by git, or salvaged.
            integration.settle()?;
            repo.call()
                .args(["worktree", "remove", "--force", "--"])
                .arg(integration.path())
                .done()?;
        }
        repo.call()
            .args(["update-ref", "-d", &branch, head.as_str()])
            .done()?;
        Ok(Some(name))
    }
}

/// Fails if a work tree other than `own` has the integration branch checked out.
fn refuse_others(repo: &Repo, team: &TeamName, own: &Path) -> Result<(), GitError> {
    let branch = integration_branch(team);
    let other = registered::all(repo)?
        .into_iter()
        .find(|entry| entry.branch.as_ref() == Some(&branch) && entry.path != own);
    match other {
        None => Ok(()),
        Some(entry) => Err(GitError::refused(
            format!("{branch} is checked out in {}", entry.path.display()),
            format!(
                "the team merges into it: `git -C {} switch --detach` keeps what you see and lets the team go on",
                entry.path.display()
            ),
        )),
    }
}

/// Makes sure that the folder of the worktree contains the worktree or does not exist.
fn clear_place(repo: &Repo, team: &TeamName, dir: &Dir) -> Result<Option<String>, GitError> {
    let path = dir.join(INTEGRATION);
    let entry = displaced::finished(repo, &path)?;
    let stamp = dir.stamp(INTEGRATION)?;
    match (entry, stamp.map(|stamp| stamp.kind)) {
        (_, Some(kind)) if kind != FileKind::Folder => return Err(displaced::foreign(&path)),
        (None, Some(_)) => displaced::clear_beginning(repo, dir, INTEGRATION, &path)?,
        (Some(entry), None) => {
            if let Some(reason) = &entry.locked
                && !entry.is_being_made()
            {
                return Err(displaced::locked(&path, reason));
            }
            displaced::unlock(repo, &entry)?;
            let mut kept = None;
            if let (None, Some(head)) = (&entry.branch, &entry.head) {
                kept = keep_commit(repo, team, head)?;
            }
            repo.call()
                .args(["worktree", "remove", "--"])
                .arg(&path)
                .done()?;
            return Ok(kept);
        }
        (Some(entry), Some(_)) if entry.head.is_none() || entry.is_being_made() => {
            displaced::unlock(repo, &entry)?;
            let empty = entry.head.is_none();
            if empty || displaced::has_only_missing(repo, team, INTEGRATION)? {
                displaced::remove_half_made(repo, dir, INTEGRATION, &path, empty)?;
            }
        }
        (None, None) | (Some(_), Some(_)) => {}
    }
    Ok(None)
}

/// Creates a branch for a commit that was checked out in a worktree whose folder is gone, if nothing else keeps it.
fn keep_commit(
    repo: &Repo,
    team: &TeamName,
    commit: &CommitId,
) -> Result<Option<String>, GitError> {
    let count = unkept_commits(
        repo,
        team,
        std::slice::from_ref(commit),
        KeepRule::merged(""),
    )?;
    if count == 0 {
        return Ok(None);
    }
    super::salvage::new_branch(repo, team, INTEGRATION, commit).map(Some)
}

/// Creates the branch from `base`, or checks that an existing one started at it or an ancestor.
fn ensure_branch(repo: &Repo, team: &TeamName, base: &CommitId) -> Result<(), GitError> {
    refuse_others(
        repo,
        team,
        &layout::team_worktrees(repo.project(), team).join(INTEGRATION),
    )?;
    let branch = integration_branch(team);
    let name = head_ref(&branch);
    let Some(tip) = repo.resolve(&name)? else {
        // An empty old value means that the branch must not exist yet.
        return repo
            .call()
            .args(["update-ref", &name, base.as_str(), ""])
            .done();
    };
    if repo.is_ancestor(base, &tip)? || repo.is_ancestor(&tip, base)? {
        return Ok(());
    }
    let safe = KeepRule {
        base: Some(base),
        pins: false,
        is_integration: true,
    };
    let count = unkept_commits(repo, team, std::slice::from_ref(&tip), safe)?;
    Err(GitError::refused(
        format!(
            "{branch} already exists and did not start at {}: {}",
            base.short(),
            unmerged_words(count)
        ),
        format!(
            "choose another name for the team, or keep it as another branch: `git branch -m {branch} NAME`"
        ),
    ))
}
