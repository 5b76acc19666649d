//! The user's references in a repository, and how they have changed.

use std::collections::{BTreeMap, BTreeSet};

use super::error::GitError;
use super::inspect::names;
use super::names::{BRANCHES, CommitId, HEADS};
use super::repo::Repo;

/// The number of names and ids for one call: the system limits arguments to about 2 MB.
const CHUNK: usize = 500;

/// The user's branches, tags and stash by their full names, and what is checked out as `HEAD`.
pub type Refs = BTreeMap<String, String>;

impl Repo {
    /// Returns the user's current references. Remote-tracking ones (`refs/remotes`) are not included.
    pub fn refs(&self) -> Result<Refs, GitError> {
        let text = self
            .call()
            .args(["for-each-ref", "--format=%(objectname) %(refname)", "--"])
            .args(["refs/heads", "refs/tags", "refs/stash"])
            .text()?;
        let ours = format!("{HEADS}{BRANCHES}");
        let mut refs: Refs = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(_, name)| !name.starts_with(&ours))
            .map(|(id, name)| (name.to_owned(), id.to_owned()))
            .collect();
        let head = self
            .call()
            .args(["symbolic-ref", "--quiet", "HEAD"])
            .run()?;
        let head = if head.status.success() {
            String::from_utf8_lossy(&head.stdout).trim_end().to_owned()
        } else {
            let head = self.call().args(["rev-parse", "--verify", "HEAD"]);
            head.text()?
        };
        refs.insert("HEAD".to_owned(), head);
        Ok(refs)
    }

    /// Returns those of `commits` that are neither `head` nor an ancestor of it, including those that are not in the
    /// repository.
    pub fn not_in(&self, commits: &[CommitId], head: &CommitId) -> Result<Vec<CommitId>, GitError> {
        let mut outside = Vec::new();
        for commit in self.may_not_be_in(commits, head)? {
            if !self.is_in(&commit, head)? {
                outside.push(commit);
            }
        }
        Ok(outside)
    }

    /// Returns whether each of `commits` is `head` or an ancestor of it.
    pub fn contains_all(&self, commits: &[CommitId], head: &CommitId) -> Result<bool, GitError> {
        for commit in self.may_not_be_in(commits, head)? {
            if !self.is_in(&commit, head)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns all of `commits` that [`Self::not_in`] returns and, where commits are older than their parents, perhaps
    /// some more: git stops its walk early there, and this does not look twice.
    pub fn may_not_be_in(
        &self,
        commits: &[CommitId],
        head: &CommitId,
    ) -> Result<Vec<CommitId>, GitError> {
        let mut outside = Vec::new();
        for chunk in commits.chunks(CHUNK) {
            let listed = self
                .call()
                .arg("rev-list")
                .args(chunk.iter().map(CommitId::as_str))
                .args(["--not", head.as_str(), "--"])
                .run()?;
            if listed.status.success() {
                let listed: BTreeSet<&[u8]> = listed.stdout.split(|byte| *byte == b'\n').collect();
                let is_listed = |commit: &&CommitId| listed.contains(commit.as_str().as_bytes());
                outside.extend(chunk.iter().filter(is_listed).cloned());
            } else {
                // One of them is not in the repository, and git does not say which one.
                outside.extend(chunk.iter().cloned());
            }
        }
        Ok(outside)
    }

    /// Returns whether a commit is in the repository and is `head` or an ancestor of it.
    fn is_in(&self, commit: &CommitId, head: &CommitId) -> Result<bool, GitError> {
        let is_there = self
            .call()
            .args(["cat-file", "-e"])
            .arg(format!("{commit}^{{commit}}"))
            .run()?
            .status
            .success();
        Ok(is_there && self.is_ancestor(commit, head)?)
    }

    /// Returns those of `files` that have conflict markers in `commit` but not in `before`.
    pub fn with_conflict_markers(
        &self,
        before: &CommitId,
        commit: &CommitId,
        files: &[String],
    ) -> Result<Vec<String>, GitError> {
        let marked = |commit: &CommitId| -> Result<Vec<String>, GitError> {
            let mut found = Vec::new();
            for chunk in files.chunks(CHUNK) {
                let call = self
                    .call()
                    .args(["--literal-pathspecs", "grep", "-I", "-l", "-z", "-E"])
                    .args(["--no-color", "--full-name", "--all-match"])
                    .args(["-e", "^<<<<<<< ", "-e", "^>>>>>>> "])
                    .args([commit.as_str(), "--"])
                    .args(chunk);
                let ended = call.run()?;
                match ended.status.code() {
                    Some(0 | 1) => {}
                    _ => return Err(call.failed(&ended)),
                }
                let prefix = format!("{commit}:");
                let names = ended.stdout.split(|byte| *byte == 0);
                found.extend(names.filter_map(|name| {
                    let name = String::from_utf8_lossy(name);
                    name.strip_prefix(&prefix).map(str::to_owned)
                }));
            }
            Ok(found)
        };
        let known = marked(before)?;
        let mut found = marked(commit)?;
        found.retain(|file| !known.contains(file));
        Ok(found)
    }

    /// Returns the files that a merge of `other` into `base` would change, but that `commit`, which should contain this
    /// merge, left as in `base`: first the files without a conflict, then those with one. The latter are `None` if any
    /// conflicting file was changed, because its resolution cannot be judged here.
    pub fn left_out(
        &self,
        base: &CommitId,
        other: &CommitId,
        commit: &CommitId,
    ) -> Result<(Vec<String>, Option<Vec<String>>), GitError> {
        let call = self
            .ruled_call()?
            .args(["merge-tree", "--write-tree", "--name-only"])
            .args(["--no-messages", "-z"])
            .args([base.as_str(), other.as_str()]);
        let ended = call.run()?;
        let mut fields = names(&ended.stdout).into_iter();
        let (Some(0 | 1), Some(tree)) = (ended.status.code(), fields.next()) else {
            return Err(call.failed(&ended));
        };
        let conflicts: BTreeSet<String> = fields.collect();
        let changed = |to: &str| -> Result<BTreeSet<String>, GitError> {
            let listed = self
                .call()
                .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames"])
                .args([&format!("{base}^{{tree}}"), to, "--"])
                .bytes()?;
            Ok(names(&listed).into_iter().collect())
        };
        let wanted = changed(&tree)?;
        let done = changed(&format!("{commit}^{{tree}}"))?;
        let left = wanted.difference(&done).cloned();
        let (conflicting, clean): (Vec<String>, Vec<String>) =
            left.partition(|file| conflicts.contains(file));
        let is_none_done = !conflicting.is_empty() && conflicting.len() == conflicts.len();
        Ok((clean, is_none_done.then_some(conflicting)))
    }

    /// Returns the short names of the user's branches that contain a commit.
    pub fn branches_with(&self, commit: &CommitId) -> Result<Vec<String>, GitError> {
        let text = self
            .call()
            .args(["for-each-ref", "--format=%(refname:lstrip=2)"])
            .args(["--contains", commit.as_str(), "--", "refs/heads"])
            .text()?;
        Ok(text
            .lines()
            .filter(|name| !name.starts_with(BRANCHES))
            .map(str::to_owned)
            .collect())
    }
}
