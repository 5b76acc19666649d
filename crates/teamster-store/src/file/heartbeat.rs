//! Heartbeats, in the project that the team works on.

use std::path::Path;

use teamster_fs::{Dir, Durability, OrTrace as _, layout, team_store};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::{TeamName, WorkerName};

use crate::error::{Result, StoreError};
use crate::store::Damaged;

/// Returns the folder of a team's heartbeats, if it exists.
pub(super) fn folder(project: Option<&str>, team: &TeamName) -> Result<Option<Dir>> {
    let Some(project) = project.filter(|project| !project.is_empty()) else {
        return Ok(None);
    };
    let Some(project) = Dir::open_root(Path::new(project))? else {
        return Ok(None);
    };
    Ok(project.descend(&layout::heartbeat_folders(team))?)
}

pub(super) fn write(claude: &Path, project: Option<&str>, heartbeat: &Heartbeat) -> Result<()> {
    let project = project.unwrap_or_default();
    let root = Dir::open_root(Path::new(project))?;
    let Some(root) = root.filter(|_| !project.is_empty()) else {
        return Err(StoreError::not_found(format!(
            "the project {project:?} of team {} does not exist",
            heartbeat.team_name
        )));
    };
    let file = layout::heartbeat_file(&heartbeat.worker_name);
    let dir = root.descend_or_create(&layout::heartbeat_folders(&heartbeat.team_name))?;
    if dir.stamp(&file)?.is_none() {
        team_store::note_store(&root, &heartbeat.team_name, claude.as_os_str())?;
    }
    let bytes = serde_json::to_vec_pretty(heartbeat).unwrap_or_default();
    // No sync is needed: if the machine crashes, the worker is gone as well.
    Ok(dir.replace(&file, &bytes, Durability::Fast)?)
}

pub(super) fn remove(project: Option<&str>, team: &TeamName, worker: &WorkerName) -> Result<()> {
    if let Some(dir) = folder(project, team)? {
        dir.remove(&layout::heartbeat_file(worker))?;
    }
    Ok(())
}

/// Returns one worker's heartbeat; `None` when it cannot be read.
pub(super) fn read(
    project: Option<&str>,
    team: &TeamName,
    worker: &WorkerName,
) -> Result<Option<Heartbeat>> {
    let Some(dir) = folder(project, team)? else {
        return Ok(None);
    };
    let bytes = match dir.read(&layout::heartbeat_file(worker)) {
        Ok(read) => read.map(|(bytes, _)| bytes),
        Err(error) if error.is_unsafe() => None,
        Err(error) => return Err(error.into()),
    };
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok_or_trace("read a heartbeat")))
}

/// Returns all heartbeats of a team, and the files that could not be read.
pub(super) fn read_all(
    project: Option<&str>,
    team: &TeamName,
) -> Result<(Vec<Heartbeat>, Vec<Damaged>)> {
    let (mut beats, mut damaged) = (Vec::new(), Vec::new());
    let Some(dir) = folder(project, team)? else {
        return Ok((beats, damaged));
    };
    for entry in dir.entries()? {
        if layout::worker_of_heartbeat(&entry.name).is_none() {
            continue;
        }
        let parsed = match dir.read(&entry.name) {
            Ok(None) => continue,
            Ok(Some((bytes, _))) => {
                serde_json::from_slice::<Heartbeat>(&bytes).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.problem.to_string()),
        };
        match parsed {
            Ok(beat) => beats.push(beat),
            Err(error) => damaged.push(Damaged {
                file: entry.name,
                error,
            }),
        }
    }
    beats.sort_by(|a, b| a.worker_name.cmp(&b.worker_name));
    Ok((beats, damaged))
}
