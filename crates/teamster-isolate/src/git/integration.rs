//! Where a team's finished tasks come together: a worktree of its own, on a branch of its own.
//!
//! The branch is the truth, the worktree follows it. A merge is one update of the branch with its old value, so it has
//! happened or it has not; what a kill leaves is only a worktree that has not followed all the way, and that can be
//! told from work: every file is as it was before the merge or as it is after it. Anything else that is found there is
//! brought to a branch before the worktree is set right. Nobody's work is thrown away, and nothing is forced.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use teamster_fs::layout::{self, INTEGRATION};
use teamster_fs::{Dir, FileKind, proc};
use teamster_types::TeamName;

use super::aside;
use super::commit::INDEX_LOCK;
use super::error::{GitError, GitProblem};
use super::names::{CommitId, head_ref, integration_branch};
use super::registered;
use super::repo::Repo;
use super::worktree::{
    Removal, Safe, Worktree, hold, team_folder, unkept_commits, unmerged_words, vanished,
};
use crate::OrTrace as _;

/// How long a git of a teamster that was killed may go on in the worktree.
const AT_WORK: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// The integration branch of a team and its worktree.
#[derive(Clone, Debug)]
pub struct Integration {
    pub(super) repo: Repo,
    pub(super) team: TeamName,
    pub(super) worktree: Worktree,
}

/// An integration worktree that is ready, and where work went that was found in it and is not in its branch.
#[derive(Debug)]
pub struct Ready {
    /// The worktree.
    pub integration: Integration,
    /// A branch that holds what was found; nobody but the team should work there, but somebody did.
    pub salvaged: Option<String>,
}

