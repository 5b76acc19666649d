//! The worktrees registered in git.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use teamster_fs::{Dir, proc, remove_tree};

use super::error::GitError;
use super::names::{CommitId, HEADS, head_ref};
use super::repo::Repo;

/// The lock reason that git writes while it creates a worktree; a killed git leaves it behind.
const BEING_MADE: &str = "initializing";
/// The part of git's message about a record that it cannot read.
pub(super) const UNREADABLE: &str = "/commondir";
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(5);

/// A worktree as git lists it.
#[derive(Clone, Debug)]
pub(super) struct RegisteredWorktree {
    /// The path of the worktree, which may be gone.
    pub(super) path: PathBuf,
    /// The commit that is checked out; `None` when HEAD was never written.
    pub(super) head: Option<CommitId>,
    /// The branch, without `refs/heads/`.
    pub(super) branch: Option<String>,
    /// Why the worktree is locked.
    pub(super) locked: Option<String>,
}

impl RegisteredWorktree {
    /// Returns whether git has not finished creating the worktree.
    pub(super) fn is_being_made(&self) -> bool {
        self.locked.as_deref() == Some(BEING_MADE)
    }
}

/// Returns all worktrees that git knows of, including the user's own.
///
/// A git process that is killed at a bad moment while it creates a worktree leaves a record that makes every later git
/// fail. A running one is in that state for a moment only.
pub(super) fn all(repo: &Repo) -> Result<Vec<RegisteredWorktree>, GitError> {
    let start = Instant::now();
    loop {
        let call = repo.call().args(["worktree", "list", "--porcelain", "-z"]);
        let ended = call.run_once()?;
        if ended.status.success() {
            let mut found = parse(&ended.stdout);
            if let Some(main) = found.first_mut() {
                correct_main(repo, main)?;
            }
            return Ok(found);
        }
        let unreadable = String::from_utf8_lossy(&ended.stderr).contains(UNREADABLE);
        if !unreadable || start.elapsed() >= PATIENCE {
            return Err(call.failed(&ended));
        }
        match proc::started_with(&["worktree", "add"]) {
            Some(pids) if !pids.is_empty() => thread::sleep(PAUSE),
            // The process that created the worktree has finished since the list was read, or was killed.
            Some(_) if clear_beginnings(repo)? => {}
            Some(_) => return Err(call.failed(&ended)),
            None => thread::sleep(PAUSE),
        }
    }
}

/// Corrects the path of the main work tree: git lists its git folder instead where the two are separate (`git init
/// --separate-git-dir`, a submodule). When the project is in the main work tree, the real path is known.
fn correct_main(repo: &Repo, main: &mut RegisteredWorktree) -> Result<(), GitError> {
    if main.path == repo.common() {
        let own = repo.call().args(["rev-parse", "--absolute-git-dir"]);
        if own.path()? == repo.common() {
            repo.root().clone_into(&mut main.path);
        }
    }
    Ok(())
}

/// Removes the records of incomplete worktrees: they are locked with git's own reason, and nothing is in them yet.
/// Returns false when there is none.
fn clear_beginnings(repo: &Repo) -> Result<bool, GitError> {
    let Some(dir) = Dir::open_root(&repo.common().join("worktrees"))? else {
        return Ok(false);
    };
    let mut cleared = false;
    for entry in dir.entries()? {
        let Ok(Some(admin)) = dir.child(&entry.name) else {
            continue;
        };
        let content = |name: &str| admin.read(name).ok().flatten().map(|(bytes, _)| bytes);
        let begun =
            content("locked").is_some_and(|reason| reason.trim_ascii() == BEING_MADE.as_bytes());
        let empty = content("commondir").is_none_or(|text| text.is_empty());
        if begun && empty && admin.stamp("index")?.is_none() {
            remove_tree(&dir, &entry.name)?;
            cleared = true;
        }
    }
    Ok(cleared)
}

/// Creates a worktree at `path` on the existing `branch`, which must not be checked out anywhere. `worktree add` only
/// takes a short branch name, which may also be that of a tag; so it is given the commit, and HEAD is then set to the
/// full name of the branch.
pub(super) fn add(repo: &Repo, path: &Path, branch: &str) -> Result<(), GitError> {
    let name = head_ref(branch);
    repo.ruled_call()?
        .args(["worktree", "add", "--quiet", "--detach", "--"])
        .arg(path)
        .arg(&name)
        .done()?;
    repo.call_in(path)
        .args(["symbolic-ref", "HEAD", &name])
        .done()
}

/// Returns the worktree at `path`.
pub(super) fn at(repo: &Repo, path: &Path) -> Result<Option<RegisteredWorktree>, GitError> {
    Ok(all(repo)?.into_iter().find(|entry| entry.path == path))
}

fn parse(bytes: &[u8]) -> Vec<RegisteredWorktree> {
    let mut found: Vec<RegisteredWorktree> = Vec::new();
    for line in bytes.split(|byte| *byte == 0) {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            found.push(RegisteredWorktree {
                path: OsStr::from_bytes(path).into(),
                head: None,
                branch: None,
                locked: None,
            });
            continue;
        }
        let Some(last) = found.last_mut() else {
            continue;
        };
        let line = String::from_utf8_lossy(line);
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            // A worktree whose HEAD was never written shows zeros.
            "HEAD" if rest.bytes().any(|byte| byte != b'0') => last.head = rest.parse().ok(),
            "branch" => last.branch = rest.strip_prefix(HEADS).map(str::to_owned),
            "locked" => last.locked = Some(rest.to_owned()),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_gits_list_is_understood() {
        let head = "a".repeat(40);
        let none = "0".repeat(40);
        let text = format!(
            "worktree /p\0HEAD {head}\0branch refs/heads/main\0\0worktree /p/a\nb\0HEAD {head}\0detached\0locked mine\0\0\
             worktree /p/c\0HEAD {none}\0branch refs/heads/c\0locked initializing\0prunable gone\0\0"
        );
        let found = parse(text.as_bytes());
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].branch.as_deref(), Some("main"));
        assert_eq!(found[1].path, Path::new("/p/a\nb"));
        assert_eq!(found[1].locked.as_deref(), Some("mine"));
        assert_eq!(
            (found[1].branch.as_ref(), found[1].is_being_made()),
            (None, false)
        );
        assert!(found[2].head.is_none() && found[2].is_being_made());
    }
}
