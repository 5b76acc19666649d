//! Repositories in a worktree: submodules, and those that an agent made. A commit has no more of them than a name and a
//! commit, so what they hold must be looked at by itself.

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

/// The mode of an entry that is a repository.
const GITLINK: &[u8] = b"160000 ";
const DOT_GIT: &str = ".git";

/// What a repository in a worktree holds that is nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NestedWork {
    /// Files, although the submodule is not checked out there.
    Files,
    /// Files that are not as in its commit.
    Changes,
    /// Commits that no remote of it has.
    Commits,
}

impl fmt::Display for NestedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files in the folder of a submodule that is not checked out",
            Self::Changes => "changes inside a repository in the repository",
            Self::Commits => "commits of a repository in the repository that no remote of it has",
        })
    }
}

impl FreshIndex {
    /// Returns every repository in the worktree that holds something, by its path.
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

    /// Returns whether a file in another repository is not as in its commit, whatever its index says.
    fn differs_in(&self, folder: &Path) -> Result<bool, GitError> {
        let index = self.nested_index()?;
        let call = self.call_in(folder, &index)?;
        call.clone()
            .args(["reset", "--quiet", "--no-refresh", "HEAD", "--", ":/"])
            .done()?;
        Ok(!status(call.clone())?.is_empty() || !self.hidden(call)?.is_empty())
    }
}

/// Returns the paths of the repositories that an index has.
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
    // What stands there instead of a folder is a change that git sees.
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
    /// Returns a call in the repository whose work tree is `folder`; `None` when there is none.
    fn nested(&self, folder: &Path) -> Result<Option<GitCommand>, GitError> {
        if folder.is_symlink() || !folder.join(DOT_GIT).exists() {
            return Ok(None);
        }
        let call = self.call_in(folder);
        // A `.git` that is no repository makes git look further up, where it finds another one.
        let ended = call
            .clone()
            .args(["rev-parse", "--show-prefix", "--verify", "HEAD"])
            .run()?;
        let is_top = ended.status.success() && ended.stdout.starts_with(b"\n");
        Ok(is_top.then_some(call))
    }

    /// Returns the repositories in the repository that a commit brings along since it and `other` went apart, and does not
    /// register as submodules: whoever gets the commit gets nothing but their names.
    pub fn nested_since_fork(
        &self,
        other: &CommitId,
        commit: &CommitId,
    ) -> Result<Vec<String>, GitError> {
        let entries = self.entries_since_fork(other, commit)?;
        if entries.iter().any(|entry| entry.path == b".gitmodules") {
            return Ok(Vec::new());
        }
        Ok(entries
            .iter()
            .filter(|entry| entry.is_new && entry.repository.is_some())
            .map(|entry| String::from_utf8_lossy(&entry.path).into_owned())
            .collect())
    }

    /// Returns the repositories in the repository that a commit brings along since it and `other` went apart, at a commit
    /// that nobody can fetch as far as can be told here: no remote-tracking branch of any checkout of them has it.
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

    /// Refuses a commit of which others could not get everything. What is not even registered as a submodule is for
    /// the host to refuse: no second attempt makes up for that.
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

/// What is wrong with a repository in the repository that nobody else can get.
pub const UNFETCHABLE: &str =
    "it made a repository in the repository, or a commit in one, that nobody else can fetch";

impl Worktree {
    /// Lets the submodules of a worktree that was moved know where they are now.
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
