//! What is needed to find a worker's processes again and to start it anew: written by its bridge when it begins, taken
//! away at its orderly end. One that is left tells of a worker that did not end in order.

use serde::{Deserialize, Serialize};
use teamster_fs::{Dir, FsError, Sync, layout};
use teamster_types::process::ProcessId;
use teamster_types::{TeamName, Time, WorkerName};

/// How a worker runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerBackend {
    /// A process without a terminal.
    #[default]
    Process,
    /// The process of a pane in our own tmux.
    Tmux,
}

impl WorkerBackend {
    /// The word in files and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Tmux => "tmux",
        }
    }
}

/// What a worker is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerSpec {
    /// Its team.
    pub team: TeamName,
    /// Its name.
    pub worker: WorkerName,
    /// Its provider, as the user wrote it.
    pub provider: String,
    /// Its model.
    #[serde(default)]
    pub model: Option<String>,
    /// Whether it works in the project's own folder.
    #[serde(default)]
    pub in_place: bool,
    /// How it runs.
    #[serde(default)]
    pub backend: WorkerBackend,
}

/// A launch that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchRecord {
    /// What was started.
    #[serde(flatten)]
    pub wanted: WorkerSpec,
    /// The number that everything it started carries.
    pub launch: String,
    /// The bridge.
    pub process: ProcessId,
    /// When it began.
    pub started_at: Time,
    /// How often it was started anew since it last ended in order.
    #[serde(default)]
    pub restarts: u32,
}

fn folder(project: &Dir, team: &TeamName, make: bool) -> Result<Option<Dir>, FsError> {
    let step = |dir: &Dir, name: &str| {
        if make {
            dir.child_or_create(name).map(Some)
        } else {
            dir.child(name)
        }
    };
    let [first, rest @ ..] = layout::heartbeat_folders(team);
    let mut dir = step(project, first)?;
    for name in rest {
        dir = match dir {
            Some(dir) => step(&dir, name)?,
            None => return Ok(None),
        };
    }
    Ok(dir)
}

/// Writes the record of a launch.
pub fn write(project: &Dir, record: &LaunchRecord) -> Result<(), FsError> {
    let Some(dir) = folder(project, &record.wanted.team, true)? else {
        return Ok(());
    };
    let bytes = serde_json::to_vec_pretty(record).unwrap_or_default();
    dir.replace(
        &layout::launch_file(&record.wanted.worker),
        &bytes,
        Sync::Durable,
    )
}

/// Takes the record of this launch away; that of a later one stays.
pub fn remove(
    project: &Dir,
    team: &TeamName,
    worker: &WorkerName,
    launch: &str,
) -> Result<(), FsError> {
    let is_it = read(project, team, worker)?.is_some_and(|record| record.launch == launch);
    if is_it && let Some(dir) = folder(project, team, false)? {
        dir.remove(&layout::launch_file(worker))?;
    }
    Ok(())
}

/// The record of a worker; `None` when there is none that can be read.
pub fn read(
    project: &Dir,
    team: &TeamName,
    worker: &WorkerName,
) -> Result<Option<LaunchRecord>, FsError> {
    let Some(dir) = folder(project, team, false)? else {
        return Ok(None);
    };
    let found = dir.read(&layout::launch_file(worker))?;
    Ok(found.and_then(|(bytes, _)| serde_json::from_slice(&bytes).ok()))
}

/// Every record of a team.
pub fn all(project: &Dir, team: &TeamName) -> Result<Vec<LaunchRecord>, FsError> {
    let mut found = Vec::new();
    let Some(dir) = folder(project, team, false)? else {
        return Ok(found);
    };
    for entry in dir.entries()? {
        if let Some(worker) = layout::worker_of_launch(&entry.name)
            && let Some((bytes, _)) = dir.read(&entry.name)?
            && let Ok(record) = serde_json::from_slice::<LaunchRecord>(&bytes)
            && record.wanted.worker == worker
        {
            found.push(record);
        }
    }
    found.sort_by(|a, b| a.wanted.worker.cmp(&b.wanted.worker));
    Ok(found)
}
