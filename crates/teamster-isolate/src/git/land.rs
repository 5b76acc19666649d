//! Landing: the one moment at which a branch of the user's changes, and only forward.
//!
//! Where the branch is checked out, git itself brings it forward there, so that files, index and branch go together and
//! git's own rules keep what is not committed; elsewhere the branch is moved with its old value. Everything else that
//! can be the case is told, and then the user's branch, index, stash and files are as they were.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use teamster_fs::Dir;

use super::error::GitError;
use super::integration::Integration;
use super::names::{CommitId, HEADS, head_ref};
use super::registered;
use super::restore::LandingSnapshot;
use crate::child::say;

/// What git names a branch in that it will come back to.
const RETURNS_TO: [&str; 3] = [
    "rebase-merge/head-name",
    "rebase-apply/head-name",
    "BISECT_START",
];
const ORIG_HEAD: &str = "ORIG_HEAD";

/// What became of a landing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landed {
    /// The branch is at the commit now.
    Done {
        /// Where it was before.
        from: CommitId,
        /// Where it was checked out and files have changed with it.
        folder: Option<PathBuf>,
    },
    /// The branch had all of it already.
    Already,
    /// The branch has commits that were not there when the work was verified; nothing was changed.
    Moved {
        /// Where it is.
        now: CommitId,
    },
    /// Git refused because of what the user has there. Nothing was changed but the files that are named.
    Refused {
        /// What git said.
        why: String,
        /// What to run when that is out of the way.
        command: String,
        /// Files of the user's that git has changed before it failed, and that could not be put back.
        changed: Option<NotRestored>,
    },
    /// There is no such branch any more; nothing was changed.
    Gone,
}

/// Files that are not as they were before a landing that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRestored {
    /// The files, from the root of the work tree.
    pub files: Vec<PathBuf>,
    /// What puts them back.
    pub command: String,
}

impl Integration {
    /// Brings a branch of the user's forward to `commit`, which must be in the integration branch.
    pub fn land(&self, branch: &str, commit: &CommitId) -> Result<Landed, GitError> {
        let Some(tip) = self.user_branch(branch)? else {
            return Ok(Landed::Gone);
        };
        if !self.repo.is_ancestor(commit, &self.head()?)? {
            return Err(GitError::refused(
                format!("{} is not in {}", commit.short(), self.branch()),
                "only what the team has merged can land",
            ));
        }
        if self.repo.is_ancestor(commit, &tip)? {
            return Ok(Landed::Already);
        }
        if !self.repo.is_ancestor(&tip, commit)? {
            return Ok(Landed::Moved { now: tip });
        }
        let there = registered::all(&self.repo)?
            .into_iter()
            .find(|entry| entry.branch.as_deref() == Some(branch));
        match there {
            Some(entry) => self.forward_there(branch, &tip, commit, &entry.path),
            None => self.forward_elsewhere(branch, &tip, commit),
        }
    }

