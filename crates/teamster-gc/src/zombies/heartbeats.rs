//! Heartbeats of teamster's workers, in the project that a team works on.

use std::path::Path;

use teamster_fs::{Dir, FsError, layout};
use teamster_types::TeamName;
use teamster_types::health::{self, Limits, Verdict};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::process::ProcessId;

use super::scanner::ZombieScanner;

/// The verdict on a worker by its heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeartbeatVerdict {
    /// The heartbeat is fresh and its process is not proven gone, or its process runs.
    Alive,
    /// The heartbeat is stale, and its process cannot be judged from here.
    Unsure,
    /// The process is proven gone.
    Dead,
    /// The heartbeat is stale and does not identify its process unambiguously.
    Silent,
}

/// Returns a team's heartbeats with the names of their files.
pub(super) fn of_team(
    project: &Path,
    team: &TeamName,
) -> Result<Vec<(String, Heartbeat)>, FsError> {
    let Some(dir) = Dir::open_at(project, &layout::heartbeat_folders(team))? else {
        return Ok(Vec::new());
    };
    let mut beats = Vec::new();
    for entry in dir.entries()? {
        // An unreadable heartbeat proves nothing and must not hide the others.
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

/// Returns the verdict on a worker by its heartbeat.
///
/// [`health::judge`] decides, as everywhere, with one exception: a heartbeat from the future, which remains after the
/// clock was set back, counts as fresh, so that nothing is removed because of it.
pub(super) fn judge(scanner: &ZombieScanner<'_>, beat: &Heartbeat) -> HeartbeatVerdict {
    let (now, limits) = (scanner.options.now, Limits::default());
    let life = |process: &ProcessId| scanner.options.machine.process_state(process);
    match health::judge(now, Some(beat), None, life, &limits).verdict {
        Verdict::Dead => HeartbeatVerdict::Dead,
        _ if now.since(beat.last_poll_at) < limits.stale => HeartbeatVerdict::Alive,
        Verdict::Unknown if beat.process().is_none() => HeartbeatVerdict::Silent,
        Verdict::Unknown => HeartbeatVerdict::Unsure,
        _ => HeartbeatVerdict::Alive,
    }
}
