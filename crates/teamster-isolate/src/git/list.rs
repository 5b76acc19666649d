//! All worktrees of a team, and the unsaved work in each of them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use teamster_fs::{Dir, FileKind, layout};
use teamster_types::{TeamName, WorkerName};

use super::check_tree;
use super::error::GitError;
use super::names::{BRANCHES, CommitId, head_ref, team_branch};
use super::registered::{self, RegisteredWorktree};
use super::repo::Repo;
use super::worktree::{
    KeepRule, Removal, Worktree, hold, team_folder, unkept_commits, unmerged_words,
};

/// The purpose of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeKind {
    /// The worktree of a worker.
    Worker(WorkerName),
    /// A worker's worktree that was moved aside.
    Kept(WorkerName),
    /// The worktree in which finished tasks are merged.
    Integration,
    /// A worktree for checks, which never contains anybody's work.
    Checks,
    /// Salvaged work: a branch only.
    Salvaged,
    /// Anything that teamster did not create.
    Foreign,
}

/// The state of a worktree's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeState {
    /// Everything is committed.
    Clean,
    /// Something is not committed.
    Dirty {
        /// What is not committed.
        why: String,
    },
    /// There is no folder: only a branch is left.
    Gone,
    /// It cannot be judged.
    Unknown {
        /// Why it cannot be judged.
        why: String,
    },
}

/// A worktree, or a branch left of one.
#[derive(Clone, Debug)]
pub struct ListedWorktree {
    /// The team of the worktree.
    pub team: TeamName,
    /// Its name in the team's folder.
    pub name: String,
    /// The purpose of the worktree.
    pub kind: WorktreeKind,
    /// The path of the folder, which may be gone.
    pub path: PathBuf,
    /// The branch, if there is one.
    pub branch: Option<String>,
    /// The commit that is checked out, or the tip of the branch.
    pub head: Option<CommitId>,
    /// The state of the folder.
    pub state: WorktreeState,
    /// How many commits are neither on the integration branch nor on a branch of the user's.
    pub unmerged: u64,
    /// How many of these are not pinned by a finished task either.
    pub unpinned: u64,
}

impl ListedWorktree {
    /// Returns why it must not be removed; `None` when it is clean and merged.
    pub fn holds(&self) -> Option<String> {
        match &self.state {
            _ if self.kind == WorktreeKind::Foreign => {
                Some("it is not a worktree of teamster".to_owned())
            }
            _ if self.kind == WorktreeKind::Checks => None,
            WorktreeState::Dirty { why } | WorktreeState::Unknown { why } => Some(why.clone()),
            WorktreeState::Clean | WorktreeState::Gone if self.unmerged > 0 => {
                Some(unmerged_words(self.unmerged))
            }
            WorktreeState::Clean | WorktreeState::Gone => None,
        }
    }

    /// Removes it, if it is still clean and merged.
    pub fn remove_if_safe(&self, repo: &Repo) -> Result<Removal, GitError> {
        if let Some(why) = self.holds() {
            return Ok(Removal::Kept { why });
        }
        if self.kind == WorktreeKind::Checks {
            check_tree::remove(repo, &self.team, &self.name)?;
            return Ok(Removal::Removed);
        }
        if self.state == WorktreeState::Clean
            && let Some(worktree) = Worktree::named(repo, &self.team, &self.name)?
        {
            return worktree.remove_if_safe();
        }
        self.remove_rest(repo)
    }

    /// Removes what is left when the folder is gone: git's record and the branch.
    fn remove_rest(&self, repo: &Repo) -> Result<Removal, GitError> {
        let dir = team_folder(repo, &self.team)?;
        let _held = hold(&dir, &self.name)?;
        if dir.stamp(&self.name)?.is_some() {
            let why = "it is being created right now".to_owned();
            return Ok(Removal::Kept { why });
        }
        if let Some(entry) = registered::at(repo, &self.path)? {
            if let Some(reason) = entry.locked {
                let why = format!("it is locked: {reason:?}");
                return Ok(Removal::Kept { why });
            }
            repo.call()
                .args(["worktree", "remove", "--"])
                .arg(&self.path)
                .done()?;
        }
        let branch = team_branch(&self.team, &self.name);
        let Some(tip) = repo.resolve(&head_ref(&branch))? else {
            return Ok(Removal::Removed);
        };
        let elsewhere = registered::all(repo)?
            .into_iter()
            .find(|entry| entry.branch.as_ref() == Some(&branch));
        if let Some(entry) = elsewhere {
            let why = format!("its branch is checked out in {}", entry.path.display());
            return Ok(Removal::Kept { why });
        }
        let count = unkept_commits(
            repo,
            &self.team,
            std::slice::from_ref(&tip),
            KeepRule::merged(&self.name),
        )?;
        if count > 0 {
            let why = unmerged_words(count);
            return Ok(Removal::Kept { why });
        }
        repo.call()
            .args(["update-ref", "-d", &head_ref(&branch), tip.as_str()])
            .done()?;
        Ok(Removal::Removed)
    }
}

