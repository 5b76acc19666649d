//! How a claim ends: completed, failed, given back; and how a failed task begins anew.

use serde_json::Value;
use teamster_types::TaskId;
use teamster_journal::NewEvent;
use teamster_types::steps;
use teamster_types::task::{Task, Token};

use super::{known_failure, must_open};
use crate::error::Result;
use crate::store::{LostMerge, Merge};
use crate::txn::Txn;

pub(super) fn complete(
    tx: &mut dyn Txn,
    id: &TaskId,
    token: &Token,
    result: Option<Value>,
) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    if steps::complete(&mut task, token, result, tx.now())? {
        tx.put(task.clone());
        tx.event(
            NewEvent::new("task.completed", owner(&before))
                .task(id)
                .changed(Some(&before), Some(&task)),
        );
    }
    Ok(task)
}

pub(super) fn fail(tx: &mut dyn Txn, id: &TaskId, token: &Token, error: &str) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    let known = known_failure(tx, &before)?;
    let failure = steps::fail(&mut task, known.as_ref(), token, error, tx.now())?;
    tx.put(task.clone());
    tx.event(
        NewEvent::new("task.failed", owner(&before))
            .task(id)
            .changed(Some(&before), Some(&task))
            .with("error", error)
            .with("failure", &failure),
    );
    tx.put_failure(id, Some(failure));
    Ok(task)
}

pub(super) fn release(
    tx: &mut dyn Txn,
    actor: &str,
    id: &TaskId,
    token: Option<&Token>,
) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    steps::release(&mut task, token)?;
    let who = if token.is_some() {
        owner(&before)
    } else {
        actor.to_owned()
    };
    tx.put(task.clone());
    tx.event(
        NewEvent::new("task.released", who)
            .task(id)
            .changed(Some(&before), Some(&task)),
    );
    Ok(task)
}

pub(super) fn retry(tx: &mut dyn Txn, actor: &str, id: &TaskId) -> Result<Task> {
    let before = must_open(tx, id)?;
    let known = known_failure(tx, &before)?;
    let mut task = before.clone();
    steps::retry(&mut task, known.as_ref())?;
    tx.put(task.clone());
    tx.put_failure(id, None);
    tx.event(
        NewEvent::new("task.retried", actor)
            .task(id)
            .changed(Some(&before), Some(&task))
            .with("failure", Value::Null),
    );
    Ok(task)
}

pub(super) fn merged(tx: &mut dyn Txn, actor: &str, id: &TaskId, merge: &Merge) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    if steps::merged(&mut task, merge.made.as_deref())? {
        tx.put(task.clone());
        tx.event(
            NewEvent::new("merge.merged", actor)
                .task(id)
                .changed(Some(&before), Some(&task))
                .with("worker", owner(&before))
                .with("commit", &merge.commit)
                .with("merge", &merge.made)
                .with("files", &merge.files),
        );
    }
    Ok(task)
}

pub(super) fn unchanged(tx: &mut dyn Txn, actor: &str, id: &TaskId) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    if steps::unchanged(&mut task)? {
        tx.put(task.clone());
        tx.event(
            NewEvent::new("task.unchanged", actor)
                .task(id)
                .changed(Some(&before), Some(&task))
                .with("worker", owner(&before)),
        );
    }
    Ok(task)
}

pub(super) fn merge_lost(
    tx: &mut dyn Txn,
    actor: &str,
    id: &TaskId,
    lost: &LostMerge,
) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    if steps::merge_lost(&mut task) {
        tx.put(task.clone());
        tx.event(
            NewEvent::new("merge.lost", actor)
                .task(id)
                .changed(Some(&before), Some(&task))
                .with("worker", owner(&before))
                .with("commit", &lost.commit)
                .with("head", &lost.head),
        );
    }
    Ok(task)
}

pub(super) fn give_up(tx: &mut dyn Txn, actor: &str, id: &TaskId, error: &str) -> Result<Task> {
    let before = must_open(tx, id)?;
    if before.is_failed() {
        return Ok(before);
    }
    let mut task = before.clone();
    let known = known_failure(tx, &before)?;
    let failure = steps::give_up(&mut task, known.as_ref(), error, tx.now())?;
    tx.put(task.clone());
    tx.event(
        NewEvent::new("task.failed", actor)
            .task(id)
            .changed(Some(&before), Some(&task))
            .with("error", error)
            .with("failure", &failure),
    );
    tx.put_failure(id, Some(failure));
    Ok(task)
}

fn owner(task: &Task) -> String {
    task.owner().unwrap_or("unknown").to_owned()
}
