//! Decides which worker may claim which task.

use std::time::Duration;

use teamster_fs::OrTrace as _;
use teamster_journal::payload::TaskChange;
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_types::graph::Blocker;
use teamster_types::health::{self, Limits, Verdict};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::paths::{Reservations, may_overlap};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::routing::{self, RoutingCandidate};
use teamster_types::task::{Status, Task, Token};
use teamster_types::team::TeamMember;
use teamster_types::transitions::{self, Takeover, TaskEdit};
use teamster_types::{TaskId, Time, WorkerName};

use super::{known_failure, must_open, no_task};
use crate::backend::{Candidates, Txn};
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::store::{ClaimRequest, Claimed};

pub(super) fn claim(tx: &mut dyn Txn, request: &ClaimRequest) -> Result<Option<Claimed>> {
    refuse_quarantined(tx, &request.worker)?;
    match &request.id {
        Some(id) => claim_by_id(tx, id, request).map(Some),
        None => claim_next(tx, request),
    }
}

/// Claims the requested task, or returns why it cannot be claimed.
fn claim_by_id(tx: &mut dyn Txn, id: &TaskId, request: &ClaimRequest) -> Result<Claimed> {
    if tx.read_task(id)?.is_none() {
        return Err(no_task(tx.team(), id));
    }
    if !tx.lock_claim(id, &request.worker)? {
        return Err(
            StoreError::busy(format!("task {id} is being claimed by another worker"))
                .hint("`teamster task list --claimable` shows others"),
        );
    }
    let task = must_open(tx, id)?;
    let lost = lost_owners(tx)?;
    let task = release_from_lost_owner(tx, task, &lost)?.0;
    let mut task = take_over(tx, task, request, true)?.0;
    let mut reserved = ReservedPaths::default();
    check(tx, &task, &request.worker, &mut reserved)?;
    let overlaps = reserved.by_others(tx, &task)?;
    Ok(grant(tx, &mut task, request, &overlaps))
}

/// Claims the next task: tasks assigned to the worker first, then free ones, by ascending id.
fn claim_next(tx: &mut dyn Txn, request: &ClaimRequest) -> Result<Option<Claimed>> {
    let mut seeker = ClaimContext {
        request,
        reserved: ReservedPaths::default(),
        capabilities: capabilities_of(tx, &request.worker)?,
        lost: if tx.has_assigned()? {
            lost_owners(tx)?
        } else {
            Vec::new()
        },
    };
    loop {
        for which in [Candidates::Own, Candidates::Free] {
            let mut after = None;
            while let Some(id) = tx.next_candidate(
                which,
                &request.worker,
                &seeker.capabilities,
                &seeker.lost,
                after.as_ref(),
            )? {
                if let Some(claimed) = try_candidate(tx, &id, &mut seeker)? {
                    return Ok(Some(claimed));
                }
                after = Some(id);
            }
        }
        // Rescan for changes by foreign programs before reporting that there is nothing to do.
        if !tx.refresh()? {
            return Ok(None);
        }
        seeker.reserved = ReservedPaths::default();
    }
}

/// The worker that looks for work, and what is known about it before any task is read.
struct ClaimContext<'a> {
    request: &'a ClaimRequest,
    reserved: ReservedPaths,
    capabilities: Vec<String>,
    /// Workers whose assigned tasks are free, because they are dead or quarantined.
    lost: Vec<WorkerName>,
}

/// Claims one candidate, unless this worker may not have it now.
fn try_candidate(
    tx: &mut dyn Txn,
    id: &TaskId,
    seeker: &mut ClaimContext<'_>,
) -> Result<Option<Claimed>> {
    let request = seeker.request;
    // A damaged file, or one that another program has locked, must not keep the worker from the other tasks.
    let Some(task) = skip_unreadable(tx.read_task(id))?.flatten() else {
        return Ok(None);
    };
    let task = without_lost_owner(&task, &seeker.lost)?.unwrap_or(task);
    if !may_suit(tx, &task, request, &mut seeker.reserved)?
        || !may_pull(tx, &task, &request.worker, &seeker.capabilities)?
    {
        return Ok(None);
    }
    if !skip_unreadable(tx.lock_claim(id, &request.worker))?.unwrap_or(false) {
        return Ok(None);
    }
    let Some(task) = skip_unreadable(tx.open(id))?.flatten() else {
        tx.unlock_claim(id)?;
        return Ok(None);
    };
    let (task, freed) = release_from_lost_owner(tx, task, &seeker.lost)?;
    let (mut task, taken) = take_over(tx, task, request, false)?;
    let refused = check(tx, &task, &request.worker, &mut seeker.reserved).is_err();
    if task.is_internal() || refused {
        if freed || taken {
            tx.put(task);
        }
        tx.unlock_claim(id)?;
        return Ok(None);
    }
    let overlaps = seeker.reserved.by_others(tx, &task)?;
    Ok(Some(grant(tx, &mut task, request, &overlaps)))
}

