//! Putting a work tree of the user's back after a landing that git began and could not finish.
//!
//! git checks that nothing is in its way before it writes the first file, but a full disk or a filter that fails stops it
//! half-way: the branch and the index are as they were, some files are not. Which files were as the branch has them is
//! noted before; only those are put back, and only where what is there now is known to come from git. What cannot be put
//! back is named.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use teamster_fs::{Beneath, Dir, layout};

use super::error::GitError;
use super::integration::Integration;
use super::names::CommitId;
use super::worktree::team_folder;
use crate::OrTrace as _;
use crate::child::say;

/// Paths for one call: the system takes about 2 MB of arguments.
pub(super) const CHUNK: usize = 500;

/// How a file in a work tree compares with a commit that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    /// It is the same.
    Same,
    /// It is another one.
    Other,
    /// It is not there.
    Missing,
}

/// An index of git's that describes one commit and is nobody else's. It is removed when it is dropped.
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

/// What landing a commit changes in a work tree, as it was before.
#[derive(Debug)]
pub(super) struct Before<'a> {
    integration: &'a Integration,
    folder: &'a Path,
    tip: &'a CommitId,
    commit: &'a CommitId,
    /// What the branch has, and what it is to have. They are made before, because a full disk has no room for them later.
    old: SpareIndex,
    new: SpareIndex,
    /// Every file that differs between the two commits and was as the branch has it. git would touch no other.
    untouched: BTreeSet<Vec<u8>>,
    /// Folders that git would have to make.
    new_folders: BTreeSet<PathBuf>,
}

impl<'a> Before<'a> {
    /// Notes the files of `folder`, where `tip` is checked out, that landing `commit` will change.
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
                (Some(old), _) => *old == Compared::Same,
                (None, new) => new == Some(&Compared::Missing),
            })
            .collect();
        if let Some(beneath) = Beneath::open(folder)? {
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

    /// Puts back what git has changed since; the files that could not be put back.
    pub(super) fn restore(&self) -> Result<Vec<PathBuf>, GitError> {
        let old = self.compare(&self.old, &self.untouched)?;
        let new = self.compare(&self.new, &self.untouched)?;
        let mut bring_back: Vec<&Vec<u8>> = Vec::new();
        let mut take_away: Vec<&Vec<u8>> = Vec::new();
        let mut unknown: Vec<&Vec<u8>> = Vec::new();
        for path in &self.untouched {
            match (old.get(path), new.get(path)) {
                (Some(Compared::Same), _) | (None, None | Some(Compared::Missing)) => {}
                (Some(Compared::Missing), _) => bring_back.push(path),
                (Some(Compared::Other), new) => {
                    if new == Some(&Compared::Same) || self.is_half_written(path)? {
                        bring_back.push(path);
                    } else {
                        unknown.push(path);
                    }
                }
                (None, Some(Compared::Same)) => take_away.push(path),
                (None, Some(Compared::Other)) if self.is_half_written(path)? => {
                    take_away.push(path);
                }
                (None, Some(Compared::Other)) => unknown.push(path),
            }
        }
        // First what makes room on a full disk.
        for chunk in take_away.chunks(CHUNK) {
            let clean = self
                .call()
                .args(["clean", "--quiet", "-f", "-d", "-x", "--"]);
            let _ = with_paths(clean, chunk).run()?;
        }
        if let Some(beneath) = Beneath::open(self.folder)? {
            // The innermost first. One that somebody has put something into stays.
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
                // One that cannot be written keeps the others of the call from being written.
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
            Some(old) => *old == Compared::Same,
            None => matches!(now_new.get(*path), None | Some(Compared::Missing)),
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

    /// The command that puts a file back, for a person.
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

    fn call(&self) -> super::command::Call {
        self.integration
            .repo
            .call_in(self.folder)
            .arg("--literal-pathspecs")
    }

    /// The files that differ between the two commits, seen from the root of the work tree.
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

    /// How these files of the work tree compare with a commit; those that it does not have are left out.
    fn compare(
        &self,
        index: &SpareIndex,
        paths: &BTreeSet<Vec<u8>>,
    ) -> Result<BTreeMap<Vec<u8>, Compared>, GitError> {
        let paths: Vec<&Vec<u8>> = paths.iter().collect();
        let mut found = BTreeMap::new();
        let call = || self.call().env("GIT_INDEX_FILE", index.path());
        for chunk in paths.chunks(CHUNK) {
            let known = call().args(["ls-files", "-z", "--"]);
            for path in with_paths(known, chunk).bytes()?.split(|byte| *byte == 0) {
                if !path.is_empty() {
                    found.insert(path.to_vec(), Compared::Same);
                }
            }
            // Only `status` compares contents, and only those of the paths it is given.
            let differ = call()
                .args(["status", "--porcelain=v1", "-z", "--no-renames"])
                .args(["--untracked-files=no", "--ignore-submodules=none", "--"]);
            for line in with_paths(differ, chunk).bytes()?.split(|byte| *byte == 0) {
                if let [_, letter, b' ', path @ ..] = line
                    && let Some(compared) = found.get_mut(path)
                {
                    *compared = match letter {
                        b' ' => Compared::Same,
                        b'D' => Compared::Missing,
                        _ => Compared::Other,
                    };
                }
            }
        }
        Ok(found)
    }

    /// Whether a file holds the beginning of what git was about to write there.
    fn is_half_written(&self, path: &[u8]) -> Result<bool, GitError> {
        let mut name = OsString::from(format!("{}:", self.commit));
        name.push(OsStr::from_bytes(path));
        let whole = self
            .call()
            .args(["cat-file", "--filters"])
            .arg(name)
            .run()?;
        let there = Beneath::open(self.folder)
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

fn with_paths(call: super::command::Call, paths: &[&Vec<u8>]) -> super::command::Call {
    call.args(paths.iter().map(|path| OsStr::from_bytes(path)))
}
