//! A worker's own worktree: created, updated, and removed only when no work would be lost.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use teamster_fs::{Dir, FileKind, Lock, LockWait, layout};
use teamster_types::{TeamName, WorkerName};

use super::command::GitCommand;
use super::displaced;
use super::error::{GitError, GitProblem};
use super::names::{CommitId, head_ref, integration_branch, pins_of, rejected_ref, team_branch};
use super::registered;
use super::repo::Repo;
use super::secrets::SecretFile;
use super::tracking::TrackingRules;

/// How long to wait for another process that holds the lock of the worktree.
const PATIENCE: Duration = Duration::from_secs(60);
/// The files in a worktree's git folder that exist during an unfinished operation, and the name of the operation.
const UNFINISHED: [(&str, &str); 6] = [
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
];

/// A worktree that teamster created.
#[derive(Clone, Debug)]
pub struct Worktree {
    pub(super) repo: Repo,
    pub(super) team: TeamName,
    /// The worker's name, or that of a worktree that was moved aside.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The worktree's git folder. Calls name it explicitly, so that no file that a worker writes into the worktree can
    /// redirect them.
    admin: PathBuf,
    /// The rules that decide which of its files count as changed, if they are in memory.
    pub(super) rules: Arc<Mutex<Option<Arc<TrackingRules>>>>,
}

/// A worktree that is ready for use, and the work that was moved to make room for it.
#[derive(Debug)]
pub struct PreparedWorktree {
    /// The worktree.
    pub worktree: Worktree,
    /// Work in its place that was moved aside because it exists nowhere else.
    pub kept: Vec<DisplacedWork>,
    /// Files in its place that must not be committed.
    pub secrets: Vec<SecretFile>,
}

/// Work that was moved aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplacedWork {
    /// The new path; `None` when only a branch was left.
    pub path: Option<PathBuf>,
    /// Its branch.
    pub branch: Option<String>,
    /// Why it is kept.
    pub why: String,
}

/// How a worker's branch was updated to a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchUpdate {
    /// It was already there.
    Already,
    /// It was moved: it had no commits of its own, or only commits that are kept elsewhere.
    To(CommitId),
    /// It had commits of its own, which were merged.
    Merged(CommitId),
    /// It was left as it is.
    Kept {
        /// Why it was left.
        why: String,
    },
}

/// The result of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The worktree and its branch were removed.
    Removed,
    /// It was kept because work would be lost.
    Kept {
        /// The work that would be lost.
        why: String,
    },
}

impl Worktree {
    /// Creates the worktree of a worker, on its branch, from `base`. An existing worktree is removed if it is clean and
    /// all its commits are kept elsewhere, and moved aside otherwise; a foreign folder is refused and left alone.
    pub fn prepare(
        repo: &Repo,
        team: &TeamName,
        worker: &WorkerName,
        base: &CommitId,
    ) -> Result<PreparedWorktree, GitError> {
        let dir = team_folder(repo, team)?;
        let _held = hold(&dir, worker.as_str())?;
        let mut kept = Vec::new();
        let secrets = displaced::clear_place(repo, team, worker, base, &dir, &mut kept)?;
        displaced::clear_branch(repo, team, worker, base, &mut kept)?;
        let path = dir.join(worker.as_str());
        let branch = team_branch(team, worker.as_str());
        // The branch is created first and separately, with an empty old value: it must not exist. A `worktree add` that
        // is retried because of another git process would otherwise find the branch that it had created itself.
        repo.call()
            .args(["update-ref", &head_ref(&branch), base.as_str(), ""])
            .done()?;
        registered::add(repo, &path, &branch)?;
        let worktree = Self::named(repo, team, worker.as_str())?.ok_or_else(|| vanished(&path))?;
        worktree.record_rules()?;
        Ok(PreparedWorktree {
            worktree,
            kept,
            secrets,
        })
    }

    /// Returns the existing worktree of a worker, unchanged; `None` when there is none.
    pub fn open(
        repo: &Repo,
        team: &TeamName,
        worker: &WorkerName,
    ) -> Result<Option<Self>, GitError> {
        Self::named(repo, team, worker.as_str())
    }

