//! The changes on a team's branches, for people to read.

use teamster_types::{TaskId, TeamName};

use super::error::GitError;
use super::list::branches;
use super::names::{CommitId, attempts_of, head_ref, pins, team_branch};
use super::repo::Repo;

/// The maximum number of files listed.
const MOST_FILES: usize = 2_000;
/// Options that keep programs configured in the repository from affecting a diff.
const PLAIN: [&str; 5] = [
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-renames",
    "--ignore-submodules=none",
];

/// The tip of one of a team's branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchTip {
    /// A worker's name, `integration`, or the name of work that was kept.
    pub name: String,
    /// The branch.
    pub branch: String,
    /// Its commit.
    pub commit: CommitId,
}

/// The number of lines added to and removed from a file; `None` for a binary file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLineCounts {
    /// The file.
    pub path: String,
    /// Added lines.
    pub added: Option<u64>,
    /// Removed lines.
    pub removed: Option<u64>,
}

/// Returns the branches of a team, sorted by name.
pub fn tips(repo: &Repo, team: &TeamName) -> Result<Vec<BranchTip>, GitError> {
    let prefix = team_branch(team, "");
    let mut found = Vec::new();
    for branch in branches(repo, &prefix)? {
        let name = branch.strip_prefix(&prefix).map(str::to_owned);
        if let (Some(name), Some(commit)) = (name, repo.resolve(&head_ref(&branch))?) {
            found.push(BranchTip {
                name,
                branch,
                commit,
            });
        }
    }
    Ok(found)
}

impl Repo {
    /// Returns the failed attempts of a task, oldest first: the short name of each and its commit.
    pub fn attempts(
        &self,
        team: &TeamName,
        task: &TaskId,
    ) -> Result<Vec<(String, CommitId)>, GitError> {
        let text = self
            .call()
            .args(["for-each-ref", "--sort=version:refname"])
            .args(["--format=%(objectname) %(refname)", "--"])
            .arg(attempts_of(team, task))
            .text()?;
        let prefix = pins(team);
        let attempt = |line: &str| {
            let (commit, name) = line.split_once(' ')?;
            Some((name.strip_prefix(&prefix)?.to_owned(), commit.parse().ok()?))
        };
        Ok(text.lines().filter_map(attempt).collect())
    }

    /// Returns the merge base of two commits; `None` when they have none.
    pub fn fork_point(
        &self,
        one: &CommitId,
        other: &CommitId,
    ) -> Result<Option<CommitId>, GitError> {
        self.call()
            .arg("merge-base")
            .args([one.as_str(), other.as_str()])
            .commit_if_any()
    }

    /// Returns the files that differ between two commits.
    pub fn line_counts(
        &self,
        base: &CommitId,
        commit: &CommitId,
    ) -> Result<Vec<FileLineCounts>, GitError> {
        let bytes = self
            .call()
            .args(["diff", "--numstat", "-z"])
            .args(PLAIN)
            .args([base.as_str(), commit.as_str(), "--"])
            .bytes()?;
        let lines = bytes
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty());
        Ok(lines
            .filter_map(|line| {
                let line = String::from_utf8_lossy(line);
                let mut parts = line.splitn(3, '\t');
                let (added, removed) = (parts.next()?, parts.next()?);
                Some(FileLineCounts {
                    path: parts.next()?.to_owned(),
                    added: added.parse().ok(),
                    removed: removed.parse().ok(),
                })
            })
            .take(MOST_FILES)
            .collect())
    }

    /// Returns the difference between two commits as text, of all files or of one.
    pub fn diff(
        &self,
        base: &CommitId,
        commit: &CommitId,
        path: Option<&str>,
    ) -> Result<Vec<u8>, GitError> {
        let path = path.map(|path| format!(":(literal,top){path}"));
        self.call()
            .arg("diff")
            .args(PLAIN)
            .args([base.as_str(), commit.as_str(), "--"])
            .args(path)
            .bytes()
    }

    /// Returns the difference between two commits as a patch that `git apply` takes, of all files or of these.
    pub fn patch(
        &self,
        base: &CommitId,
        commit: &CommitId,
        files: &[String],
    ) -> Result<Vec<u8>, GitError> {
        let files = files.iter().map(|file| format!(":(literal,top){file}"));
        self.call()
            .args(["diff", "--binary"])
            .args(PLAIN)
            .args([base.as_str(), commit.as_str(), "--"])
            .args(files)
            .bytes()
    }
}
