//! The seats of a host: one in a project, one for a team.

use std::path::PathBuf;
use std::time::Duration;

use teamster_fs::layout::Layout;
use teamster_fs::{Dir, FsError, Lock, Waited, layout, team_store};
use teamster_types::TeamName;

/// Whoever only looks whether a seat is taken has it for a moment.
const GLANCE: Duration = Duration::from_millis(200);

/// The seat of whoever runs something in a project. There is one; the kernel frees it at its holder's death.
#[derive(Debug)]
pub struct ProjectSeat {
    project: PathBuf,
    lock: Lock,
}

impl ProjectSeat {
    /// The seat, if nobody has it.
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

    /// The seat of a team's host as well, if nobody has that. The project is told which store the team lives in.
    pub fn with_team(self, layout: &Layout, team: &TeamName) -> Result<Option<Seat>, FsError> {
        let root = Dir::open_or_create_root(&layout.claude)?;
        let Some(folder) = root.child_or_create(layout::TEAMS)?.child(team.as_str())? else {
            return Ok(None);
        };
        let Waited::Held(of_team) = Lock::wait(&folder, layout::HOST_LOCK, GLANCE, false)? else {
            return Ok(None);
        };
        let project = Dir::open_or_create_root(&self.project)?;
        team_store::note_store(&project, team, &layout.claude)?;
        Ok(Some(Seat {
            _project: self.lock,
            _team: of_team,
        }))
    }
}

/// The seat of a host: that of its project, and that of its team.
#[derive(Debug)]
pub struct Seat {
    _project: Lock,
    _team: Lock,
}