    /// Returns the worktree of a team by the name shown in a listing; anything else of that name is refused.
    pub fn named(repo: &Repo, team: &TeamName, name: &str) -> Result<Option<Self>, GitError> {
        let path = layout::team_worktrees(repo.project(), team).join(name);
        let Some(dir) = open_beneath(repo.project(), team, name)? else {
            return Ok(None);
        };
        let admin = admin_folder(repo, &dir).ok_or_else(|| displaced::foreign(&path))?;
        Ok(Some(Self {
            repo: repo.clone(),
            team: team.clone(),
            name: name.to_owned(),
            path,
            admin,
            rules: Arc::default(),
        }))
    }

    /// Returns its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the worktree's git folder. A sandboxed agent needs write access to it to commit there itself.
    pub fn admin(&self) -> &Path {
        &self.admin
    }

    /// Returns where a worker starts: the folder that corresponds to the project.
    pub fn work_folder(&self) -> PathBuf {
        match self.repo.project().strip_prefix(self.repo.root()) {
            Ok(inside) if !inside.as_os_str().is_empty() => self.path.join(inside),
            _ => self.path.clone(),
        }
    }

    /// Returns the branch that it was created for.
    pub fn branch(&self) -> String {
        team_branch(&self.team, &self.name)
    }

    /// Returns the commit that is checked out.
    pub fn head(&self) -> Result<CommitId, GitError> {
        self.call()
            .args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
            .commit()
    }

    /// Returns whether everything in it is committed.
    pub fn is_clean(&self) -> Result<bool, GitError> {
        Ok(self.unsaved()?.is_none())
    }

    /// Updates the worker's branch to `commit` before a task, as far as no work is lost.
    pub fn move_to(&self, commit: &CommitId) -> Result<BranchUpdate, GitError> {
        self.move_on(commit, None)
    }

    /// Does the same as [`Self::move_to`] for a branch whose last task began at `begun_at`: that commit consists of
    /// work which is kept, so a branch whose tip it is has no commits of its own.
    pub fn move_from(
        &self,
        begun_at: &CommitId,
        commit: &CommitId,
    ) -> Result<BranchUpdate, GitError> {
        self.move_on(commit, Some(begun_at))
    }

    fn move_on(
        &self,
        commit: &CommitId,
        begun_at: Option<&CommitId>,
    ) -> Result<BranchUpdate, GitError> {
        if let Some(why) = self.unsaved()? {
            return Ok(BranchUpdate::Kept { why });
        }
        self.back_on_branch()?;
        let head = self.head()?;
        if head == *commit {
            return Ok(BranchUpdate::Already);
        }
        let safe = KeepRule {
            base: Some(commit),
            pins: true,
            is_integration: false,
        };
        let holds_nothing =
            Some(&head) == begun_at || unkept_commits(&self.repo, &self.team, &[head], safe)? == 0;
        if holds_nothing {
            // This fails if a file would be overwritten; a clean worktree has no such file.
            self.ruled_call()?
                .args(["reset", "--quiet", "--keep", commit.as_str(), "--"])
                .done()?;
            return Ok(BranchUpdate::To(commit.clone()));
        }
        self.merge(commit)
    }

    fn merge(&self, commit: &CommitId) -> Result<BranchUpdate, GitError> {
        let predicts = self
            .ruled_call()?
            .args(["merge-tree", "--write-tree", "--no-messages", "HEAD"])
            .arg(commit.as_str())
            .yes()?;
        if !predicts {
            let why = format!("its own commits conflict with {}", commit.short());
            return Ok(BranchUpdate::Kept { why });
        }
        super::commit::with_identity(self.ruled_call()?, self, None)?
            .args(["merge", "--quiet", "--no-edit", "--no-verify", "--no-stat"])
            .arg(commit.as_str())
            .done()?;
        Ok(BranchUpdate::Merged(self.head()?))
    }

    /// Switches back to the worker's branch, which an agent may have left. Commits that are on no branch get one.
    fn back_on_branch(&self) -> Result<(), GitError> {
        let entry = registered::at(&self.repo, &self.path)?.ok_or_else(|| vanished(&self.path))?;
        let branch = self.branch();
        if entry.branch.as_ref() == Some(&branch) {
            return Ok(());
        }
        let head = self.head()?;
        let own = self.repo.resolve(&head_ref(&branch))?;
        let on_own = match &own {
            Some(own) => self.repo.is_ancestor(&head, own)?,
            None => false,
        };
        let safe = KeepRule {
            base: None,
            pins: true,
            is_integration: false,
        };
        if entry.branch.is_none()
            && !on_own
            && unkept_commits(&self.repo, &self.team, std::slice::from_ref(&head), safe)? > 0
        {
            displaced::branch_for(&self.repo, &self.team, &self.name, &head)?;
        }
        // HEAD is set to the full name, which no tag can have; before that, the files are moved from commit to commit.
        let name = head_ref(&branch);
        match own {
            Some(own) => self
                .ruled_call()?
                .args(["switch", "--quiet", "--detach"])
                .arg(format!("{own}^{{commit}}"))
                .done()?,
            None => self
                .call()
                .args(["update-ref", &name, head.as_str(), ""])
                .done()?,
        }
        self.call().args(["symbolic-ref", "HEAD", &name]).done()
    }

