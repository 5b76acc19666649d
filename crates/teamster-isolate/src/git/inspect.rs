//! Read-only queries of a repository: uncommitted files, differences between two commits, contents of a commit.

use std::collections::BTreeSet;

use teamster_types::TeamName;

use super::error::GitError;
use super::names::{CommitId, head_ref, rejected_ref};
use super::registered;
use super::repo::Repo;

/// Returns the names in a list separated by zero bytes.
pub(super) fn names(listed: &[u8]) -> Vec<String> {
    listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

/// An entry that differs between two commits.
pub(super) struct ChangedEntry {
    /// Whether the path does not exist in the older commit.
    pub(super) is_new: bool,
    /// The commit of the nested repository at this path in the newer commit, if there is one.
    pub(super) repository: Option<String>,
    pub(super) path: Vec<u8>,
}

impl Repo {
    /// Returns how many of the user's files are not committed: changed, staged or new. Nothing is written, not even the
    /// index.
    pub fn uncommitted(&self) -> Result<usize, GitError> {
        let listed = self
            .call_in(self.root())
            .args(["--no-optional-locks", "status", "--porcelain=v1", "-z"])
            .args(["--untracked-files=normal", "--no-renames"])
            .bytes()?;
        let entries = listed.split(|byte| *byte == 0);
        Ok(entries.filter(|entry| !entry.is_empty()).count())
    }

    /// Returns the user's uncommitted files in the work tree of a branch that the branch would have to overwrite to get
    /// to `commit`. Nothing is written, not even the index.
    pub fn in_the_way(&self, branch: &str, commit: &CommitId) -> Result<Vec<String>, GitError> {
        let Some(tip) = self.resolve(&head_ref(branch))? else {
            return Ok(Vec::new());
        };
        let there = registered::all(self)?
            .into_iter()
            .find(|entry| entry.branch.as_deref() == Some(branch));
        let Some(folder) = there.map(|entry| entry.path).filter(|path| path.is_dir()) else {
            return Ok(Vec::new());
        };
        let changed = self.differing(&["--no-renames", tip.as_str(), commit.as_str()])?;
        let changed: BTreeSet<String> = changed.into_iter().collect();
        let listed = self
            .call_in(&folder)
            .args(["--no-optional-locks", "status", "--porcelain=v1", "-z"])
            .args([
                "--untracked-files=all",
                "--ignored=matching",
                "--no-renames",
            ])
            .bytes()?;
        // A file blocks a new file of the same name, and a folder of the same name.
        let is_in_the_way = |file: &String| {
            let folder = format!("{file}/");
            changed.contains(file)
                || changed
                    .range(folder.clone()..)
                    .next()
                    .is_some_and(|name| name.starts_with(&folder))
        };
        Ok(names(&listed)
            .iter()
            .filter_map(|entry| Some(entry.get(3..)?.to_owned()))
            .filter(is_in_the_way)
            .collect())
    }

    /// Returns what changed between two commits, as `git diff --stat` shows it.
    pub fn diff_stat(&self, from: &CommitId, to: &CommitId) -> Result<String, GitError> {
        self.call()
            .args(["diff", "--stat=100", "--no-color", "--no-ext-diff"])
            .args(["--no-textconv", "--find-renames"])
            .args([from.as_str(), to.as_str(), "--"])
            .text()
    }

    /// Returns the files that changed between two commits.
    pub fn changed_files(&self, from: &CommitId, to: &CommitId) -> Result<Vec<String>, GitError> {
        self.differing(&[from.as_str(), to.as_str()])
    }

    /// Returns the files that a commit changed since its merge base with `other`.
    pub fn changed_since_fork(
        &self,
        other: &CommitId,
        commit: &CommitId,
    ) -> Result<Vec<String>, GitError> {
        self.differing(&["--no-renames", &format!("{other}...{commit}")])
    }

    /// Returns the names of the files that `git diff` lists for these arguments.
    fn differing(&self, args: &[&str]) -> Result<Vec<String>, GitError> {
        let listed = self
            .call()
            .args(["diff", "--name-only", "-z", "--no-ext-diff"])
            .args(args)
            .arg("--")
            .bytes()?;
        Ok(names(&listed))
    }

    /// Returns every entry that a commit changed since its merge base with `other`, including nested repositories
    /// whatever the settings say.
    pub(super) fn entries_since_fork(
        &self,
        other: &CommitId,
        commit: &CommitId,
    ) -> Result<Vec<ChangedEntry>, GitError> {
        let listed = self
            .call()
            .args(["diff", "--raw", "-z", "--no-abbrev", "--no-ext-diff"])
            .args(["--no-renames", "--ignore-submodules=none"])
            .arg(format!("{other}...{commit}"))
            .arg("--")
            .bytes()?;
        let mut fields = listed.split(|byte| *byte == 0);
        let mut entries = Vec::new();
        while let (Some(change), Some(path)) = (fields.next(), fields.next()) {
            // `:OLD-MODE NEW-MODE OLD-ID NEW-ID LETTER`
            let change = String::from_utf8_lossy(change);
            let words: Vec<&str> = change.split(' ').collect();
            if let [old_mode, new_mode, _, id, _] = words.as_slice() {
                entries.push(ChangedEntry {
                    is_new: *old_mode == ":000000",
                    repository: (*new_mode == "160000").then(|| (*id).to_owned()),
                    path: path.to_vec(),
                });
            }
        }
        Ok(entries)
    }

    /// Returns the paths of the files in a commit.
    pub fn tracked_files(&self, commit: &CommitId) -> Result<Vec<String>, GitError> {
        let listed = self
            .call()
            .args(["ls-tree", "-r", "--name-only", "-z", commit.as_str()])
            .bytes()?;
        Ok(names(&listed))
    }

    /// Returns how many lines a file has in a commit, or `None` when the commit has no such file. The path is relative
    /// to the root of the repository, or else to the project.
    pub fn line_count(&self, commit: &CommitId, path: &str) -> Result<Option<u64>, GitError> {
        for path in [path.to_owned(), format!("./{path}")] {
            let spec = format!("{commit}:{path}");
            let is_file = self.call().args(["cat-file", "-e", &spec]).run()?;
            if !is_file.status.success() {
                continue;
            }
            let kind = self.call().args(["cat-file", "-t", &spec]).text()?;
            if kind.trim() == "blob" {
                let bytes = self.call().args(["cat-file", "blob", &spec]).bytes()?;
                // Text after the last newline counts as a line.
                let is_closed = bytes.is_empty() || bytes.ends_with(b"\n");
                let parts = bytes.split(|byte| *byte == b'\n').count();
                return Ok(u64::try_from(parts - usize::from(is_closed)).ok());
            }
        }
        Ok(None)
    }

    /// Returns the reference that keeps the rejected work of a run, and its commit.
    pub fn rejected(&self, team: &TeamName) -> Result<Option<(String, CommitId)>, GitError> {
        let name = rejected_ref(team);
        Ok(self.resolve(&name)?.map(|commit| (name, commit)))
    }
}