/// Returns the dead and quarantined workers, whose assigned tasks are free. A worker without a heartbeat is never among
/// them: a missing file proves nothing.
fn lost_owners(tx: &mut dyn Txn) -> Result<Vec<WorkerName>> {
    let beats = tx.heartbeats()?;
    let lost = beats
        .into_iter()
        .filter(|beat| matches!(verdict(tx, beat), Verdict::Dead | Verdict::Quarantined));
    Ok(lost.map(|beat| beat.worker_name).collect())
}

fn verdict(tx: &dyn Txn, beat: &Heartbeat) -> Verdict {
    let life = |process: &ProcessId| tx.process_state(process);
    health::judge(tx.now(), Some(beat), None, life, &Limits::default()).verdict
}

fn refuse_quarantined(tx: &mut dyn Txn, worker: &WorkerName) -> Result<()> {
    let beat = tx.heartbeat(worker)?;
    if beat.is_some_and(|beat| verdict(tx, &beat) == Verdict::Quarantined) {
        return Err(StoreError::conflict(format!(
            "worker {worker} is quarantined and takes no task"
        ))
        .hint("`teamster worker list` shows why"));
    }
    Ok(())
}

/// Returns the task without its owner, if the owner is lost.
fn without_lost_owner(task: &Task, lost: &[WorkerName]) -> Result<Option<Task>> {
    let owner = task.owner().unwrap_or_default();
    let is_lost = lost.iter().any(|worker| worker.as_str() == owner);
    if task.status() != Status::Pending || !is_lost {
        return Ok(None);
    }
    let mut free = task.clone();
    transitions::edit(
        &mut free,
        &TaskEdit {
            owner: Some(None),
            ..TaskEdit::default()
        },
    )?;
    Ok(Some(free))
}

/// Frees a task from a lost owner; true when it had one.
fn release_from_lost_owner(
    tx: &mut dyn Txn,
    task: Task,
    lost: &[WorkerName],
) -> Result<(Task, bool)> {
    let Some(free) = without_lost_owner(&task, lost)? else {
        return Ok((task, false));
    };
    let change =
        TaskChange::between(Some(&task), Some(&free)).reason("its owner is dead or quarantined");
    tx.event(NewEvent::new(EventActor::System, EventKind::TaskUpdated(change)).task(task.id()));
    Ok((free, true))
}

/// Turns an error that concerns only this candidate into `None`.
fn skip_unreadable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if error.busy
                || matches!(error.kind, StoreErrorKind::Failed | StoreErrorKind::Refused) =>
        {
            Ok(Err(error).ok_or_trace("claim a task"))
        }
        Err(error) => Err(error),
    }
}

/// Checks cheaply whether the task may be claimed, before any lock is taken.
fn may_suit(
    tx: &mut dyn Txn,
    task: &Task,
    request: &ClaimRequest,
    reserved: &mut ReservedPaths,
) -> Result<bool> {
    if task.is_internal() {
        return Ok(false);
    }
    match task.status() {
        Status::Completed => Ok(false),
        Status::InProgress => Ok(takeover(tx, task, request, false)? != Takeover::No),
        Status::Pending => Ok(check(tx, task, &request.worker, reserved).is_ok()),
    }
}

fn check(
    tx: &mut dyn Txn,
    task: &Task,
    worker: &WorkerName,
    reserved: &mut ReservedPaths,
) -> Result<()> {
    let now = tx.now();
    let mut failed = None;
    let checked =
        transitions::check_claimable(task, worker, now, |blocker| {
            match skip_unreadable(tx.read_task(blocker)) {
                Ok(found) => Blocker::of(found.flatten().as_ref()),
                Err(error) => {
                    failed = Some(error);
                    Blocker::Missing
                }
            }
        });
    if let Some(error) = failed {
        return Err(error);
    }
    checked?;
    match reserved.by_others(tx, task)?.first() {
        Some(other) if tx.reservations() == Reservations::Enforce => {
            Err(StoreError::conflict(format!(
                "task {} may change the same files as task {other}, which is being worked on",
                task.id()
            ))
            .hint("it can be claimed when that one is done; `teamster task list --claimable` shows others"))
        }
        _ => Ok(()),
    }
}

fn takeover(
    tx: &mut dyn Txn,
    task: &Task,
    request: &ClaimRequest,
    by_id: bool,
) -> Result<Takeover> {
    let Some(claim) = task.claim() else {
        return Ok(Takeover::No);
    };
    let life = tx.process_state(&claim.process());
    let fresh = life == ProcessState::Gone && has_fresh_heartbeat(tx, &claim.worker)?;
    Ok(transitions::takeover(
        task,
        &request.worker,
        by_id,
        life,
        fresh,
        tx.now(),
    ))
}

