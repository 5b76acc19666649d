//! What is done about a worker that is dead: whatever it left running is ended, its tasks go back, and its worktree
//! stays as it is.

use teamster_fs::proc::Machine;
use teamster_fs::{Dir, FsError};
use teamster_isolate::tree::{StillThere, Tree};
use teamster_store::{Store, StoreError};
use teamster_types::event::NewEvent;
use teamster_types::health::{self, Assessment, Limits, Verdict};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::process::Life;
use teamster_types::task::Status;
use teamster_types::{TaskId, TeamName, WorkerName};

use crate::record::{self, Record};
use crate::temp;

/// What was done.
#[derive(Debug, Default)]
pub struct Buried {
    /// Tasks that went back.
    pub tasks: Vec<TaskId>,
    /// Processes that were still running.
    pub ended: usize,
    /// Processes that could not be ended.
    pub left: Option<StillThere>,
}

/// Judges a worker by its heartbeat, or by the record of its launch when there is none.
pub fn assess(
    store: &dyn Store,
    beat: Option<&Heartbeat>,
    record: Option<&Record>,
    limits: &Limits,
) -> Assessment {
    let process = match beat {
        Some(beat) => beat.process(),
        None => record.map(|record| record.process.clone()),
    };
    let life = process.map_or(Life::Unknown, |process| store.life(&process));
    health::assess(store.now(), beat, life, limits)
}

/// Ends what a dead worker left running, and gives its tasks back.
///
/// Two may do this at once: every step is refused or finds nothing the second time.
pub fn bury(
    store: &dyn Store,
    machine: &Machine,
    team: &TeamName,
    worker: &WorkerName,
    launch: Option<&str>,
    actor: &str,
) -> Result<Buried, StoreError> {
    let mut buried = Buried::default();
    if let Some(launch) = launch {
        let tree = Tree::of_launch(machine, launch, None);
        buried.ended = tree.members().len();
        if buried.ended > 0 {
            buried.left = tree.end(std::time::Duration::from_secs(2)).err();
        }
        temp::remove(launch);
    }
    for task in store.tasks(team)?.tasks {
        let is_theirs = task.status() == Status::InProgress
            && task.claim().is_some_and(|claim| claim.worker == *worker);
        if is_theirs && store.requeue(team, actor, task.id()).is_ok() {
            buried.tasks.push(task.id().clone());
        }
    }
    Ok(buried)
}

/// Buries every worker of a team that is dead and has something left to bury; who that was. For workers that have
/// nothing else to do: a team without a host still loses no task.
pub fn bury_all(
    store: &dyn Store,
    machine: &Machine,
    team: &TeamName,
    actor: &str,
) -> Result<Vec<WorkerName>, StoreError> {
    let (beats, _) = store.heartbeats(team)?;
    let mut found = Vec::new();
    for beat in beats {
        let assessment = assess(store, Some(&beat), None, &Limits::default());
        if assessment.verdict != Verdict::Dead {
            continue;
        }
        let launch = beat.launch.as_deref();
        let buried = bury(store, machine, team, &beat.worker_name, launch, actor)?;
        if buried.ended > 0 || !buried.tasks.is_empty() {
            let event = NewEvent::new("worker.dead", actor)
                .with("worker", &beat.worker_name)
                .with("evidence", &assessment.evidence)
                .with("tasks", &buried.tasks)
                .with("endedProcesses", buried.ended);
            store.record(team, event)?;
            found.push(beat.worker_name);
        }
    }
    Ok(found)
}

/// Forgets a worker that is gone: no heartbeat, no record.
pub fn forget(
    store: &dyn Store,
    project: &Dir,
    team: &TeamName,
    worker: &WorkerName,
) -> Result<(), StoreError> {
    store.end_beat(team, worker)?;
    let drop_record = || -> Result<(), FsError> {
        if let Some(record) = record::read(project, team, worker)? {
            record::remove(project, team, worker, &record.launch)?;
        }
        Ok(())
    };
    drop_record().map_err(Into::into)
}
