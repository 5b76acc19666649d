//! Heartbeats of our workers, in the project that a team works on.

use std::path::Path;

use teamster_fs::{Dir, FsError, layout};
use teamster_types::TeamName;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::process::Life;
use teamster_types::transitions::HEARTBEAT_FRESH;

use super::look::Scene;

/// What a heartbeat says about its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beat {
    /// It is fresh, or its process runs.
    Alive,
    /// Its process cannot be judged from here.
    Unsure,
    /// It is stale, and its process is proven gone.
    Dead,
    /// It is stale and names no process.
    Silent,
}

/// A team's heartbeats by the names of their files.
pub(super) fn of_team(
    project: &Path,
    team: &TeamName,
) -> Result<Vec<(String, Heartbeat)>, FsError> {
    let Some(mut dir) = Dir::open_root(project)? else {
        return Ok(Vec::new());
    };
    for name in layout::heartbeat_folders(team) {
        match dir.child(name)? {
            Some(child) => dir = child,
            None => return Ok(Vec::new()),
        }
    }
    let mut beats = Vec::new();
    for entry in dir.entries()? {
        // One that cannot be read proves nothing and hides no other.
        if layout::worker_of_heartbeat(&entry.name).is_some()
            && let Ok(Some((bytes, _))) = dir.read(&entry.name)
            && let Ok(beat) = serde_json::from_slice(&bytes)
        {
            beats.push((entry.name, beat));
        }
    }
    beats.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(beats)
}

/// What it says.
pub(super) fn judge(scene: &Scene<'_>, beat: &Heartbeat) -> Beat {
    if scene.look.now.since(beat.last_poll_at) < HEARTBEAT_FRESH {
        return Beat::Alive;
    }
    let process = beat.process();
    match process.map(|process| scene.look.machine.life(&process)) {
        Some(Life::Alive) => Beat::Alive,
        Some(Life::Unknown) => Beat::Unsure,
        Some(Life::Gone) => Beat::Dead,
        None => Beat::Silent,
    }
}
