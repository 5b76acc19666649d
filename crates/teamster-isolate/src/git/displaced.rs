//! Makes room for a worktree without losing work that is in its place.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use teamster_fs::{Dir, FileKind, layout, proc, remove_tree};
use teamster_types::{TeamName, WorkerName};

use super::error::GitError;
use super::names::{CommitId, head_ref, team_branch};
use super::registered::{self, RegisteredWorktree};
use super::repo::Repo;
use super::secrets::SecretFile;
use super::worktree::{
    DisplacedWork, KeepRule, Removal, Worktree, named_in, unkept_commits, unmerged_words, vanished,
};

/// How long to wait for a git process that is still creating the worktree.
const AT_WORK: Duration = Duration::from_secs(60);
/// How long to wait where running git processes cannot be seen.
const UNSEEN: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);
/// The limit for numbered names of displaced work of one worker.
const MOST_KEPT: u32 = 10_000;

/// Clears the folder of the new worktree, and returns files found there that must not be committed.
pub(super) fn clear_place(
    repo: &Repo,
    team: &TeamName,
    worker: &WorkerName,
    base: &CommitId,
    dir: &Dir,
    kept: &mut Vec<DisplacedWork>,
) -> Result<Vec<SecretFile>, GitError> {
    let path = dir.join(worker.as_str());
    let stamp = dir.stamp(worker.as_str())?;
    let entry = finished(repo, &path)?;
    match (entry, stamp.map(|stamp| stamp.kind)) {
        (None, None) => {}
        (_, Some(kind)) if kind != FileKind::Folder => return Err(foreign(&path)),
        (None, Some(_)) => clear_beginning(repo, dir, worker.as_str(), &path)?,
        (Some(entry), None) => forget(repo, team, worker, &entry, kept)?,
        (Some(entry), Some(_)) => {
            if entry.head.is_none() || entry.is_being_made() {
                unlock(repo, &entry)?;
                if entry.head.is_none() || has_only_missing(repo, team, worker.as_str())? {
                    remove_half_made(repo, dir, worker.as_str(), &path, entry.head.is_none())?;
                    return Ok(Vec::new());
                }
            } else if let Some(reason) = &entry.locked {
                return Err(locked(&path, reason));
            }
            let worktree =
                Worktree::named(repo, team, worker.as_str())?.ok_or_else(|| vanished(&path))?;
            // The previous worker may have been killed before its files were checked for secrets.
            let mut secrets = Vec::new();
            let moved = worktree.set_secrets_aside(base, &mut secrets);
            moved.map_err(|error| error.after_moving(&secrets))?;
            let safe = KeepRule {
                base: Some(base),
                pins: true,
                is_integration: false,
            };
            let why = match worktree.holds(safe)? {
                Some(why) => why,
                None => match worktree.remove()? {
                    Removal::Removed => return Ok(secrets),
                    Removal::Kept { why } => why,
                },
            };
            kept.push(move_aside(repo, team, worker, &entry, why, dir)?);
            return Ok(secrets);
        }
    }
    Ok(Vec::new())
}

/// Frees the name of the worker's branch. A branch with commits that exist nowhere else is renamed.
pub(super) fn clear_branch(
    repo: &Repo,
    team: &TeamName,
    worker: &WorkerName,
    base: &CommitId,
    kept: &mut Vec<DisplacedWork>,
) -> Result<(), GitError> {
    let branch = team_branch(team, worker.as_str());
    let Some(tip) = repo.resolve(&head_ref(&branch))? else {
        return Ok(());
    };
    let user = registered::all(repo)?
        .into_iter()
        .find(|entry| entry.branch.as_ref() == Some(&branch));
    let safe = KeepRule {
        base: Some(base),
        pins: true,
        is_integration: false,
    };
    let count = unkept_commits(repo, team, std::slice::from_ref(&tip), safe)?;
    if count == 0 && user.is_none() {
        return repo
            .call()
            .args(["update-ref", "-d", &head_ref(&branch), tip.as_str()])
            .done();
    }
    // If a process was killed after it moved a worktree aside and before it renamed the branch, the branch gets the
    // same number.
    let beside = user
        .as_ref()
        .and_then(|entry| entry.path.file_name()?.to_str())
        .filter(|name| layout::worker_of_kept(name).as_ref() == Some(worker))
        .map(|name| team_branch(team, name));
    let free = match beside {
        Some(name) if repo.resolve(&head_ref(&name))?.is_none() => name,
        _ => team_branch(team, &free_name(repo, team, worker.as_str(), None)?),
    };
    rename_branch(repo, &branch, &free)?;
    let why = match &user {
        Some(entry) => format!("it is checked out in {}", entry.path.display()),
        None => unmerged_words(count),
    };
    kept.push(DisplacedWork {
        path: user.map(|entry| entry.path),
        branch: Some(free),
        why,
    });
    Ok(())
}

