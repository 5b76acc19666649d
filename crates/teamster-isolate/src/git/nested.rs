//! Nested repositories in a worktree: submodules, and repositories that an agent created. A commit only contains their
//! path and commit id, so their content has to be checked separately.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use teamster_fs::Dir;

use super::changes::status;
use super::command::GitCommand;
use super::error::{GitError, GitProblem};
use super::fresh_index::FreshIndex;
use super::names::CommitId;
use super::registered;
use super::repo::Repo;
use super::worktree::{Worktree, named_in};

/// The mode of an entry that is a repository (a gitlink).
const GITLINK: &[u8] = b"160000 ";
const DOT_GIT: &str = ".git";

/// Work in a nested repository that exists nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NestedWork {
    /// Files, although the submodule is not checked out there.
    Files,
    /// Files that differ from its commit.
    Changes,
    /// Commits that are on none of its remotes.
    Commits,
}

impl fmt::Display for NestedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files in the folder of a submodule that is not checked out",
            Self::Changes => "changes inside a nested repository",
            Self::Commits => "commits of a nested repository that none of its remotes has",
        })
    }
}

impl FreshIndex {
    /// Returns every nested repository with such work, by its path.
    pub(super) fn nested_work(&self) -> Result<Vec<(String, NestedWork)>, GitError> {
        let mut found = Vec::new();
        for path in gitlinks(self.call())? {
            let folder = self.worktree().path().join(OsStr::from_bytes(&path));
            let name = String::from_utf8_lossy(&path).into_owned();
            let held = match self.worktree().repo.nested(&folder)? {
                None => holds_files(&folder)?.then_some(NestedWork::Files),
                Some(_) if self.differs_in(&folder)? => Some(NestedWork::Changes),
                Some(call) => has_own_commits(call)?.then_some(NestedWork::Commits),
            };
            found.extend(held.map(|held| (name, held)));
        }
        Ok(found)
    }

    /// Returns whether a file in a nested repository differs from its commit, whatever its index says.
    fn differs_in(&self, folder: &Path) -> Result<bool, GitError> {
        let index = self.nested_index()?;
        let call = self.call_in(folder, &index)?;
        call.clone()
            .args(["reset", "--quiet", "--no-refresh", "HEAD", "--", ":/"])
            .done()?;
        Ok(!status(call.clone())?.is_empty() || !self.hidden(call)?.is_empty())
    }
}

/// Returns the paths of the repositories in an index.
fn gitlinks(call: GitCommand) -> Result<Vec<Vec<u8>>, GitError> {
    let listed = call.args(["ls-files", "--stage", "-z"]).bytes()?;
    Ok(listed
        .split(|byte| *byte == 0)
        .filter(|entry| entry.starts_with(GITLINK))
        .filter_map(|entry| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            Some(entry[tab + 1..].to_vec())
        })
        .collect())
}

fn holds_files(folder: &Path) -> Result<bool, GitError> {
    // Anything but a folder in its place is a change that git reports itself.
    if !folder.is_dir() || folder.is_symlink() {
        return Ok(false);
    }
    let Some(dir) = Dir::open_root(folder)? else {
        return Ok(false);
    };
    Ok(!dir.entries()?.is_empty() || !dir.odd_names()?.is_empty())
}

fn has_own_commits(call: GitCommand) -> Result<bool, GitError> {
    let count = call
        .args(["rev-list", "--count", "HEAD", "--branches"])
        .args(["--not", "--remotes"])
        .text()?;
    Ok(count != "0")
}

impl Repo {
    /// Returns a git command in the repository whose work tree is `folder`; `None` when there is none.
    fn nested(&self, folder: &Path) -> Result<Option<GitCommand>, GitError> {
        if folder.is_symlink() || !folder.join(DOT_GIT).exists() {
            return Ok(None);
        }
        let call = self.call_in(folder);
        // If `.git` is not a valid repository, git searches the parent folders and finds another one.
        let ended = call
            .clone()
            .args(["rev-parse", "--show-prefix", "--verify", "HEAD"])
            .run()?;
        let is_top = ended.status.success() && ended.stdout.starts_with(b"\n");
        Ok(is_top.then_some(call))
    }