    /// Removes it with its branch, if it is clean and all its commits are on the integration branch or a branch of the
    /// user's. The caller has to make sure that its worker is not alive.
    pub fn remove_if_safe(&self) -> Result<Removal, GitError> {
        let dir = team_folder(&self.repo, &self.team)?;
        let _held = hold(&dir, &self.name)?;
        match self.holds(KeepRule::merged(&self.name))? {
            Some(why) => Ok(Removal::Kept { why }),
            None => self.remove(),
        }
    }

    /// Removes a worktree without unsaved work. git itself checks again, and the branch is deleted only at its old
    /// value.
    pub(super) fn remove(&self) -> Result<Removal, GitError> {
        let branch = head_ref(&self.branch());
        let tip = self.repo.resolve(&branch)?;
        let remove = self
            .repo
            .call()
            .args(["worktree", "remove", "--"])
            .arg(&self.path);
        let ended = remove.run()?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            if said.contains("modified or untracked files") || said.contains("submodules") {
                let why = said.trim().trim_start_matches("fatal: ").to_owned();
                return Ok(Removal::Kept { why });
            }
            return Err(remove.failed(&ended));
        }
        if let Some(tip) = tip {
            self.repo
                .call()
                .args(["update-ref", "-d", branch.as_str(), tip.as_str()])
                .done()?;
        }
        Ok(Removal::Removed)
    }

    /// Returns the work that would be lost with it; `None` when there is none.
    pub(super) fn holds(&self, safe: KeepRule<'_>) -> Result<Option<String>, GitError> {
        if let Some(why) = self.unsaved()? {
            return Ok(Some(why));
        }
        let count = unkept_commits(&self.repo, &self.team, &self.tips()?, safe)?;
        Ok((count > 0).then(|| unmerged_words(count)))
    }

    /// Returns the git operation that was begun in it and not finished.
    pub(super) fn unfinished(&self) -> Result<Option<&'static str>, GitError> {
        if let Some(dir) = Dir::open_root(&self.admin)? {
            for (name, what) in UNFINISHED {
                if dir.stamp(name)?.is_some() {
                    return Ok(Some(what));
                }
            }
        }
        Ok(None)
    }

    /// Returns what is not committed in it; `None` when it is clean.
    pub(super) fn unsaved(&self) -> Result<Option<String>, GitError> {
        if let Some(what) = self.unfinished()? {
            return Ok(Some(format!("{what} is not finished in it")));
        }
        let (changed, nested) = self.with_fresh_index(|fresh| {
            let changed = fresh.all_changed()?.len();
            let nested = if changed == 0 {
                fresh.nested_work()?
            } else {
                Vec::new()
            };
            Ok((changed, nested))
        })?;
        if changed == 0 {
            return Ok(nested.first().map(|(path, held)| format!("{held}: {path}")));
        }
        let files = if changed == 1 { "file" } else { "files" };
        let mut why = format!("{changed} changed {files} not committed");
        if self.status()?.is_empty() {
            why.push_str(", which git was told not to look at");
        }
        Ok(Some(why))
    }

    /// Returns the commit that is checked out and the tip of its branch, which may differ.
    pub(super) fn tips(&self) -> Result<Vec<CommitId>, GitError> {
        let mut tips = vec![self.head()?];
        tips.extend(self.repo.resolve(&head_ref(&self.branch()))?);
        Ok(tips)
    }

    /// Returns a git command in it, bound to its git folder.
    pub(super) fn call(&self) -> GitCommand {
        self.repo
            .call_in(&self.path)
            .env("GIT_DIR", &self.admin)
            .env("GIT_WORK_TREE", &self.path)
    }
}

/// Where commits may be to count as kept, besides the integration branch and the user's branches.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeepRule<'a> {
    /// In the history of this commit.
    pub(super) base: Option<&'a CommitId>,
    /// In the pinned commit of a task.
    pub(super) pins: bool,
    /// Whether the integration branch itself is judged, which then does not prove that its own commits are kept.
    pub(super) is_integration: bool,
}

