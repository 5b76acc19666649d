//! Restores the user's work tree after a landing that git began and could not finish.
//!
//! git checks for conflicting files before it writes the first one, but a full disk or a failing filter can stop it
//! half-way: the branch and the index are unchanged, some files are not. So the files that match the branch are
//! recorded before; only those are restored, and only where the current content is known to come from git. Files that
//! cannot be restored are reported.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use teamster_fs::{Dir, ProjectFiles, layout};

use super::error::GitError;
use super::integration::Integration;
use super::names::CommitId;
use super::worktree::team_folder;
use crate::OrTrace as _;
use crate::child::say;

/// The number of paths for one call: the system limits arguments to about 2 MB.
pub(super) const CHUNK: usize = 500;

/// How a file in a work tree compares with a commit that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileComparison {
    /// It is the same.
    Same,
    /// It differs.
    Other,
    /// It is missing.
    Missing,
}

/// A temporary git index that describes one commit, removed on drop.
#[derive(Debug)]
struct SpareIndex {
    dir: Dir,
    name: String,
}

impl SpareIndex {
    fn of(integration: &Integration, commit: &CommitId) -> Result<Self, GitError> {
        let index = Self {
            dir: team_folder(&integration.repo, &integration.team)?,
            name: layout::spare_index(layout::INTEGRATION),
        };
        integration
            .repo
            .call()
            .env("GIT_INDEX_FILE", index.path())
            .args(["read-tree", commit.as_str()])
            .done()?;
        Ok(index)
    }

    fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }
}

impl Drop for SpareIndex {
    fn drop(&mut self) {
        self.dir
            .remove(&self.name)
            .or_trace("remove the index of a landing");
        self.dir
            .remove(&format!("{}.lock", self.name))
            .or_trace("remove the lock of that index");
    }
}

/// The files that landing a commit changes in a work tree, as they were before.
#[derive(Debug)]
pub(super) struct LandingSnapshot<'a> {
    integration: &'a Integration,
    folder: &'a Path,
    tip: &'a CommitId,
    commit: &'a CommitId,
    /// The index of the branch's current commit and of the new one. They are created before the landing, because a full
    /// disk has no room for them later.
    old: SpareIndex,
    new: SpareIndex,
    /// Every file that differs between the two commits and matched the branch. git changes no other.
    untouched: BTreeSet<Vec<u8>>,
    /// Folders that git would have to create.
    new_folders: BTreeSet<PathBuf>,
}

impl<'a> LandingSnapshot<'a> {
    /// Records the files of `folder`, where `tip` is checked out, that landing `commit` will change.
    pub(super) fn note(
        integration: &'a Integration,
        folder: &'a Path,
        tip: &'a CommitId,
        commit: &'a CommitId,
    ) -> Result<Self, GitError> {
        let mut before = Self {
            integration,
            folder,
            tip,
            commit,
            old: SpareIndex::of(integration, tip)?,
            new: SpareIndex::of(integration, commit)?,
            untouched: BTreeSet::new(),
            new_folders: BTreeSet::new(),
        };
        let changed = before.changed()?;
        let old = before.compare(&before.old, &changed)?;
        let new = before.compare(&before.new, &changed)?;
        before.untouched = changed
            .into_iter()
            .filter(|path| match (old.get(path), new.get(path)) {
                (Some(old), _) => *old == FileComparison::Same,
                (None, new) => new == Some(&FileComparison::Missing),
            })
            .collect();
        if let Some(beneath) = ProjectFiles::open(folder)? {
            let paths = before.untouched.iter();
            let parents =
                paths.flat_map(|path| Path::new(OsStr::from_bytes(path)).ancestors().skip(1));
            before.new_folders = parents
                .filter(|parent| matches!(beneath.has_folder(parent), Ok(false)))
                .map(Path::to_owned)
                .collect();
        }
        Ok(before)
    }

