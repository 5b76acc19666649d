//! The locks of a host: one run at a time works in a project, and one process at a time hosts a team.

use std::path::PathBuf;
use std::time::Duration;

use teamster_fs::layout::Layout;
use teamster_fs::{Dir, FsError, Lock, Waited, layout, team_store};
use teamster_types::TeamName;

/// A process that only looks whether a lock is taken holds it for no longer than this.
const GLANCE: Duration = Duration::from_millis(200);

/// The lock of a project, without a team. The kernel frees it when its holder dies.
#[derive(Debug)]
pub struct ProjectLock {
    project: PathBuf,
    lock: Lock,
}

impl ProjectLock {
    /// Takes the lock of a project, or returns `None` when another process holds it.
    pub fn take(project: &Dir) -> Result<Option<Self>, FsError> {
        let [first, second] = layout::OUR_STATE;
        let state = project.child_or_create(first)?.child_or_create(second)?;
        Ok(match Lock::wait(&state, layout::RUN_LOCK, GLANCE, false)? {
            Waited::Held(lock) => Some(Self {
                project: project.path().to_owned(),
                lock,
            }),
            Waited::TimedOut => None,
        })
    }

    /// Takes the lock of a team as well, or returns `None` when another process holds that. The store of the team is noted in
    /// the project.
    pub fn with_team(
        self,
        layout: &Layout,
        team: &TeamName,
    ) -> Result<Option<ExclusiveLock>, FsError> {
        let Some(of_team) = TeamLock::take(layout, team)? else {
            return Ok(None);
        };
        let project = Dir::open_or_create_root(&self.project)?;
        team_store::note_store(&project, team, &layout.store_note())?;
        Ok(Some(ExclusiveLock {
            _project: self.lock,
            _team: of_team,
        }))
    }
}

/// The lock of a team alone, for whoever ends its run and works nowhere. The kernel frees it when its holder dies.
#[derive(Debug)]
pub struct TeamLock {
    _lock: Lock,
}

impl TeamLock {
    /// Takes the lock of a team, or returns `None` when another process holds it or there is no such team.
    pub fn take(layout: &Layout, team: &TeamName) -> Result<Option<Self>, FsError> {
        let Some(folder) = team_store::team_folder(layout, team)? else {
            return Ok(None);
        };
        Ok(
            match Lock::wait(&folder, layout::HOST_LOCK, GLANCE, false)? {
                Waited::Held(lock) => Some(Self { _lock: lock }),
                Waited::TimedOut => None,
            },
        )
    }

    /// Returns whether a process hosts the team.
    pub fn is_held(layout: &Layout, team: &TeamName) -> Result<bool, FsError> {
        match team_store::team_folder(layout, team)? {
            Some(folder) => Lock::is_held(&folder, layout::HOST_LOCK),
            None => Ok(false),
        }
    }
}

/// The lock that a host holds as long as it runs: that of its project and that of its team.
#[derive(Debug)]
pub struct ExclusiveLock {
    _project: Lock,
    _team: TeamLock,
}
