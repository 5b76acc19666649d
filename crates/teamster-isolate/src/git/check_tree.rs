//! A worktree for checks: created from the commit to be checked, used once, and removed.
//!
//! A check must see exactly what would land. A worktree that an agent can write to may contain more than its commit:
//! files that git ignores, or was told to skip (`skip-worktree`), can influence a check without being part of the work.
//! So every check gets a new worktree that contains the commit and nothing else.

use std::path::PathBuf;

use teamster_fs::{Dir, DirEntry, FileKind, layout, remove_tree};
use teamster_types::TeamName;

use super::error::GitError;
use super::names::CommitId;
use super::registered;
use super::repo::Repo;
use super::worktree::{Worktree, team_folder, vanished};
use crate::OrTrace as _;

/// A worktree at one commit, detached from every branch, removed on drop.
#[derive(Debug)]
pub struct CheckTree {
    worktree: Worktree,
    is_removed: bool,
}

impl CheckTree {
    /// Creates a worktree of `commit` for the checks of a team.
    pub fn make(repo: &Repo, team: &TeamName, commit: &CommitId) -> Result<Self, GitError> {
        let dir = team_folder(repo, team)?;
        refuse_neighbours(repo, &dir)?;
        let name = layout::check_tree(&teamster_fs::random_hex());
        let path = dir.join(&name);
        let made = repo
            .call()
            .args(["worktree", "add", "--quiet", "--detach", "--no-checkout"])
            .arg("--")
            .arg(&path)
            .arg(commit.as_str())
            .done();
        if let Err(error) = made {
            // git cleans up after a failure, unless git itself was killed.
            remove(repo, team, &name).or_trace("remove a tree for checks");
            return Err(error);
        }
        let worktree = Worktree::named(repo, team, &name)?.ok_or_else(|| vanished(&path))?;
        let tree = Self {
            worktree,
            is_removed: false,
        };
        // Checked out separately, inside the worktree: some settings apply only there.
        tree.worktree
            .ruled_call()?
            // The whole commit, even where the user's own work tree is sparse.
            .args(["-c", "core.sparseCheckout=false"])
            .args(["reset", "--quiet", "--hard", commit.as_str(), "--"])
            .done()
            .map_err(|error| error.in_removed_tree(repo, commit))?;
        if tree.worktree.head()? != *commit {
            return Err(GitError::unexpected_output("the commit to check", &path));
        }
        Ok(tree)
    }

    /// Returns the worktree.
    pub fn worktree(&self) -> &Worktree {
        &self.worktree
    }

    /// Returns the folder in it that corresponds to the project, which may be a subfolder of the repository.
    pub fn work_folder(&self) -> PathBuf {
        self.worktree.work_folder()
    }

    /// Removes the check worktrees of a team that a killed host left behind. No check of the team may be running.
    pub fn sweep(repo: &Repo, team: &TeamName) -> Result<(), GitError> {
        let dir = team_folder(repo, team)?;
        let mut names: Vec<String> = dir.entries()?.into_iter().map(|entry| entry.name).collect();
        let entries = registered::all(repo)?;
        let registered = entries.iter().filter(|entry| {
            entry.path.parent() == Some(&layout::team_worktrees(repo.project(), team))
        });
        names.extend(
            registered
                .filter_map(|entry| entry.path.file_name()?.to_str())
                .map(str::to_owned),
        );
        names.sort_unstable();
        names.dedup();
        for name in names.iter().filter(|name| layout::is_check_tree(name)) {
            remove(repo, team, name)?;
        }
        Ok(())
    }
}

impl CheckTree {
    /// Removes it now, and reports a failure.
    pub fn remove(mut self) -> Result<(), GitError> {
        self.is_removed = true;
        self.remove_now()
    }

    fn remove_now(&self) -> Result<(), GitError> {
        let Worktree {
            repo, team, name, ..
        } = &self.worktree;
        remove(repo, team, name)
    }
}

impl Drop for CheckTree {
    fn drop(&mut self) {
        if !self.is_removed {
            // A leftover is removed by the next host, or by `teamster worktree gc`.
            self.remove_now().or_trace("remove a tree for checks");
        }
    }
}

/// Removes a check worktree with everything in it: it never contains anybody's work.
pub(super) fn remove(repo: &Repo, team: &TeamName, name: &str) -> Result<(), GitError> {
    let dir = team_folder(repo, team)?;
    let path = dir.join(name);
    match dir.stamp(name)?.map(|stamp| stamp.kind) {
        Some(FileKind::Folder) => remove_tree(&dir, name)?,
        Some(_) => drop(dir.remove(name)?),
        None => {}
    }
    if registered::at(repo, &path)?.is_some() {
        repo.call()
            .args(["worktree", "remove", "--force", "--force", "--"])
            .arg(&path)
            .done()?;
    }
    Ok(())
}

/// Refuses to check while the folders above the worktree contain foreign files: many tools read settings (`.cargo`,
/// `node_modules`) from parent folders, and those would influence the check.
fn refuse_neighbours(repo: &Repo, team: &Dir) -> Result<(), GitError> {
    let is_tool = |name: &str| name.starts_with('.') || name == "node_modules";
    let mut foreign: Vec<PathBuf> = Vec::new();
    let registered = registered::all(repo)?;
    for DirEntry { name, .. } in team.entries()? {
        let path = team.join(&name);
        let end = name.rsplit('.').next();
        let is_file_of_ours = name.starts_with('.') && matches!(end, Some("lock" | "index"));
        let is_known = is_file_of_ours
            || layout::is_check_tree(&name)
            || registered.iter().any(|entry| entry.path == path);
        if !is_known {
            foreign.push(path);
        }
    }
    let mut above = Dir::open_root(repo.project())?;
    for part in layout::WORKTREES {
        above = match above {
            Some(above) => above.child(part)?,
            None => None,
        };
        let Some(above) = &above else { break };
        let names = above.entries()?.into_iter().map(|entry| entry.name);
        foreign.extend(
            names
                .filter(|name| is_tool(name))
                .map(|name| above.join(&name)),
        );
    }
    let Some(first) = foreign.first() else {
        return Ok(());
    };
    Err(GitError::refused(
        format!(
            "{} is above the tree to be checked, where tools look for their settings",
            first.display()
        ),
        "an agent may have put it there; inspect it, move it away, and resume the run",
    ))
}