/// Creates a branch for commits that are on no branch, and returns its name.
pub(super) fn branch_for(
    repo: &Repo,
    team: &TeamName,
    name: &str,
    commit: &CommitId,
) -> Result<String, GitError> {
    let owner =
        layout::worker_of_kept(name).map_or_else(|| name.to_owned(), |worker| worker.to_string());
    let branch = team_branch(team, &free_name(repo, team, &owner, None)?);
    // An empty old value means that the branch must not exist yet.
    repo.call()
        .args(["update-ref", &head_ref(&branch), commit.as_str(), ""])
        .done()?;
    Ok(branch)
}

/// Returns the error for a folder that is not one of teamster's worktrees.
pub(super) fn foreign(path: &Path) -> GitError {
    GitError::refused(
        format!(
            "{} exists and is not a worktree of this repository",
            path.display()
        ),
        "it was left alone: move it away, or repair it with `git worktree repair`",
    )
}

pub(super) fn locked(path: &Path, reason: &str) -> GitError {
    GitError::refused(
        format!("the worktree {} is locked: {reason:?}", path.display()),
        format!(
            "`git worktree unlock {}` lets it be moved aside",
            path.display()
        ),
    )
}

/// Returns the worktree at `path` as git lists it, once no git process is creating it any more. A git process outlives
/// a killed teamster and is usually visible; where processes cannot be seen, it gets some time.
pub(super) fn finished(repo: &Repo, path: &Path) -> Result<Option<RegisteredWorktree>, GitError> {
    let start = Instant::now();
    loop {
        let entry = registered::at(repo, path)?;
        let patience = match proc::processes_in(path) {
            Some(pids) if pids.is_empty() => Duration::ZERO,
            Some(_) => AT_WORK,
            None => UNSEEN,
        };
        let busy = entry
            .as_ref()
            .is_some_and(RegisteredWorktree::is_being_made);
        if !busy || start.elapsed() >= patience {
            return Ok(entry);
        }
        thread::sleep(PAUSE);
    }
}

pub(super) fn unlock(repo: &Repo, entry: &RegisteredWorktree) -> Result<(), GitError> {
    if entry.locked.is_none() {
        return Ok(());
    }
    repo.call()
        .args(["worktree", "unlock", "--"])
        .arg(&entry.path)
        .done()
}

/// Removes a folder that git does not know. One that a killed git had only begun is empty, or contains only the `.git`
/// file.
pub(super) fn clear_beginning(
    repo: &Repo,
    dir: &Dir,
    name: &str,
    path: &Path,
) -> Result<(), GitError> {
    let Some(folder) = dir.child(name)? else {
        return Ok(());
    };
    let names: Vec<String> = folder
        .entries()?
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    let pointer = names == [".git"]
        && named_in(&folder, ".git", "gitdir: ")
            .is_some_and(|admin| admin.starts_with(repo.common().join("worktrees")));
    if pointer {
        folder.remove(".git")?;
    } else if !names.is_empty() {
        return Err(foreign(path));
    }
    // Names that are not UTF-8 are not listed; removal of the non-empty folder then fails.
    dir.remove_dir(name).map_err(|_| foreign(path))?;
    Ok(())
}

/// Removes git's record of a worktree whose folder is gone. A commit that was checked out there without a branch gets
/// one.
fn forget(
    repo: &Repo,
    team: &TeamName,
    worker: &WorkerName,
    entry: &RegisteredWorktree,
    kept: &mut Vec<DisplacedWork>,
) -> Result<(), GitError> {
    if entry.is_being_made() {
        unlock(repo, entry)?;
    } else if let Some(reason) = &entry.locked {
        return Err(locked(&entry.path, reason));
    }
    let safe = KeepRule {
        base: None,
        pins: true,
        is_integration: false,
    };
    if let (None, Some(head)) = (&entry.branch, &entry.head) {
        let count = unkept_commits(repo, team, std::slice::from_ref(head), safe)?;
        if count > 0 {
            kept.push(DisplacedWork {
                path: None,
                branch: Some(branch_for(repo, team, worker.as_str(), head)?),
                why: unmerged_words(count),
            });
        }
    }
    repo.call()
        .args(["worktree", "remove", "--"])
        .arg(&entry.path)
        .done()
}