fn has_fresh_heartbeat(tx: &mut dyn Txn, worker: &WorkerName) -> Result<bool> {
    let beat = tx.heartbeat(worker)?;
    Ok(beat.is_some_and(|beat| beat.is_fresh(tx.now(), transitions::HEARTBEAT_FRESH)))
}

/// Takes over a task in progress from a dead worker, if that is allowed; otherwise leaves it as it is.
fn take_over(
    tx: &mut dyn Txn,
    task: Task,
    request: &ClaimRequest,
    by_id: bool,
) -> Result<(Task, bool)> {
    if task.status() != Status::InProgress {
        return Ok((task, false));
    }
    match takeover(tx, &task, request, by_id)? {
        Takeover::No => Ok((task, false)),
        Takeover::Restarted => {
            let mut free = task.clone();
            transitions::release(&mut free, None)?;
            let change = TaskChange::between(Some(&task), Some(&free))
                .reason("its worker was restarted and the process that claimed it is gone");
            let released = EventKind::TaskReleased(change);
            tx.event(NewEvent::new(request.worker.as_str(), released).task(task.id()));
            Ok((free, true))
        }
        Takeover::WorkerDead(reason) => {
            Ok((put_back(tx, &EventActor::System, &task, &reason)?, true))
        }
    }
}

/// Ends the attempt of a dead worker. The caller must store the returned task.
fn put_back(tx: &mut dyn Txn, actor: &EventActor, task: &Task, reason: &str) -> Result<Task> {
    let before = known_failure(tx, task)?;
    let mut free = task.clone();
    let failure = transitions::requeue(&mut free, before.as_ref(), reason, tx.now());
    let change = TaskChange::between(Some(task), Some(&free))
        .reason(reason)
        .failure(Some(&failure));
    let what = if failure.is_final() {
        EventKind::TaskFailed(change)
    } else {
        EventKind::TaskRequeued(change)
    };
    tx.event(NewEvent::new(actor, what).task(task.id()));
    tx.put_failure(task.id(), Some(failure));
    Ok(free)
}

/// Requeues the task of a worker that is proven dead, although its lease is still valid.
///
/// A worker without a heartbeat is never declared dead: a script may claim a task, exit, and complete it later. For
/// such a worker only the lease counts.
pub(super) fn requeue(tx: &mut dyn Txn, actor: &EventActor, id: &TaskId) -> Result<Task> {
    let task = must_open(tx, id)?;
    let Some(claim) = task.claim().filter(|_| task.status() == Status::InProgress) else {
        return Err(StoreError::conflict(format!(
            "task {id} is not in progress"
        )));
    };
    let beat = tx.heartbeat(&claim.worker)?;
    let is_dead = beat.is_some_and(|beat| verdict(tx, &beat) == Verdict::Dead);
    if !is_dead || tx.process_state(&claim.process()) != ProcessState::Gone {
        return Err(StoreError::conflict(format!(
            "worker {} of task {id} is not proven dead",
            claim.worker
        ))
        .hint(
            "`teamster worker list` shows what is known; `teamster task release --force` releases it anyway",
        ));
    }
    let reason = format!(
        "worker {} died: process {} is gone",
        claim.worker, claim.pid
    );
    let free = put_back(tx, actor, &task, &reason)?;
    tx.put(free.clone());
    Ok(free)
}

fn grant(
    tx: &mut dyn Txn,
    task: &mut Task,
    request: &ClaimRequest,
    overlaps: &[TaskId],
) -> Claimed {
    let before = task.clone();
    let proof = (Token::new(tx.random()), tx.random());
    let (now, me) = (tx.now(), tx.me());
    let lease = request.lease.unwrap_or_else(|| tx.lease());
    let claim = transitions::claim(task, &request.worker, proof, me, now, lease);
    tx.put(task.clone());
    let change = TaskChange::between(Some(&before), Some(task))
        .fence(task.fence())
        .overlaps(overlaps);
    let claimed = EventKind::TaskClaimed(change);
    tx.event(NewEvent::new(request.worker.as_str(), claimed).task(task.id()));
    Claimed {
        fence: task.fence(),
        leased_until: claim.leased_until,
        token: claim.token,
        task: task.clone(),
    }
}

pub(super) fn renew(
    tx: &mut dyn Txn,
    id: &TaskId,
    token: &Token,
    lease: Option<Duration>,
) -> Result<Claimed> {
    let mut task = must_open(tx, id)?;
    let lease = lease.unwrap_or_else(|| tx.lease());
    let claim = transitions::renew(&mut task, token, tx.now(), lease)?;
    tx.put_unjournalled(task.clone())?;
    Ok(Claimed {
        fence: task.fence(),
        leased_until: claim.leased_until,
        token: claim.token,
        task,
    })
}