    /// Returns the nested repositories that a commit has added since its merge base with `other` without registering
    /// them as submodules: a clone of the commit contains nothing but their paths.
    pub fn nested_since_fork(
        &self,
        other: &CommitId,
        commit: &CommitId,
    ) -> Result<Vec<String>, GitError> {
        let mut added = self.entries_since_fork(other, commit)?;
        added.retain(|entry| entry.is_new && entry.repository.is_some());
        if added.is_empty() {
            return Ok(Vec::new());
        }
        let registered = self.submodules_of(commit)?;
        added.retain(|entry| !registered.contains(&entry.path));
        Ok(added
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.path).into_owned())
            .collect())
    }

    /// Returns the paths that `.gitmodules` registers in a commit. A missing or malformed file registers none.
    fn submodules_of(&self, commit: &CommitId) -> Result<BTreeSet<Vec<u8>>, GitError> {
        let ended = self
            .call()
            .args(["config", "--blob"])
            .arg(format!("{commit}:.gitmodules"))
            .args(["-z", "--get-regexp", r"^submodule\..*\.path$"])
            .run()?;
        if !ended.status.success() {
            return Ok(BTreeSet::new());
        }
        // Each entry is its key, a newline and its value.
        let path = |entry: &[u8]| {
            let at = entry.iter().position(|byte| *byte == b'\n')?;
            Some(entry[at + 1..].to_vec())
        };
        Ok(ended
            .stdout
            .split(|byte| *byte == 0)
            .filter_map(path)
            .collect())
    }

    /// Returns the nested repositories that a commit has added or changed since its merge base with `other`, at a
    /// commit that others probably cannot fetch: no remote-tracking branch of any local checkout contains it.
    pub fn unfetchable_since_fork(
        &self,
        other: &CommitId,
        commit: &CommitId,
    ) -> Result<Vec<String>, GitError> {
        let mut found = Vec::new();
        for entry in self.entries_since_fork(other, commit)? {
            let path = Path::new(OsStr::from_bytes(&entry.path));
            if let Some(id) = &entry.repository
                && !self.can_be_fetched(path, id)?
            {
                found.push(String::from_utf8_lossy(&entry.path).into_owned());
            }
        }
        Ok(found)
    }

    fn can_be_fetched(&self, path: &Path, id: &str) -> Result<bool, GitError> {
        for entry in registered::all(self)? {
            let Some(call) = self.nested(&entry.path.join(path))? else {
                continue;
            };
            let ended = call
                .args(["for-each-ref", "--count=1", "--contains", id])
                .arg("refs/remotes")
                .run()?;
            if ended.status.success() && !ended.stdout.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails if others could not fetch a commit completely. A nested repository that is not registered as a submodule
    /// is refused by the host: another attempt would not help.
    pub fn refuse_unfetchable(&self, base: &CommitId, commit: &CommitId) -> Result<(), GitError> {
        let unregistered = self.nested_since_fork(base, commit)?;
        let mut names = self.unfetchable_since_fork(base, commit)?;
        names.retain(|name| !unregistered.contains(name));
        if names.is_empty() {
            return Ok(());
        }
        Err(GitError::new(
            GitProblem::NotTaken,
            format!("{}: {}", UNFETCHABLE, names.join(", ")),
            "push the commits of a submodule first, or add its files to the repository itself",
        ))
    }
}

/// The explanation for a nested repository that others cannot fetch.
pub const UNFETCHABLE: &str =
    "it added a nested repository, or a commit in one, that others cannot fetch";

impl Worktree {
    /// Updates the paths in the submodules of a worktree that was moved.
    pub(super) fn repair_submodules(&self) -> Result<(), GitError> {
        for path in gitlinks(self.call())? {
            let folder = self.path().join(OsStr::from_bytes(&path));
            let Some(dir) = Dir::open_root(&folder)? else {
                continue;
            };
            let Some(own) = named_in(&dir, DOT_GIT, "gitdir: ") else {
                continue;
            };
            let Ok(own) = own.canonicalize() else {
                continue;
            };
            if own.starts_with(self.admin()) {
                self.repo
                    .call()
                    .args(["config", "--file"])
                    .arg(own.join("config"))
                    .arg("core.worktree")
                    .arg(&folder)
                    .done()?;
            }
        }
        Ok(())
    }
}
