//! Which store a team of a project is kept in, as recorded in the project itself.
//!
//! Worktrees, heartbeats and the lock of a run are in the project; teams are in a store, which differs between home
//! folders. A team that is missing from one store must not be taken for gone while the project still has its files.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use teamster_types::TeamName;

use crate::dir::{Dir, Durability};
use crate::error::FsError;
use crate::layout::{self, Layout};
use crate::lock::{Lock, LockWait};

/// Returns the folder of a team on this machine; `None` when there is no such team. For a team in a database the folder
/// is created, whether or not the team exists.
pub fn team_folder(layout: &Layout, team: &TeamName) -> Result<Option<Dir>, FsError> {
    let folders = layout.team_folders();
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    let folder = Dir::open_or_create_root(&layout.claude)?.descend_or_create(&folders)?;
    match layout.database {
        Some(_) => Ok(Some(folder.child_or_create(team.as_str())?)),
        None => folder.child(team.as_str()),
    }
}

/// Records in a project which store one of its teams is kept in: [`layout::Layout::store_note`].
pub fn note_store(project: &Dir, team: &TeamName, store: &OsStr) -> Result<(), FsError> {
    let dir = project.descend_or_create(&layout::heartbeat_folders(team))?;
    let path = store.as_bytes();
    match dir.read(layout::TEAM_STORE)? {
        Some((noted, _)) if noted == path => Ok(()),
        _ => dir.replace(layout::TEAM_STORE, path, Durability::Durable),
    }
}

/// Returns the store that a project's team is kept in, if it is not `own`. A store that cannot be read counts as
/// containing the team.
pub fn other_store(project: &Path, team: &TeamName, own: &Path) -> Option<PathBuf> {
    let store = noted(project, team)?;
    if is_same(&store, own) {
        return None;
    }
    if store
        .as_os_str()
        .as_bytes()
        .starts_with(layout::DATABASE_SCHEME.as_bytes())
    {
        return Some(store);
    }
    let config = store
        .join(layout::TEAMS)
        .join(team.as_str())
        .join(layout::CONFIG);
    let is_gone = config.symlink_metadata().is_err_and(|error| {
        matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput
        )
    });
    (!is_gone).then_some(store)
}

/// Returns whether a team that is not in the store `own` may be in another one: because the project's record says so,
/// or because a run that may be this team's is active in the project.
pub fn may_be_elsewhere(project: &Path, team: &TeamName, own: &Path) -> bool {
    other_store(project, team, own).is_some() || may_be_run(project, team, own)
}

/// Returns whether a run is active in a project that may belong to a team which is not in the store `own`.
pub fn may_be_run(project: &Path, team: &TeamName, own: &Path) -> bool {
    let is_own = noted(project, team).is_some_and(|store| is_same(&store, own));
    !is_own && is_run_in(project)
}

/// Returns whether the project's record says that a team is kept in `store`: [`layout::Layout::store_note`].
pub fn is_noted(project: &Path, team: &TeamName, store: &OsStr) -> bool {
    noted(project, team).is_some_and(|noted| noted.as_os_str() == store)
}

/// Returns the store recorded in a project for a team.
fn noted(project: &Path, team: &TeamName) -> Option<PathBuf> {
    let dir = Dir::open_root(project).ok()??;
    let dir = dir.descend(&layout::heartbeat_folders(team)).ok()??;
    let (path, _) = dir.read(layout::TEAM_STORE).ok()??;
    Some(PathBuf::from(OsStr::from_bytes(&path)))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    one == other || real(one).is_some_and(|one| Some(one) == real(other))
}

/// Prevents runs from starting in a project while the lock is held; `None` when a run is active.
pub fn block_new_runs(project: &Path) -> Result<Option<Lock>, FsError> {
    let Some(project) = Dir::open_root(project)? else {
        return Ok(None);
    };
    let state = project.descend_or_create(&layout::OUR_STATE)?;
    Ok(
        match Lock::wait(&state, layout::RUN_LOCK, Duration::ZERO, true)? {
            LockWait::Held(lock) => Some(lock),
            LockWait::TimedOut => None,
        },
    )
}

/// Returns whether a run is active in a project, from any home folder. An error counts as yes.
fn is_run_in(project: &Path) -> bool {
    let find = || -> Result<bool, FsError> {
        let Some(dir) = Dir::open_root(project)? else {
            return Ok(false);
        };
        let Some(state) = dir.descend(&layout::OUR_STATE)? else {
            return Ok(false);
        };
        // Checking must not create the file.
        if state.stamp(layout::RUN_LOCK)?.is_none() {
            return Ok(false);
        }
        Ok(block_new_runs(project)?.is_none())
    };
    find().unwrap_or(true)
}
