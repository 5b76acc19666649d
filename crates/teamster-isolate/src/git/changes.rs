//! The changes that a worker has really made.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::command::GitCommand;
use super::error::GitError;
use super::names::{CommitId, head_ref, integration_branch};
use super::worktree::Worktree;

/// How a file differs from its base version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its content or mode differs.
    Modified,
    /// It was deleted.
    Deleted,
    /// It is new and not yet known to git.
    Untracked,
    /// It was changed and changed back: the history shows it, the result does not.
    Undone,
}

impl ChangeKind {
    /// Returns the name of the change.
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Untracked => "untracked",
            Self::Undone => "undone",
        }
    }

    fn of(letter: u8) -> Self {
        match letter {
            b'A' => Self::Added,
            b'D' => Self::Deleted,
            b'?' => Self::Untracked,
            _ => Self::Modified,
        }
    }
}

/// One changed file. Its name may contain any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeChange {
    /// The path, relative to the root of the worktree.
    pub path: PathBuf,
    /// How it changed.
    pub kind: ChangeKind,
}

impl Worktree {
    /// Returns every file that differs from `base` or was touched by a commit since: committed, staged, unstaged and
    /// untracked. Changes that came from the integration branch are not the worker's.
    pub fn changes(&self, base: &CommitId) -> Result<Vec<WorktreeChange>, GitError> {
        let integration = self
            .repo
            .resolve(&head_ref(&integration_branch(&self.team)))?;
        let head = self.head()?;
        let from = match &integration {
            Some(tip)
                if self.repo.is_ancestor(tip, &head)? && self.repo.is_ancestor(base, tip)? =>
            {
                tip
            }
            _ => base,
        };
        let mut found: BTreeMap<Vec<u8>, ChangeKind> = BTreeMap::new();
        let touched = self
            .call()
            .args(["log", "--format=", "--name-only", "-z", "--no-renames"])
            .args(["--diff-merges=combined", "--no-ext-diff", "--no-textconv"])
            .args([
                "--no-show-signature",
                "--ignore-submodules=none",
                "HEAD",
                "--not",
            ])
            .arg(base.as_str())
            .args(integration.as_ref().map(CommitId::as_str))
            .arg("--")
            .bytes()?;
        for path in touched.split(|byte| *byte == 0) {
            // A commit's list begins after the newline of the empty message.
            let path = path.strip_prefix(b"\n").unwrap_or(path);
            if !path.is_empty() {
                found.insert(path.to_vec(), ChangeKind::Undone);
            }
        }
        let committed = self
            .call()
            .args(["diff-tree", "-r", "-z", "--name-status", "--no-renames"])
            .args(["--no-ext-diff", "--no-textconv", "--ignore-submodules=none"])
            .args([from.as_str(), "HEAD", "--"])
            .bytes()?;
        let mut fields = committed.split(|byte| *byte == 0);
        while let (Some(&[letter, ..]), Some(path)) = (fields.next(), fields.next()) {
            found.insert(path.to_vec(), ChangeKind::of(letter));
        }
        for (path, letter) in self.changed()? {
            let kind = match (ChangeKind::of(letter), found.get(&path)) {
                // It was added since `base`, so it stays new whatever happened to it later.
                (ChangeKind::Modified, Some(ChangeKind::Added)) => ChangeKind::Added,
                (ChangeKind::Deleted, Some(ChangeKind::Added)) => ChangeKind::Undone,
                (kind, _) => kind,
            };
            found.insert(path, kind);
        }
        Ok(found
            .into_iter()
            .map(|(path, kind)| WorktreeChange {
                path: OsStr::from_bytes(&path).into(),
                kind,
            })
            .collect())
    }

    /// Returns the uncommitted files as git reports them: a status letter and a path for each.
    pub(super) fn status(&self) -> Result<Vec<(u8, Vec<u8>)>, GitError> {
        Ok(status(self.call())?
            .into_iter()
            .map(|file| match file.work {
                b' ' => (file.index, file.path),
                work => (work, file.path),
            })
            .collect())
    }
}

/// How a file differs, by git's status letters.
#[derive(Debug)]
pub(super) struct FileStatus {
    /// Between the commit and the index.
    pub(super) index: u8,
    /// Between the index and the work tree.
    pub(super) work: u8,
    /// The path, relative to the root of the worktree.
    pub(super) path: Vec<u8>,
}

/// Returns every file that differs in the worktree, according to the index that `call` uses.
pub(super) fn status(call: GitCommand) -> Result<Vec<FileStatus>, GitError> {
    let bytes = call
        .args(["status", "--porcelain=v1", "-z", "--no-renames"])
        .args(["--untracked-files=all", "--ignore-submodules=none"])
        .bytes()?;
    Ok(bytes
        .split(|byte| *byte == 0)
        .filter_map(|line| match line {
            [index, work, b' ', path @ ..] => Some(FileStatus {
                index: *index,
                work: *work,
                path: path.to_vec(),
            }),
            _ => None,
        })
        .collect())
}