impl KeepRule<'_> {
    /// Only the integration branch and the user's branches count, as required before a worktree is removed for good.
    pub(super) fn merged(name: &str) -> Self {
        Self {
            base: None,
            pins: false,
            is_integration: name == layout::INTEGRATION,
        }
    }
}

/// Returns how many commits of `tips` exist nowhere else.
pub(super) fn unkept_commits(
    repo: &Repo,
    team: &TeamName,
    tips: &[CommitId],
    safe: KeepRule<'_>,
) -> Result<u64, GitError> {
    let integration = if safe.is_integration {
        None
    } else {
        repo.resolve(&head_ref(&integration_branch(team)))?
    };
    // The work of a rejected branch is kept under another reference.
    let rejected = if safe.is_integration {
        None
    } else {
        repo.resolve(&rejected_ref(team))?
    };
    let mut call = repo
        .call()
        .args(["rev-list", "--count"])
        .args(tips.iter().map(CommitId::as_str))
        .args(["--not", "HEAD"])
        .args(safe.base.map(CommitId::as_str))
        .args(integration.as_ref().map(CommitId::as_str))
        .args(rejected.as_ref().map(CommitId::as_str))
        .args(["--exclude=omc-team/*", "--branches"]);
    if safe.pins {
        call = call.arg(format!("--glob={}", pins_of(team)));
    }
    // Without this, a file named like a commit would make the argument ambiguous.
    let text = call.arg("--").text()?;
    text.parse()
        .map_err(|_| GitError::unexpected_output("the number of commits", repo.root()))
}

pub(super) fn unmerged_words(count: u64) -> String {
    let commits = if count == 1 { "commit" } else { "commits" };
    format!("{count} {commits} not merged")
}

/// Returns the folder of a team's worktrees, creating it if it is missing.
pub(super) fn team_folder(repo: &Repo, team: &TeamName) -> Result<Dir, GitError> {
    let project = Dir::open_root(repo.project())?.ok_or_else(|| vanished(repo.project()))?;
    Ok(project.descend_or_create(&layout::worktree_folders(team))?)
}

/// Locks a worktree against other teamster processes.
pub(super) fn hold(dir: &Dir, name: &str) -> Result<Lock, GitError> {
    match Lock::wait(dir, &layout::worktree_lock(name), PATIENCE, false)? {
        LockWait::Held(lock) => Ok(lock),
        LockWait::TimedOut => Err(GitError::new(
            GitProblem::Busy,
            format!(
                "another teamster process is using {}",
                dir.join(name).display()
            ),
            "try again in a moment",
        )),
    }
}

fn open_beneath(project: &Path, team: &TeamName, name: &str) -> Result<Option<Dir>, GitError> {
    let mut dir = Dir::open_root(project)?;
    for part in layout::worktree_folders(team).into_iter().chain([name]) {
        dir = match dir {
            Some(dir) => dir.child(part)?,
            None => return Ok(None),
        };
    }
    Ok(dir)
}

/// Returns the git folder of the worktree in `dir`; `None` unless `dir` and the repository refer to each other.
pub(super) fn admin_folder(repo: &Repo, dir: &Dir) -> Option<PathBuf> {
    let admin = named_in(dir, ".git", "gitdir: ")?.canonicalize().ok()?;
    let worktrees = repo.common().canonicalize().ok()?.join("worktrees");
    if admin.parent() != Some(&worktrees) {
        return None;
    }
    let there = Dir::open_root(&admin).ok()??;
    let back = named_in(&there, "gitdir", "")?;
    let own = dir.path().canonicalize().ok()?.join(".git");
    (back == own || back.canonicalize().ok()? == own).then_some(admin)
}

/// Returns the path that follows `before` in one of git's pointer files.
pub(super) fn named_in(dir: &Dir, file: &str, before: &str) -> Option<PathBuf> {
    let stamp = dir.stamp(file).ok()??;
    if stamp.kind != FileKind::File || stamp.size > 64 * 1024 {
        return None;
    }
    let (bytes, _) = dir.read(file).ok()??;
    let rest = bytes.strip_prefix(before.as_bytes())?;
    let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
    Some(dir.path().join(std::ffi::OsStr::from_bytes(rest)))
}

pub(super) fn vanished(path: &Path) -> GitError {
    GitError::failed(
        format!("{} no longer exists", path.display()),
        "another process removed it; try again",
    )
}