/// Returns whether the worktree differs from its commit only by missing files.
pub(super) fn has_only_missing(repo: &Repo, team: &TeamName, name: &str) -> Result<bool, GitError> {
    let Ok(Some(worktree)) = Worktree::named(repo, team, name) else {
        return Ok(false);
    };
    worktree.with_spare_index(|index| {
        worktree
            .call()
            .env("GIT_INDEX_FILE", index)
            .args(["read-tree", "HEAD"])
            .done()?;
        let changed = worktree
            .call()
            .env("GIT_INDEX_FILE", index)
            .args(["status", "--porcelain=v1", "-z", "--no-renames"])
            .args(["--untracked-files=all", "--ignore-submodules=none"])
            .bytes()?;
        Ok(changed
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty())
            .all(|line| line.starts_with(b" D ")))
    })
}

/// Removes a worktree that a killed git had only begun and in which nobody has worked.
pub(super) fn remove_half_made(
    repo: &Repo,
    dir: &Dir,
    name: &str,
    path: &Path,
    must_be_empty: bool,
) -> Result<(), GitError> {
    if must_be_empty {
        let folder = dir.child(name)?.ok_or_else(|| vanished(path))?;
        let more = folder.entries()?.iter().any(|entry| entry.name != ".git");
        if more {
            return Err(GitError::refused(
                format!(
                    "{} was left behind by an interrupted start and holds files",
                    path.display()
                ),
                "it was left alone: inspect it, and move it away",
            ));
        }
    }
    remove_tree(dir, name)?;
    repo.call()
        .args(["worktree", "remove", "--"])
        .arg(path)
        .done()
}

/// Moves a worktree and its branch to names that no worker can have.
fn move_aside(
    repo: &Repo,
    team: &TeamName,
    worker: &WorkerName,
    entry: &RegisteredWorktree,
    why: String,
    dir: &Dir,
) -> Result<DisplacedWork, GitError> {
    let name = free_name(repo, team, worker.as_str(), Some(dir))?;
    let path = dir.join(&name);
    let moved = repo
        .call()
        .args(["worktree", "move", "--"])
        .arg(&entry.path)
        .arg(&path);
    let ended = moved.run()?;
    if !ended.status.success() {
        // git refuses to move a worktree with submodules, because their paths would become wrong.
        if !String::from_utf8_lossy(&ended.stderr).contains("submodules") {
            let error = moved.failed(&ended);
            return Err(GitError::refused(
                format!(
                    "{} holds work ({why}) and cannot be moved aside: {error}",
                    entry.path.display()
                ),
                format!(
                    "move it away yourself, or bring it to a branch with `teamster worktree salvage --team {team} {worker}`"
                ),
            ));
        }
        dir.rename(worker.as_str(), dir, &name)?;
        repo.call()
            .args(["worktree", "repair", "--"])
            .arg(&path)
            .done()?;
        Worktree::named(repo, team, &name)?
            .ok_or_else(|| vanished(&path))?
            .repair_submodules()?;
    }
    let own = team_branch(team, worker.as_str());
    let branch = if entry.branch.as_ref() == Some(&own) {
        let new = team_branch(team, &name);
        rename_branch(repo, &own, &new)?;
        Some(new)
    } else {
        entry.branch.clone()
    };
    Ok(DisplacedWork {
        path: Some(path),
        branch,
        why,
    })
}

fn rename_branch(repo: &Repo, old: &str, new: &str) -> Result<(), GitError> {
    repo.call().args(["branch", "-m", "--", old, new]).done()
}

/// Returns the first numbered name for a worker's displaced work that no branch and no folder has.
fn free_name(
    repo: &Repo,
    team: &TeamName,
    worker: &str,
    dir: Option<&Dir>,
) -> Result<String, GitError> {
    let worker: WorkerName = worker.parse().map_err(|_| {
        GitError::refused(
            format!("{worker:?} is not a worker name"),
            "name the worker",
        )
    })?;
    for number in 1..MOST_KEPT {
        let name = layout::kept_worktree(&worker, number);
        let taken = match dir {
            Some(dir) => dir.stamp(&name)?.is_some(),
            None => layout::team_worktrees(repo.project(), team)
                .join(&name)
                .exists(),
        };
        if !taken
            && repo
                .resolve(&head_ref(&team_branch(team, &name)))?
                .is_none()
        {
            return Ok(name);
        }
    }
    Err(GitError::refused(
        format!("{MOST_KEPT} worktrees of {worker} are kept already"),
        "`teamster worktree list` shows them",
    ))
}