impl Integration {
    /// Makes the worktree and its branch from `base`, or takes up those that a run has left, whatever it was killed at.
    /// A branch that has work of another beginning in it is refused and left alone.
    pub fn prepare(repo: &Repo, team: &TeamName, base: &CommitId) -> Result<Ready, GitError> {
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
            // It has nothing that `base` has not, or it would have been refused.
            integration.advance(&head, base, "teamster: begin again from a newer commit")?;
        }
        Ok(Ready {
            integration,
            salvaged,
        })
    }

    /// The worktree that a run has made, as it is; `None` when there is none.
    pub fn open(repo: &Repo, team: &TeamName) -> Result<Option<Self>, GitError> {
        let worktree = Worktree::named(repo, team, INTEGRATION)?;
        Ok(worktree.map(|worktree| Self {
            repo: repo.clone(),
            team: team.clone(),
            worktree,
        }))
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.worktree.path()
    }

    /// Its branch.
    pub fn branch(&self) -> String {
        integration_branch(&self.team)
    }

    /// The end of its branch.
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

    /// Whether everything in its folder is committed.
    pub fn is_clean(&self) -> Result<bool, GitError> {
        self.worktree.is_clean()
    }

    /// Sets the worktree right: on its branch, at its end, clean. The branch that holds what was found there and was in
    /// no commit, if anything was.
    pub fn recover(&self) -> Result<Option<String>, GitError> {
        let dir = team_folder(&self.repo, &self.team)?;
        let _held = hold(&dir, INTEGRATION)?;
        self.settle()
    }

    /// Removes the worktree and its branch, if the worktree is clean and a branch of the user's has all its commits.
    pub fn remove_if_landed(&self) -> Result<Removal, GitError> {
        self.worktree.remove_if_safe()
    }

    /// The same as [`Self::recover`] for whoever holds the lock.
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
        // A file that git was told not to look at would not be set right.
        self.worktree.clear_flags()?;
        // What this overwrites is in the branch's history, or in the salvaged branch.
        self.worktree
            .ruled_call()?
            .args(["reset", "--quiet", "--hard", "HEAD", "--"])
            .done()?;
        // A repository in the repository is not salvaged; git leaves it alone here too.
        self.worktree
            .call()
            .args(["clean", "--quiet", "-f", "-d"])
            .done()?;
        self.worktree.remove_hidden()?;
        match self.worktree.unsaved()? {
            None => Ok(salvaged.or(elsewhere)),
            Some(why) => Err(GitError::refused(
                format!("{} cannot be set right: {why}", self.path().display()),
                "look at it with `git status`, and move away what is not the team's",
            )),
        }
    }

    /// Moves the branch from `old` to `new`, then lets the worktree follow. The first is what counts: a worktree that
    /// cannot follow is no error here, because [`Self::settle`] finds it so and says why.
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
            // Somebody has written there since it was found clean, or the disk or a filter said no.
            self.settle().or_trace("settle the integration worktree");
        }
        Ok(())
    }

    /// Refuses when the branch is checked out in a work tree that is not ours: it would be pulled away under somebody.
    fn refuse_others(&self) -> Result<(), GitError> {
        refuse_others(&self.repo, &self.team, self.path())
    }

    /// A git whose teamster was killed goes on, and must not be judged half-way.
    fn wait_for_others(&self) -> Result<(), GitError> {
        let start = Instant::now();
        loop {
            let is_locked = match Dir::open_root(self.worktree.admin())? {
                Some(admin) => admin.stamp(INDEX_LOCK)?.is_some(),
                None => false,
            };
            let others = proc::at_work_in(self.path()).is_some_and(|pids| !pids.is_empty());
            if !(is_locked && others) {
                return Ok(());
            }
            if start.elapsed() >= AT_WORK {
                return Err(GitError::new(
                    GitProblem::Busy,
                    format!("another git is at work in {}", self.path().display()),
                    "only the team merges there; end it, and try again",
                ));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Somebody may have checked something else out there; commits of theirs that are on no branch get one.
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
            let safe = Safe::merged("");
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

    /// Whether what is there is a merge that the worktree has not followed all the way: the index is that of the branch
    /// or of the commit before it, and so is every file, if it is there.
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

    /// The files in the worktree that are not those of `commit`; one that is missing is no work of anybody's.
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
}

/// Refuses when a work tree other than `own` has the integration branch checked out.
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

/// Makes sure that what stands in the place of the worktree is the worktree, or nothing.
fn clear_place(repo: &Repo, team: &TeamName, dir: &Dir) -> Result<Option<String>, GitError> {
    let path = dir.join(INTEGRATION);
    let entry = aside::finished(repo, &path)?;
    let stamp = dir.stamp(INTEGRATION)?;
    match (entry, stamp.map(|stamp| stamp.kind)) {
        (_, Some(kind)) if kind != FileKind::Folder => return Err(aside::foreign(&path)),
        (None, Some(_)) => aside::clear_beginning(repo, dir, INTEGRATION, &path)?,
        (Some(entry), None) => {
            if let Some(reason) = &entry.locked
                && !entry.is_being_made()
            {
                return Err(aside::locked(&path, reason));
            }
            aside::unlock(repo, &entry)?;
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
            aside::unlock(repo, &entry)?;
            let empty = entry.head.is_none();
            if empty || aside::has_only_missing(repo, team, INTEGRATION)? {
                aside::remove_half_made(repo, dir, INTEGRATION, &path, empty)?;
            }
        }
        (None, None) | (Some(_), Some(_)) => {}
    }
    Ok(None)
}

/// A branch for a commit that was checked out in a worktree whose folder is gone, if nothing else keeps it.
fn keep_commit(
    repo: &Repo,
    team: &TeamName,
    commit: &CommitId,
) -> Result<Option<String>, GitError> {
    let count = unkept_commits(repo, team, std::slice::from_ref(commit), Safe::merged(""))?;
    if count == 0 {
        return Ok(None);
    }
    super::salvage::new_branch(repo, team, INTEGRATION, commit).map(Some)
}

/// Makes the branch from `base`, or finds that the one that is there has begun at it or before it.
fn ensure_branch(repo: &Repo, team: &TeamName, base: &CommitId) -> Result<(), GitError> {
    refuse_others(
        repo,
        team,
        &layout::team_worktrees(repo.project(), team).join(INTEGRATION),
    )?;
    let branch = integration_branch(team);
    let name = head_ref(&branch);
    let Some(tip) = repo.resolve(&name)? else {
        // An empty old value: it must not be there.
        return repo
            .call()
            .args(["update-ref", &name, base.as_str(), ""])
            .done();
    };
    if repo.is_ancestor(base, &tip)? || repo.is_ancestor(&tip, base)? {
        return Ok(());
    }
    let safe = Safe {
        base: Some(base),
        pins: false,
        is_integration: true,
    };
    let count = unkept_commits(repo, team, std::slice::from_ref(&tip), safe)?;
    Err(GitError::refused(
        format!(
            "{branch} is there and has not begun at {}: {}",
            base.short(),
            unmerged_words(count)
        ),
        format!(
            "choose another name for the team, or keep it as another branch: `git branch -m {branch} NAME`"
        ),
    ))
}
