//! Questions about a repository that change nothing: what is not committed, what two commits differ in, what a commit
//! holds.

use std::collections::BTreeSet;

use teamster_types::TeamName;

use super::error::GitError;
use super::names::{CommitId, head_ref, rejected_ref};
use super::registered;
use super::repo::Repo;

/// Returns the names in a list that zero bytes end.
pub(super) fn names(listed: &[u8]) -> Vec<String> {
    listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

impl Repo {
    /// Returns how many files of the user's are not committed: changed, staged or new. Nothing is touched, not even the
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

    /// Returns the files of the user's that are not committed where a branch is checked out, and that the branch would
    /// have to write over to get to `commit`. Nothing is touched, not even the index.
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
        let changed = self
            .call()
            .args(["diff", "--name-only", "-z", "--no-ext-diff", "--no-renames"])
            .args([tip.as_str(), commit.as_str(), "--"])
            .bytes()?;
        let changed: BTreeSet<String> = names(&changed).into_iter().collect();
        let listed = self
            .call_in(&folder)
            .args(["--no-optional-locks", "status", "--porcelain=v1", "-z"])
            .args([
                "--untracked-files=all",
                "--ignored=matching",
                "--no-renames",
            ])
            .bytes()?;
        // A file stands in the way of one of its name, and of a folder of its name.
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
        let listed = self
            .call()
            .args(["diff", "--name-only", "-z", "--no-ext-diff"])
            .args([from.as_str(), to.as_str(), "--"])
            .bytes()?;
        Ok(names(&listed))
    }

    /// Returns the files that a commit changed since it and `other` went apart.
    pub fn changed_since_fork(
        &self,
        other: &CommitId,
        commit: &CommitId,
    ) -> Result<Vec<String>, GitError> {
        let listed = self
            .call()
            .args(["diff", "--name-only", "-z", "--no-ext-diff", "--no-renames"])
            .arg(format!("{other}...{commit}"))
            .arg("--")
            .bytes()?;
        Ok(names(&listed))
    }

    /// Repositories in the repository that a commit brings along since it and `other` went apart, and does not register
    /// as submodules: whoever gets the commit gets nothing but their names.
    pub fn nested_since_fork(
        &self,
        other: &CommitId,
        commit: &CommitId,
    ) -> Result<Vec<String>, GitError> {
        let listed = self
            .call()
            .args(["diff", "--raw", "-z", "--no-ext-diff", "--no-renames"])
            .arg(format!("{other}...{commit}"))
            .arg("--")
            .text()?;
        let mut fields = listed.split('\0');
        let (mut nested, mut registers) = (Vec::new(), false);
        while let (Some(modes), Some(path)) = (fields.next(), fields.next()) {
            registers |= path == ".gitmodules";
            if modes.starts_with(":000000 160000") {
                nested.push(path.to_owned());
            }
        }
        Ok(if registers { Vec::new() } else { nested })
    }

    /// Returns the files that a commit has, by path.
    pub fn tracked_files(&self, commit: &CommitId) -> Result<Vec<String>, GitError> {
        let listed = self
            .call()
            .args(["ls-tree", "-r", "--name-only", "-z", commit.as_str()])
            .bytes()?;
        Ok(names(&listed))
    }

    /// Returns where the work of a run is kept that a person did not want, by the name of a reference.
    pub fn rejected(&self, team: &TeamName) -> Result<Option<(String, CommitId)>, GitError> {
        let name = rejected_ref(team);
        Ok(self.resolve(&name)?.map(|commit| (name, commit)))
    }

    /// Returns every file of a commit that has a name in UTF-8, seen from the root.
    pub fn files_at(&self, commit: &CommitId) -> Result<Vec<String>, GitError> {
        let listed = self
            .call()
            .args(["ls-tree", "-r", "-z", "--full-tree", "--name-only"])
            .arg(commit.as_str())
            .bytes()?;
        let names = listed.split(|byte| *byte == 0);
        Ok(names
            .filter(|name| !name.is_empty())
            .filter_map(|name| std::str::from_utf8(name).ok())
            .map(str::to_owned)
            .collect())
    }

    /// Returns the text of a file of a commit; `None` when there is no such file.
    pub fn text_at(&self, commit: &CommitId, path: &str) -> Result<Option<String>, GitError> {
        let name = format!("{}:{path}", commit.as_str());
        let is_there = self.call().args(["cat-file", "-e"]).arg(&name).run()?;
        if !is_there.status.success() {
            return Ok(None);
        }
        let bytes = self.call().args(["cat-file", "blob"]).arg(&name).bytes()?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}
