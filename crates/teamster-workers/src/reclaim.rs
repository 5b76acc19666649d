//! Reclaims what a dead worker holds: its leftover processes are ended, its tasks are requeued, and its worktree is left
//! untouched.

use std::collections::BTreeSet;
use std::time::Duration;

use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_isolate::process_tree::{ProcessTree, SurvivingProcesses};
use teamster_journal::payload::WorkerVerdict;
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_store::{Store, StoreError, StoreErrorKind};
use teamster_types::health::{self, Assessment, Limits, Verdict};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::process::ProcessId;
use teamster_types::task::{Claim, Status};
use teamster_types::{TaskId, TeamName, WorkerName};

use crate::alerts::EndAlerts;
use crate::process;
use crate::record::{self, LaunchRecord};

/// How long processes that were asked to exit have before they are killed.
const GRACE: Duration = Duration::from_secs(2);

/// What was reclaimed from a dead worker.
#[derive(Debug, Default)]
pub struct Reclaimed {
    /// The tasks that were requeued.
    pub tasks: Vec<TaskId>,
    /// The number of processes that were still running and were ended.
    pub ended: usize,
    /// The processes that could not be ended.
    pub left: Option<SurvivingProcesses>,
}

impl Reclaimed {
    /// Returns the journal's verdict on a worker that was found dead.
    fn verdict(&self, worker: &WorkerName, evidence: &[Phrase]) -> WorkerVerdict {
        WorkerVerdict {
            worker: Some(worker.to_string()),
            verdict: Verdict::Dead.as_str().to_owned(),
            evidence: Phrase::texts(evidence),
            evidence_codes: Phrase::keys(evidence).into(),
            tasks: Some(self.tasks.clone()),
            ended_processes: Some(self.ended),
            reason: None,
        }
    }
}

/// Judges a worker by its heartbeat, or by the record of its launch when there is none.
pub fn assess(
    store: &dyn Store,
    beat: Option<&Heartbeat>,
    record: Option<&LaunchRecord>,
    limits: &Limits,
) -> Assessment {
    let recorded = record.map(|record| &record.process);
    health::judge(
        store.now(),
        beat,
        recorded,
        |process| store.process_state(process),
        limits,
    )
}

/// Ends the processes that a dead worker left running, and requeues its tasks.
///
/// Two processes may do this at the same time: the second one's steps are refused or find nothing left to do.
pub fn reclaim(
    store: &dyn Store,
    machine: &Machine,
    team: &TeamName,
    worker: &WorkerName,
    launch: Option<&str>,
    actor: &EventActor,
) -> Result<Reclaimed, StoreError> {
    let mut reclaimed = Reclaimed::default();
    if let Some(launch) = launch {
        let tree = ProcessTree::of_launch(machine, launch, None);
        reclaimed.ended = tree.members().len();
        if reclaimed.ended > 0 {
            reclaimed.left = tree.end(GRACE).err();
        }
        tree.forget();
        process::remove_temp_folder(launch);
    }
    let mut refused = None;
    for (task, _) in held_tasks(store, team, worker)? {
        match store.requeue(team, actor, &task) {
            Ok(_) => reclaimed.tasks.push(task),
            Err(error) => {
                tracing::warn!("cannot requeue task {task} of a dead worker: {error}");
                if error.kind == StoreErrorKind::Unreachable && !error.busy {
                    refused.get_or_insert(error);
                }
            }
        }
    }
    match refused {
        // Nobody could take a task back, and the team would wait for it without a word.
        Some(error) if reclaimed.tasks.is_empty() => Err(error),
        _ => Ok(reclaimed),
    }
}

/// Returns the tasks that a worker holds, each with its claim.
pub(crate) fn held_tasks(
    store: &dyn Store,
    team: &TeamName,
    worker: &WorkerName,
) -> Result<Vec<(TaskId, Claim)>, StoreError> {
    // Every worker that leaves asks this, and usually no task is in progress any more.
    if store.work_left(team)?.in_progress == 0 {
        return Ok(Vec::new());
    }
    let tasks = store.tasks(team)?.tasks.into_iter();
    Ok(tasks
        .filter(|task| task.status() == Status::InProgress)
        .filter_map(|task| Some((task.id().clone(), task.claim()?)))
        .filter(|(_, claim)| claim.worker == *worker)
        .collect())
}