    /// Restores what git has changed since, and returns the files that could not be restored.
    pub(super) fn restore(&self) -> Result<Vec<PathBuf>, GitError> {
        let old = self.compare(&self.old, &self.untouched)?;
        let new = self.compare(&self.new, &self.untouched)?;
        let mut bring_back: Vec<&Vec<u8>> = Vec::new();
        let mut take_away: Vec<&Vec<u8>> = Vec::new();
        let mut unknown: Vec<&Vec<u8>> = Vec::new();
        for path in &self.untouched {
            match (old.get(path), new.get(path)) {
                (Some(FileComparison::Same), _) | (None, None | Some(FileComparison::Missing)) => {}
                (Some(FileComparison::Missing), _) => bring_back.push(path),
                (Some(FileComparison::Other), new) => {
                    if new == Some(&FileComparison::Same) || self.is_half_written(path)? {
                        bring_back.push(path);
                    } else {
                        unknown.push(path);
                    }
                }
                (None, Some(FileComparison::Same)) => take_away.push(path),
                (None, Some(FileComparison::Other)) if self.is_half_written(path)? => {
                    take_away.push(path);
                }
                (None, Some(FileComparison::Other)) => unknown.push(path),
            }
        }
        // First remove new files, which frees space on a full disk.
        for chunk in take_away.chunks(CHUNK) {
            let clean = self
                .call()
                .args(["clean", "--quiet", "-f", "-d", "-x", "--"]);
            let _ = with_paths(clean, chunk).run()?;
        }
        if let Some(beneath) = ProjectFiles::open(self.folder)? {
            // The innermost first. A folder that now contains other files stays.
            for folder in self.new_folders.iter().rev() {
                beneath
                    .remove_empty_folder(folder)
                    .or_trace("remove an empty folder");
            }
        }
        for chunk in bring_back.chunks(CHUNK) {
            let restore = self
                .call()
                .args(["restore", "--quiet", "--worktree", "--source"])
                .args([self.tip.as_str(), "--"]);
            if !with_paths(restore, chunk).run()?.status.success() {
                // A file that cannot be written would keep the others of the same call from being written.
                for path in chunk {
                    let one = self
                        .call()
                        .args(["restore", "--quiet", "--worktree", "--source"])
                        .args([self.tip.as_str(), "--"]);
                    let _ = with_paths(one, &[*path]).run()?;
                }
            }
        }
        let now_old = self.compare(&self.old, &self.untouched)?;
        let now_new = self.compare(&self.new, &self.untouched)?;
        let is_back = |path: &&Vec<u8>| match now_old.get(*path) {
            Some(old) => *old == FileComparison::Same,
            None => matches!(now_new.get(*path), None | Some(FileComparison::Missing)),
        };
        let mut left: BTreeSet<&Vec<u8>> = unknown.into_iter().collect();
        left.extend(
            bring_back
                .iter()
                .chain(&take_away)
                .filter(|path| !is_back(path)),
        );
        Ok(left
            .into_iter()
            .map(|path| OsString::from_vec(path.clone()).into())
            .collect())
    }

    /// Returns the command with which a user restores files.
    pub(super) fn command(&self, files: &[PathBuf]) -> String {
        let mut args: Vec<OsString> = vec![
            "-C".into(),
            self.folder.into(),
            "restore".into(),
            "--worktree".into(),
            "--source".into(),
            self.tip.as_str().into(),
            "--".into(),
        ];
        args.extend(files.iter().map(|file| file.clone().into_os_string()));
        say(Path::new("git"), &args)
    }

    fn call(&self) -> super::command::GitCommand {
        self.integration
            .repo
            .call_in(self.folder)
            .arg("--literal-pathspecs")
    }

    /// Returns the files that differ between the two commits, relative to the root of the work tree.
    fn changed(&self) -> Result<BTreeSet<Vec<u8>>, GitError> {
        let listed = self
            .call()
            .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames"])
            .args([self.tip.as_str(), self.commit.as_str(), "--"])
            .bytes()?;
        Ok(listed
            .split(|byte| *byte == 0)
            .filter(|path| !path.is_empty())
            .map(<[u8]>::to_vec)
            .collect())
    }

    /// Returns how these files of the work tree compare with a commit; files that it does not contain are left out.
    fn compare(
        &self,
        index: &SpareIndex,
        paths: &BTreeSet<Vec<u8>>,
    ) -> Result<BTreeMap<Vec<u8>, FileComparison>, GitError> {
        let paths: Vec<&Vec<u8>> = paths.iter().collect();
        let mut found = BTreeMap::new();
        let call = || self.call().env("GIT_INDEX_FILE", index.path());
        for chunk in paths.chunks(CHUNK) {
            let known = call().args(["ls-files", "-z", "--"]);
            for path in with_paths(known, chunk).bytes()?.split(|byte| *byte == 0) {
                if !path.is_empty() {
                    found.insert(path.to_vec(), FileComparison::Same);
                }
            }
            // Only `status` compares contents, and only for the given paths.
            let differ = call()
                .args(["status", "--porcelain=v1", "-z", "--no-renames"])
                .args(["--untracked-files=no", "--ignore-submodules=none", "--"]);
            for line in with_paths(differ, chunk).bytes()?.split(|byte| *byte == 0) {
                if let [_, letter, b' ', path @ ..] = line
                    && let Some(compared) = found.get_mut(path)
                {
                    *compared = match letter {
                        b' ' => FileComparison::Same,
                        b'D' => FileComparison::Missing,
                        _ => FileComparison::Other,
                    };
                }
            }
        }
        Ok(found)
    }

    /// Returns whether a file contains only the beginning of what git was about to write there.
    fn is_half_written(&self, path: &[u8]) -> Result<bool, GitError> {
        let mut name = OsString::from(format!("{}:", self.commit));
        name.push(OsStr::from_bytes(path));
        let whole = self
            .call()
            .args(["cat-file", "--filters"])
            .arg(name)
            .run()?;
        let there = ProjectFiles::open(self.folder)
            .and_then(|folder| match folder {
                Some(folder) => folder.read(Path::new(OsStr::from_bytes(path))),
                None => Ok(None),
            })
            .ok()
            .flatten();
        let Some(there) = there else {
            return Ok(false);
        };
        Ok(there.is_empty() || whole.status.success() && whole.stdout.starts_with(&there))
    }
}

fn with_paths(call: super::command::GitCommand, paths: &[&Vec<u8>]) -> super::command::GitCommand {
    call.args(paths.iter().map(|path| OsStr::from_bytes(path)))
}