/// Returns every team that has a worktree or a branch here.
pub fn teams(repo: &Repo) -> Result<Vec<TeamName>, GitError> {
    let mut found = BTreeSet::new();
    if let Some(dir) = beneath(repo, &layout::WORKTREES)? {
        found.extend(dir.entries()?.into_iter().map(|entry| entry.name));
    }
    for branch in branches(repo, BRANCHES)? {
        let team = branch
            .strip_prefix(BRANCHES)
            .and_then(|rest| rest.split('/').next());
        found.extend(team.map(str::to_owned));
    }
    Ok(found.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Returns every worktree of a team, and every branch left of one, sorted by name.
pub fn list(repo: &Repo, team: &TeamName) -> Result<Vec<ListedWorktree>, GitError> {
    let folder = layout::team_worktrees(repo.project(), team);
    let entries: Vec<RegisteredWorktree> = registered::all(repo)?
        .into_iter()
        .filter(|entry| entry.path.parent() == Some(&folder))
        .collect();
    let mut names: BTreeSet<String> = entries
        .iter()
        .filter_map(|entry| entry.path.file_name()?.to_str().map(str::to_owned))
        .collect();
    names.extend(folders(repo, team)?);
    let prefix = team_branch(team, "");
    for branch in branches(repo, &prefix)? {
        names.extend(branch.strip_prefix(&prefix).map(str::to_owned));
    }
    names
        .into_iter()
        .map(|name| {
            let path = folder.join(&name);
            let entry = entries.iter().find(|entry| entry.path == path);
            look(repo, team, name, path, entry)
        })
        .collect()
}

fn look(
    repo: &Repo,
    team: &TeamName,
    name: String,
    path: PathBuf,
    entry: Option<&RegisteredWorktree>,
) -> Result<ListedWorktree, GitError> {
    let branch = team_branch(team, &name);
    let tip = repo.resolve(&head_ref(&branch))?;
    let (kind, state) = match Worktree::named(repo, team, &name) {
        Ok(Some(worktree)) if entry.is_some() => (kind_of(&name), state_of(&worktree, entry)),
        Ok(None) => (kind_of(&name), WorktreeState::Gone),
        Ok(Some(_)) | Err(_) => (
            WorktreeKind::Foreign,
            WorktreeState::Unknown {
                why: "it is not a worktree of this repository".to_owned(),
            },
        ),
    };
    let head = entry.and_then(|entry| entry.head.clone());
    let tips: Vec<CommitId> = head.iter().chain(&tip).cloned().collect();
    let (mut unmerged, mut unpinned) = (0, 0);
    if !tips.is_empty() {
        let merged = KeepRule::merged(&name);
        unmerged = unkept_commits(repo, team, &tips, merged)?;
        let pins = KeepRule {
            pins: true,
            ..merged
        };
        unpinned = unkept_commits(repo, team, &tips, pins)?;
    }
    Ok(ListedWorktree {
        team: team.clone(),
        kind,
        path,
        branch: match entry {
            Some(entry) => entry.branch.clone(),
            None => tip.is_some().then_some(branch),
        },
        head: head.or(tip),
        state,
        unmerged,
        unpinned,
        name,
    })
}

fn state_of(worktree: &Worktree, entry: Option<&RegisteredWorktree>) -> WorktreeState {
    if let Some(reason) = entry.and_then(|entry| entry.locked.as_ref()) {
        return WorktreeState::Unknown {
            why: format!("it is locked: {reason:?}"),
        };
    }
    match worktree.unsaved() {
        Ok(None) => WorktreeState::Clean,
        Ok(Some(why)) => WorktreeState::Dirty { why },
        Err(error) => WorktreeState::Unknown {
            why: error.to_string(),
        },
    }
}

fn kind_of(name: &str) -> WorktreeKind {
    if name == layout::INTEGRATION {
        return WorktreeKind::Integration;
    }
    if layout::is_check_tree(name) {
        return WorktreeKind::Checks;
    }
    if let Ok(worker) = name.parse() {
        return WorktreeKind::Worker(worker);
    }
    match layout::worker_of_kept(name) {
        Some(worker) => WorktreeKind::Kept(worker),
        None if name.contains(".salvaged-") => WorktreeKind::Salvaged,
        None => WorktreeKind::Foreign,
    }
}

/// Returns every entry of the team's worktree folder, except teamster's own files.
fn folders(repo: &Repo, team: &TeamName) -> Result<Vec<String>, GitError> {
    let Some(dir) = beneath(repo, &layout::worktree_folders(team))? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in dir.entries()? {
        let kind = dir.stamp(&entry.name)?.map(|stamp| stamp.kind);
        let is_ours = entry.name.starts_with('.') && kind == Some(FileKind::File);
        if kind.is_some() && !is_ours {
            found.push(entry.name);
        }
    }
    Ok(found)
}

/// Returns a folder beneath the project; `None` when it is missing.
fn beneath(repo: &Repo, names: &[&str]) -> Result<Option<Dir>, GitError> {
    match Dir::open_root(repo.project())? {
        Some(project) => Ok(project.descend(names)?),
        None => Ok(None),
    }
}

/// Returns the branches whose names begin with `prefix`, which ends with a slash.
pub(super) fn branches(repo: &Repo, prefix: &str) -> Result<Vec<String>, GitError> {
    let text = repo
        .call()
        .args(["for-each-ref", "--format=%(refname:lstrip=2)", "--"])
        .arg(head_ref(prefix))
        .text()?;
    Ok(text.lines().map(str::to_owned).collect())
}