/// Reclaims what every dead worker of a team holds, and returns the workers that held anything. Idle workers call this, so
/// that a team without a host loses no task either.
pub fn reclaim_all(
    store: &dyn Store,
    machine: &Machine,
    team: &TeamName,
    actor: &EventActor,
    alerts: &EndAlerts,
) -> Result<Vec<WorkerName>, StoreError> {
    let (beats, _) = store.heartbeats(team)?;
    let mut found = Vec::new();
    for beat in beats {
        let assessment = assess(store, Some(&beat), None, &Limits::default());
        if assessment.verdict != Verdict::Dead {
            continue;
        }
        let launch = beat.launch.as_deref();
        let reclaimed = reclaim(store, machine, team, &beat.worker_name, launch, actor)?;
        if reclaimed.ended > 0 || !reclaimed.tasks.is_empty() {
            if let Some(launch) = launch {
                alerts.record(team, &beat.worker_name, launch, store.now());
            }
            let reclaim = reclaimed.verdict(&beat.worker_name, &assessment.evidence);
            store.record(team, NewEvent::new(actor, EventKind::WorkerDead(reclaim)))?;
            found.push(beat.worker_name);
        }
    }
    Ok(found)
}

/// Ends the processes that earlier launches of a worker left running, and releases their tasks.
///
/// The caller holds the worker's lock, so the earlier bridges are gone, however recent their last heartbeat is. This must
/// happen before the new bridge replaces their heartbeat and record, because nothing else points to what they left.
pub fn reclaim_predecessor(
    store: &dyn Store,
    machine: &Machine,
    project: &Dir,
    team: &TeamName,
    worker: &WorkerName,
    alerts: &EndAlerts,
) -> Result<Reclaimed, StoreError> {
    let record = record::read(project, team, worker)?;
    let (beats, _) = store.heartbeats(team)?;
    let beat = beats.into_iter().find(|beat| beat.worker_name == *worker);
    let recorded = record.as_ref().map(|record| record.launch.clone());
    let launches: BTreeSet<String> = record
        .iter()
        .map(|record| record.launch.clone())
        .chain(beat.iter().filter_map(|beat| beat.launch.clone()))
        .collect();
    let processes: Vec<ProcessId> = record
        .map(|record| record.process)
        .into_iter()
        .chain(beat.and_then(|beat| beat.process()))
        .collect();
    let mut reclaimed = Reclaimed::default();
    for launch in &launches {
        let tree = ProcessTree::of_launch(machine, launch, None);
        let count = tree.members().len();
        reclaimed.ended += count;
        if count > 0
            && let Err(still) = tree.end(GRACE)
        {
            reclaimed.left = Some(still);
            return Ok(reclaimed);
        }
        process::remove_temp_folder(launch);
    }
    // A record that is still there proves a crash, or that a supervisor ended a hung worker: an orderly end removes it.
    if let Some(launch) = &recorded {
        alerts.record(team, worker, launch, store.now());
    }
    reclaimed.tasks = release_tasks(store, team, worker, &processes)?;
    if reclaimed.ended > 0 || !reclaimed.tasks.is_empty() {
        let reclaim = reclaimed.verdict(worker, &[Phrase::new(PhraseCode::SeatTaken, [])]);
        let event = NewEvent::new(worker.as_str(), EventKind::WorkerDead(reclaim));
        store.record(team, event)?;
    }
    Ok(reclaimed)
}

/// Releases the tasks that these processes of a worker claimed. The processes are gone. Tasks that another process claimed
/// in the worker's name stay claimed, and so do tasks that were taken over in the meantime.
pub(crate) fn release_tasks(
    store: &dyn Store,
    team: &TeamName,
    worker: &WorkerName,
    processes: &[ProcessId],
) -> Result<Vec<TaskId>, StoreError> {
    let mut given = Vec::new();
    for (task, claim) in held_tasks(store, team, worker)? {
        if !processes.contains(&claim.process()) {
            continue;
        }
        match store.release(team, &worker.into(), &task, Some(&claim.token)) {
            Ok(_) => given.push(task),
            Err(error) if error.is_decision() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(given)
}

/// Removes the heartbeat and the record of a launch that is over, and the worker's membership in a Claude Code team. What
/// belongs to a later launch of the same name stays.
pub fn remove_launch(
    store: &dyn Store,
    project: &Dir,
    team: &TeamName,
    worker: &WorkerName,
    launch: Option<&str>,
) -> Result<(), StoreError> {
    let (beats, _) = store.heartbeats(team)?;
    let beat = beats.iter().find(|beat| beat.worker_name == *worker);
    let is_later = beat.is_some_and(|beat| beat.launch.as_deref() != launch);
    if beat.is_some() && !is_later {
        store.remove_heartbeat(team, worker)?;
    }
    if let Some(launch) = launch {
        record::remove(project, team, worker, launch)?;
    }
    if !is_later {
        store.dismiss(team, &worker.into(), worker)?;
    }
    Ok(())
}
