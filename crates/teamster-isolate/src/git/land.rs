//! Landing: the only operation that changes a branch of the user's, and only by fast-forward.
//!
//! Where the branch is checked out, git itself fast-forwards it there, so that files, index and branch change together
//! and git's own rules protect uncommitted files; elsewhere the branch is updated with its old value. Any other
//! situation is reported, and leaves the user's branch, index, stash and files unchanged.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use teamster_fs::Dir;

use super::error::GitError;
use super::integration::Integration;
use super::names::{CommitId, HEADS, head_ref};
use super::registered;
use super::restore::LandingSnapshot;
use crate::child::say;

/// The files in which git records a branch that it will return to.
const RETURNS_TO: [&str; 3] = [
    "rebase-merge/head-name",
    "rebase-apply/head-name",
    "BISECT_START",
];
const ORIG_HEAD: &str = "ORIG_HEAD";

/// The result of a landing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landed {
    /// The branch is at the commit now.
    Done {
        /// The commit that the branch was at before.
        from: CommitId,
        /// The work tree where it was checked out, whose files have changed with it.
        folder: Option<PathBuf>,
    },
    /// The branch already contained the commit.
    Already,
    /// The branch has commits that were added after the work was verified; nothing was changed.
    Moved {
        /// The current tip of the branch.
        now: CommitId,
    },
    /// Git refused because of the user's uncommitted files. Nothing was changed but the files named in `changed`.
    Refused {
        /// Git's message.
        why: String,
        /// The command to run once the obstacle is removed.
        command: String,
        /// Files of the user's that git changed before it failed, and that could not be restored.
        changed: Option<NotRestored>,
    },
    /// The branch no longer exists; nothing was changed.
    Gone,
}

/// Files that could not be restored after a failed landing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRestored {
    /// The files, relative to the root of the work tree.
    pub files: Vec<PathBuf>,
    /// The command that restores them.
    pub command: String,
}

impl Integration {
    /// Fast-forwards a branch of the user's to `commit`, which must be on the integration branch.
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

    /// Lands in the work tree that has the branch checked out.
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
                "{branch} is checked out in {}, which does not exist",
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
        // The user's settings must not turn this into something else: stash uncommitted files, create another commit
        // than the verified one, or overwrite an ignored file.
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
        // git sets ORIG_HEAD even if it then refuses; the user's value is restored.
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
                let why = why.unwrap_or_else(|| format!("{branch} is no longer checked out there"));
                Ok(refused(why, changed))
            }
        }
    }

    /// Lands a branch that is not checked out anywhere.
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

    /// Returns a work tree in which an unfinished rebase or bisection will set the branch when it ends.
    fn returning_to(&self, branch: &str) -> Result<Option<(PathBuf, &'static str)>, GitError> {
        let full = format!("{HEADS}{branch}");
        for entry in registered::all(&self.repo)? {
            let own = self
                .repo
                .call_in(&entry.path)
                .args(["rev-parse", "--absolute-git-dir"]);
            // A worktree whose folder is gone has no unfinished operation that could still end.
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

/// Returns the command with which a user lands the commit by hand.
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
