//! How a claim ends: completed, failed or released; and how a failed task is retried.

use serde_json::Value;
use teamster_journal::payload::{MergeLost, TaskChange};
use teamster_journal::{EventActor, EventKind, NewEvent, payload};
use teamster_types::TaskId;
use teamster_types::task::{Task, Token};
use teamster_types::transitions;

use super::{known_failure, must_open};
use crate::backend::Txn;
use crate::error::Result;
use crate::store::{LostMerge, TaskMerge};

pub(super) fn complete(
    tx: &mut dyn Txn,
    id: &TaskId,
    token: &Token,
    result: Option<Value>,
) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    if transitions::complete(&mut task, token, result, tx.now())? {
        tx.put(task.clone());
        tx.event(
            NewEvent::new(
                owner(&before),
                EventKind::TaskCompleted(TaskChange::between(Some(&before), Some(&task))),
            )
            .task(id),
        );
    }
    Ok(task)
}

pub(super) fn fail(tx: &mut dyn Txn, id: &TaskId, token: &Token, error: &str) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    let known = known_failure(tx, &before)?;
    let failure = transitions::fail(&mut task, known.as_ref(), token, error, tx.now())?;
    tx.put(task.clone());
    let change = TaskChange::between(Some(&before), Some(&task))
        .error(error)
        .failure(Some(&failure));
    tx.event(NewEvent::new(owner(&before), EventKind::TaskFailed(change)).task(id));
    tx.put_failure(id, Some(failure));
    Ok(task)
}

pub(super) fn block(tx: &mut dyn Txn, id: &TaskId, token: &Token, reason: &str) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    let block = transitions::block(&mut task, token, reason, tx.now())?;
    tx.put(task.clone());
    let change = TaskChange::between(Some(&before), Some(&task)).reason(&block.reason);
    tx.event(NewEvent::new(owner(&before), EventKind::TaskBlocked(change)).task(id));
    Ok(task)
}

pub(super) fn unblock(
    tx: &mut dyn Txn,
    actor: &EventActor,
    id: &TaskId,
    answer: &str,
) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    transitions::answer_block(&mut task, actor.as_str(), answer, tx.now())?;
    tx.put(task.clone());
    let change = TaskChange::between(Some(&before), Some(&task)).reason(answer);
    tx.event(NewEvent::new(actor, EventKind::TaskUnblocked(change)).task(id));
    Ok(task)
}

pub(super) fn release(
    tx: &mut dyn Txn,
    actor: &EventActor,
    id: &TaskId,
    token: Option<&Token>,
) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    transitions::release(&mut task, token)?;
    let who = match token {
        Some(_) => owner(&before).into(),
        None => actor.clone(),
    };
    tx.put(task.clone());
    tx.event(
        NewEvent::new(
            who,
            EventKind::TaskReleased(TaskChange::between(Some(&before), Some(&task))),
        )
        .task(id),
    );
    Ok(task)
}

pub(super) fn retry(tx: &mut dyn Txn, actor: &EventActor, id: &TaskId) -> Result<Task> {
    let before = must_open(tx, id)?;
    let known = known_failure(tx, &before)?;
    let mut task = before.clone();
    transitions::retry(&mut task, known.as_ref())?;
    tx.put(task.clone());
    tx.put_failure(id, None);
    let change = TaskChange::between(Some(&before), Some(&task)).failure(None);
    tx.event(NewEvent::new(actor, EventKind::TaskRetried(change)).task(id));
    Ok(task)
}

pub(super) fn merged(
    tx: &mut dyn Txn,
    actor: &EventActor,
    id: &TaskId,
    merge: &TaskMerge,
) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    if transitions::merged(&mut task, merge.made.as_deref())? {
        tx.put(task.clone());
        let merged = payload::Merged {
            task: TaskChange::between(Some(&before), Some(&task)),
            worker: Some(owner(&before)),
            commit: Some(merge.commit.clone()),
            merge: merge.made.clone(),
            files: merge.files.clone(),
        };
        tx.event(NewEvent::new(actor, EventKind::MergeMerged(merged)).task(id));
    }
    Ok(task)
}

pub(super) fn unchanged(tx: &mut dyn Txn, actor: &EventActor, id: &TaskId) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    if transitions::unchanged(&mut task)? {
        tx.put(task.clone());
        tx.event(
            NewEvent::new(
                actor,
                EventKind::TaskUnchanged(
                    TaskChange::between(Some(&before), Some(&task)).worker(&owner(&before)),
                ),
            )
            .task(id),
        );
    }
    Ok(task)
}

pub(super) fn choose(
    tx: &mut dyn Txn,
    actor: &EventActor,
    id: &TaskId,
    is_chosen: bool,
) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    transitions::choose(&mut task, is_chosen)?;
    tx.put(task.clone());
    let change = TaskChange::between(Some(&before), Some(&task));
    tx.event(NewEvent::new(actor, EventKind::TaskUpdated(change)).task(id));
    Ok(task)
}

pub(super) fn merge_lost(
    tx: &mut dyn Txn,
    actor: &EventActor,
    id: &TaskId,
    lost: &LostMerge,
) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    if transitions::merge_lost(&mut task) {
        tx.put(task.clone());
        let lost = MergeLost {
            task: TaskChange::between(Some(&before), Some(&task)),
            worker: Some(owner(&before)),
            commit: lost.commit.clone(),
            head: Some(lost.head.clone()),
        };
        tx.event(NewEvent::new(actor, EventKind::MergeLost(lost)).task(id));
    }
    Ok(task)
}

pub(super) fn give_up(
    tx: &mut dyn Txn,
    actor: &EventActor,
    id: &TaskId,
    error: &str,
) -> Result<Task> {
    let before = must_open(tx, id)?;
    if before.is_failed() {
        return Ok(before);
    }
    let mut task = before.clone();
    let known = known_failure(tx, &before)?;
    let failure = transitions::give_up(&mut task, known.as_ref(), error, tx.now())?;
    tx.put(task.clone());
    let change = TaskChange::between(Some(&before), Some(&task))
        .error(error)
        .failure(Some(&failure));
    tx.event(NewEvent::new(actor, EventKind::TaskFailed(change)).task(id));
    tx.put_failure(id, Some(failure));
    Ok(task)
}

fn owner(task: &Task) -> String {
    task.owner().unwrap_or("unknown").to_owned()
}
