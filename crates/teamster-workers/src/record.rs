//! The files of a worker's launch: its record and its lock.
//!
//! The record holds what is needed to find a worker's processes again and to restart it. The bridge writes it when it
//! starts and removes it when it ends in order, so a leftover record belongs to a worker that crashed, still runs, hung
//! and is to be started again by its supervisor, or left with a task that it could not give back.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use teamster_fs::{Dir, Durability, FsError, Lock, LockWait, OrTrace as _, layout};
use teamster_types::process::ProcessId;
use teamster_types::{TeamName, Time, WorkerName};

/// How long to wait for the lock, because a process that only checks whether it is free holds it for a moment.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// How a worker's process is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerBackend {
    /// A process without a terminal.
    #[default]
    Process,
    /// The process of a pane in teamster's own tmux server.
    Tmux,
}

impl WorkerBackend {
    /// Returns the word for the backend in files and output.
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
    /// The worker's team.
    pub team: TeamName,
    /// The worker's name.
    pub worker: WorkerName,
    /// The provider of its agent, as the user wrote it.
    pub provider: String,
    /// The model of its agent, or `None` for the client's own choice.
    #[serde(default)]
    pub model: Option<String>,
    /// Whether it works in the project's own folder instead of a worktree.
    #[serde(default)]
    pub in_place: bool,
    /// How its process is run.
    #[serde(default)]
    pub backend: WorkerBackend,
    /// The address of the repository that its work is exchanged through, for a worker on another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
}

/// The record of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchRecord {
    /// What the worker was started with.
    #[serde(flatten)]
    pub spec: WorkerSpec,
    /// The id of the launch, which all processes that the worker started carry.
    pub launch: String,
    /// The bridge's process.
    pub process: ProcessId,
    /// When the bridge started.
    pub started_at: Time,
    /// How often the worker was restarted in a row. Ten minutes of health end the row.
    #[serde(default)]
    pub restarts: u32,
    /// Whether a person ended it by force, or it was stopped and could not give its task back. Its tasks are taken back, but
    /// its supervisor does not start it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_dismissed: bool,
}

/// Returns the folder of a team's records, or `None` when there is none yet.
fn folder(project: &Dir, team: &TeamName) -> Result<Option<Dir>, FsError> {
    project.descend(&layout::heartbeat_folders(team))
}

/// Writes the record of a launch.
pub fn write(project: &Dir, record: &LaunchRecord) -> Result<(), FsError> {
    let dir = project.descend_or_create(&layout::heartbeat_folders(&record.spec.team))?;
    let name = layout::launch_file(&record.spec.worker);
    let bytes = serde_json::to_vec_pretty(record).unwrap_or_default();
    dir.replace(&name, &bytes, Durability::Durable)
}

/// Removes the record of this launch; the record of a later launch stays.
pub fn remove(
    project: &Dir,
    team: &TeamName,
    worker: &WorkerName,
    launch: &str,
) -> Result<(), FsError> {
    let is_it = read(project, team, worker)?.is_some_and(|record| record.launch == launch);
    if is_it && let Some(dir) = folder(project, team)? {
        dir.remove(&layout::launch_file(worker))?;
    }
    Ok(())
}

/// Notes in the record of this launch that the worker must not be started again; the record of a later launch stays as
/// it is. This needs no lock.
pub fn dismiss(
    project: &Dir,
    team: &TeamName,
    worker: &WorkerName,
    launch: &str,
) -> Result<(), FsError> {
    let record = read(project, team, worker)?.filter(|record| record.launch == launch);
    let Some(mut record) = record else {
        return Ok(());
    };
    record.is_dismissed = true;
    write(project, &record)
}

/// Returns the record of a worker, or `None` when there is none that can be read.
pub fn read(
    project: &Dir,
    team: &TeamName,
    worker: &WorkerName,
) -> Result<Option<LaunchRecord>, FsError> {
    let Some(dir) = folder(project, team)? else {
        return Ok(None);
    };
    let found = dir.read(&layout::launch_file(worker))?;
    Ok(found.and_then(|(bytes, _)| {
        serde_json::from_slice(&bytes).ok_or_trace("parse the record of a launch")
    }))
}

/// Returns every record of a team, by worker.
pub fn all(project: &Dir, team: &TeamName) -> Result<Vec<LaunchRecord>, FsError> {
    let mut found = Vec::new();
    let Some(dir) = folder(project, team)? else {
        return Ok(found);
    };
    for entry in dir.entries()? {
        if let Some(worker) = layout::worker_of_launch(&entry.name)
            && let Some((bytes, _)) = dir.read(&entry.name)?
            && let Ok(record) = serde_json::from_slice::<LaunchRecord>(&bytes)
            && record.spec.worker == worker
        {
            found.push(record);
        }
    }
    found.sort_by(|a, b| a.spec.worker.cmp(&b.spec.worker));
    Ok(found)
}

/// A worker's lock: its holder is that worker, and no other process touches its worktree, its record or its tasks. The
/// kernel releases the lock when the holder dies.
#[derive(Debug)]
pub struct WorkerLock {
    _lock: Lock,
}

impl WorkerLock {
    /// Takes the lock of a worker in its team's folder, or returns `None` when another process is this worker.
    pub fn take(team_folder: &Dir, worker: &WorkerName) -> Result<Option<Self>, FsError> {
        let name = layout::bridge_lock(worker);
        Ok(match Lock::wait(team_folder, &name, LOCK_TIMEOUT, false)? {
            LockWait::Held(lock) => Some(Self { _lock: lock }),
            LockWait::TimedOut => None,
        })
    }

    /// Returns whether a process holds the worker's lock now. No lock file is created by the check.
    pub fn is_taken(team_folder: &Dir, worker: &WorkerName) -> Result<bool, FsError> {
        if team_folder.stamp(&layout::bridge_lock(worker))?.is_none() {
            return Ok(false);
        }
        Ok(Self::take(team_folder, worker)?.is_none())
    }
}