    /// In the work tree that has the branch checked out.
    fn forward_there(
        &self,
        branch: &str,
        tip: &CommitId,
        commit: &CommitId,
        folder: &Path,
    ) -> Result<Landed, GitError> {
        let refused = |why: String, changed: Option<NotRestored>| Landed::Refused {
            why,
            command: command(folder, commit),
            changed,
        };
        if !folder.is_dir() {
            let why = format!(
                "{branch} is checked out in {}, which is not there",
                folder.display()
            );
            return Ok(refused(why, None));
        }
        let at = || self.repo.call_in(folder);
        let orig_head = || {
            at().args(["rev-parse", "--verify", "--quiet", ORIG_HEAD])
                .commit_if_any()
        };
        let was = orig_head()?;
        let before = LandingSnapshot::note(self, folder, tip, commit)?;
        // Settings of the user's must not turn this into something else: stash what is not committed, make another
        // commit than the one that was verified, or write over a file because git was told to ignore it.
        let merge = at()
            .args(["merge", "--quiet", "--ff-only", "--no-squash", "--commit"])
            .args(["--no-autostash", "--no-overwrite-ignore", "--no-stat"])
            .args(["--no-verify-signatures", commit.as_str()]);
        let why = match merge.run() {
            Ok(ended) if ended.status.success() => None,
            Ok(ended) => Some(String::from_utf8_lossy(&ended.stderr).trim().to_owned()),
            Err(error) => Some(error.message),
        };
        let now = self.repo.resolve(&head_ref(branch))?;
        if now.as_ref() == Some(commit) {
            return Ok(Landed::Done {
                from: tip.clone(),
                folder: Some(folder.to_owned()),
            });
        }
        // git notes where it started even if it then refuses; that is the user's note of something else.
        if orig_head()? != was {
            match &was {
                Some(was) => at().args(["update-ref", ORIG_HEAD, was.as_str()]).done()?,
                None => at().args(["update-ref", "-d", ORIG_HEAD]).done()?,
            }
        }
        match now {
            None => Ok(Landed::Gone),
            Some(now) if now != *tip => Ok(Landed::Moved { now }),
            Some(_) => {
                let files = before.restore()?;
                let changed = (!files.is_empty()).then(|| NotRestored {
                    command: before.command(&files),
                    files,
                });
                let why =
                    why.unwrap_or_else(|| format!("{branch} is not checked out there any more"));
                Ok(refused(why, changed))
            }
        }
    }

    /// Lands where nobody has the branch checked out.
    fn forward_elsewhere(
        &self,
        branch: &str,
        tip: &CommitId,
        commit: &CommitId,
    ) -> Result<Landed, GitError> {
        if let Some((folder, what)) = self.returning_to(branch)? {
            return Ok(Landed::Refused {
                why: format!("{what} in {} will come back to {branch}", folder.display()),
                command: command(&folder, commit),
                changed: None,
            });
        }
        let reason = format!("teamster: land {}", self.branch());
        let moved = self
            .repo
            .call()
            .args(["update-ref", "-m", &reason])
            .arg(head_ref(branch))
            .args([commit.as_str(), tip.as_str()])
            .done();
        let now = self.repo.resolve(&head_ref(branch))?;
        match (moved, now) {
            (Ok(()), _) => Ok(Landed::Done {
                from: tip.clone(),
                folder: None,
            }),
            (Err(_), None) => Ok(Landed::Gone),
            (Err(_), Some(now)) if now != *tip => Ok(Landed::Moved { now }),
            (Err(error), Some(_)) => Err(error),
        }
    }

    /// Returns a work tree in which something unfinished will set the branch when it ends: a rebase or a bisection.
    fn returning_to(&self, branch: &str) -> Result<Option<(PathBuf, &'static str)>, GitError> {
        let full = format!("{HEADS}{branch}");
        for entry in registered::all(&self.repo)? {
            let own = self
                .repo
                .call_in(&entry.path)
                .args(["rev-parse", "--absolute-git-dir"]);
            // One whose folder is gone has nothing unfinished that could still end.
            let Ok(admin) = own.path() else { continue };
            for file in RETURNS_TO {
                let path = admin.join(file);
                let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                    continue;
                };
                let Some(dir) = Dir::open_root(parent)? else {
                    continue;
                };
                let Some((bytes, _)) = dir.read(&name.to_string_lossy())? else {
                    continue;
                };
                let said = String::from_utf8_lossy(&bytes);
                if said.trim() == full || said.trim() == branch {
                    let what = if file.starts_with("BISECT") {
                        "a bisection"
                    } else {
                        "a rebase"
                    };
                    return Ok(Some((entry.path, what)));
                }
            }
        }
        Ok(None)
    }
}

/// Returns what a person runs to land it by hand.
fn command(folder: &Path, commit: &CommitId) -> String {
    let args: [OsString; 5] = [
        "-C".into(),
        folder.into(),
        "merge".into(),
        "--ff-only".into(),
        commit.as_str().into(),
    ];
    say(Path::new("git"), &args)
}
