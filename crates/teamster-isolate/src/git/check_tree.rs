//! A tree for checks: made fresh from the commit that is judged, used once, and removed.
//!
//! What a check sees must be what would land. Any worktree that an agent can reach may hold more than its commit: files
//! that git was told to ignore, or not to look at (`skip-worktree`), decide a check without being part of the work. So
//! every check gets a worktree that did not exist before, in which there is the commit and nothing else.

use std::path::PathBuf;

use teamster_fs::{Dir, Entry, FileKind, layout, remove_tree};
use teamster_types::TeamName;

use super::error::GitError;
use super::names::CommitId;
use super::registered;
use super::repo::Repo;
use super::worktree::{Worktree, team_folder, vanished};
use crate::OrTrace as _;

/// A worktree at one commit, detached from every branch. It is removed when it is dropped.
#[derive(Debug)]
pub struct CheckTree {
    worktree: Worktree,
}

impl CheckTree {
    /// Makes a tree of `commit` for the checks of a team.
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
            // git removes what it has begun, unless it was ended itself.
            remove(repo, team, &name).or_trace("remove a tree for checks");
            return Err(error);
        }
        let worktree = Worktree::named(repo, team, &name)?.ok_or_else(|| vanished(&path))?;
        let tree = Self { worktree };
        // By itself, in the tree: settings may hold there and nowhere else.
        tree.worktree
            .ruled_call()?
            // All of the commit, even where the user's own work tree shows a part of it.
            .args(["-c", "core.sparseCheckout=false"])
            .args(["reset", "--quiet", "--hard", commit.as_str(), "--"])
            .done()
            .map_err(|error| error.in_removed_tree(repo, commit))?;
        if tree.worktree.head()? != *commit {
            return Err(GitError::odd("the commit to check", &path));
        }
        Ok(tree)
    }

    /// The worktree.
    pub fn worktree(&self) -> &Worktree {
        &self.worktree
    }

    /// The folder in it that corresponds to the project, which may be a folder of the repository.
    pub fn work_folder(&self) -> PathBuf {
        self.worktree.work_folder()
    }

    /// Removes the trees of a team that a killed host has left. Nobody may be checking anything for the team.
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
    /// Removes it now, and says what could not be removed.
    pub fn remove(self) -> Result<(), GitError> {
        remove(
            &self.worktree.repo,
            &self.worktree.team,
            &self.worktree.name,
        )
    }
}

impl Drop for CheckTree {
    fn drop(&mut self) {
        // What is left is swept by the next host, and by `teamster worktree gc`.
        remove(
            &self.worktree.repo,
            &self.worktree.team,
            &self.worktree.name,
        )
        .or_trace("remove a tree for checks");
    }
}

/// Removes a tree for checks with everything in it: nothing there is anybody's work.
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

/// Refuses to check anything while something stands in the folders above the tree that we have not put there: many tools
/// take settings (`.cargo`, `node_modules`) from folders above, and those would decide the check.
fn refuse_neighbours(repo: &Repo, team: &Dir) -> Result<(), GitError> {
    let is_tool = |name: &str| name.starts_with('.') || name == "node_modules";
    let mut foreign: Vec<PathBuf> = Vec::new();
    let registered = registered::all(repo)?;
    for Entry { name, .. } in team.entries()? {
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
            "{} stands above the tree that is to be checked, where tools look for their settings",
            first.display()
        ),
        "somebody put it there, perhaps an agent; look at it, move it away, and resume the run",
    ))
}
