//! The seats of a host: one in a project, one for a team.

use std::time::Duration;

use teamster_fs::layout::Layout;
use teamster_fs::{Dir, FsError, Lock, Waited, layout};
use teamster_types::TeamName;

/// Whoever only looks whether a seat is taken has it for a moment.
const GLANCE: Duration = Duration::from_millis(200);

/// The seat of whoever runs something in a project. There is one; the kernel frees it at its holder's death.
#[derive(Debug)]
pub struct ProjectSeat {
    lock: Lock,
}

impl ProjectSeat {
    /// The seat, if nobody has it.
    pub fn take(project: &Dir) -> Result<Option<Self>, FsError> {
        let [first, second] = layout::OUR_STATE;
        let state = project.child_or_create(first)?.child_or_create(second)?;
        Ok(match Lock::wait(&state, layout::RUN_LOCK, GLANCE, false)? {
            Waited::Held(lock) => Some(Self { lock }),
            Waited::TimedOut => None,
        })
    }

    /// The seat of a team's host as well, if nobody has that.
    pub fn with_team(self, layout: &Layout, team: &TeamName) -> Result<Option<Seat>, FsError> {
        let root = Dir::open_or_create_root(&layout.claude)?;
        let Some(folder) = root.child_or_create(layout::TEAMS)?.child(team.as_str())? else {
            return Ok(None);
        };
        Ok(
            match Lock::wait(&folder, layout::HOST_LOCK, GLANCE, false)? {
                Waited::Held(of_team) => Some(Seat {
                    _project: self.lock,
                    _team: of_team,
                }),
                Waited::TimedOut => None,
            },
        )
    }
}

/// The seat of a host: that of its project, and that of its team.
#[derive(Debug)]
pub struct Seat {
    _project: Lock,
    _team: Lock,
}