/// Returns a worker's capabilities: those in the registry, else the defaults of its provider. A worker that is not a
/// member is a generalist.
fn capabilities_of(tx: &mut dyn Txn, worker: &WorkerName) -> Result<Vec<String>> {
    let member = tx.config()?.member(worker.as_str());
    Ok(member.map_or_else(
        || default_capabilities(""),
        |member| member_capabilities(&member),
    ))
}

fn default_capabilities(provider: &str) -> Vec<String> {
    routing::default_capabilities(provider)
        .iter()
        .map(|name| (*name).to_owned())
        .collect()
}

fn member_capabilities(member: &TeamMember) -> Vec<String> {
    match &member.capabilities {
        Some(list) => list.clone(),
        None => default_capabilities(&member.provider),
    }
}

/// Returns whether routing lets this worker take the task: it is capable, and no idle worker is better suited.
fn may_pull(
    tx: &mut dyn Txn,
    task: &Task,
    worker: &WorkerName,
    capabilities: &[String],
) -> Result<bool> {
    let required = task.capabilities();
    if required.is_empty() || task.owner() == Some(worker.as_str()) {
        return Ok(true);
    }
    let waited = tx.now().since(free_since(tx, task)?);
    let config = tx.config()?;
    let beats = tx.heartbeats()?;
    let now = tx.now();
    let mut candidates: Vec<RoutingCandidate> = Vec::new();
    for member in config.members() {
        let Ok(name) = member.name.parse::<WorkerName>() else {
            continue;
        };
        let beat = beats.iter().find(|beat| beat.worker_name == name);
        let fresh = beat.is_some_and(|beat| beat.is_fresh(now, transitions::HEARTBEAT_FRESH));
        let idle = beat.is_some_and(|beat| beat.current_task_id.is_none());
        let out = match beat {
            _ if name == *worker => None,
            _ if !fresh => Some("no fresh heartbeat".to_owned()),
            Some(beat) if beat.consecutive_errors >= 3 => Some("quarantined".to_owned()),
            Some(beat) => beat.limit.as_ref().map(|limit| limit.phrase().to_string()),
            None => None,
        };
        candidates.push(RoutingCandidate {
            idle: idle || name == *worker,
            in_progress: u32::from(!idle && name != *worker),
            capabilities: member_capabilities(&member),
            name,
            out,
        });
    }
    if !candidates.iter().any(|candidate| candidate.name == *worker) {
        candidates.push(RoutingCandidate {
            name: worker.clone(),
            capabilities: capabilities.to_vec(),
            in_progress: 0,
            idle: true,
            out: None,
        });
    }
    Ok(routing::may_pull(worker, &required, &candidates, waited))
}

/// Returns since when the task could be claimed: its creation, the end of its retry delay, or the completion of its
/// last blocker.
fn free_since(tx: &mut dyn Txn, task: &Task) -> Result<Time> {
    let mut since = Time::from_millis(0);
    for moment in [task.created_at(), task.not_before()] {
        since = since.max(moment.unwrap_or(since));
    }
    for blocker in task.blocked_by() {
        if let Some(done) = skip_unreadable(tx.read_task(blocker))?.flatten() {
            since = since.max(done.completed_at().unwrap_or(since));
        }
    }
    Ok(since)
}

/// The paths of the tasks in progress. They are read on first use, because most tasks name no paths.
#[derive(Default)]
struct ReservedPaths {
    tasks: Option<Vec<(TaskId, Vec<String>)>>,
}

impl ReservedPaths {
    /// Returns the tasks in progress that may change the same files as `task`.
    fn by_others(&mut self, tx: &mut dyn Txn, task: &Task) -> Result<Vec<TaskId>> {
        let paths = task.paths();
        if paths.is_empty() || tx.reservations() == Reservations::Off {
            return Ok(Vec::new());
        }
        let tasks = match self.tasks.take() {
            Some(tasks) => tasks,
            None => reserved_paths(tx)?,
        };
        let tasks = self.tasks.insert(tasks);
        let others = tasks
            .iter()
            .filter(|(id, theirs)| id != task.id() && may_overlap(&paths, theirs));
        Ok(others.map(|(id, _)| id.clone()).collect())
    }
}

/// Returns the tasks in progress that name paths, with their paths.
fn reserved_paths(tx: &mut dyn Txn) -> Result<Vec<(TaskId, Vec<String>)>> {
    let mut found = Vec::new();
    for id in tx.in_progress()? {
        // The paths of an unreadable task are unknown, so it reserves nothing.
        let Ok(Some(task)) = tx.read_task(&id) else {
            continue;
        };
        let paths = task.paths();
        if task.status() == Status::InProgress && !paths.is_empty() {
            found.push((id, paths));
        }
    }
    Ok(found)
}
