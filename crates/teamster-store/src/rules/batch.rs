//! Several changes of one team that belong together: all of them are made, or none.

use teamster_journal::EventActor;
use teamster_types::TaskId;
use teamster_types::task::{Status, Task};
use teamster_types::transitions::Edit;

use super::{finish, mail, must_open, tasks};
use crate::backend::Txn;
use crate::error::{Result, StoreError};
use crate::store::TeamChanges;

/// Makes the changes in the order of the fields of [`TeamChanges`]; returns the new tasks.
pub(super) fn apply(
    tx: &mut dyn Txn,
    actor: &EventActor,
    changes: &TeamChanges,
) -> Result<Vec<Task>> {
    let made = match changes.create.as_slice() {
        [] => Vec::new(),
        create => tasks::import(tx, actor, create)?,
    };
    for (id, places) in &changes.split {
        let parts: Option<Vec<TaskId>> = places
            .iter()
            .map(|place| made.get(*place).map(|task| task.id().clone()))
            .collect();
        let Some(parts) = parts.filter(|parts| !parts.is_empty()) else {
            return Err(StoreError::refused(format!(
                "task {id} is to be split into tasks that are not among the new ones"
            )));
        };
        split(tx, actor, id, &parts)?;
    }
    for (id, edit) in &changes.update {
        tasks::update(tx, actor, id, edit)?;
    }
    for id in &changes.remove {
        must_not_have_begun(tx, id, "removed")?;
        tasks::delete(tx, actor, id)?;
    }
    for (id, answer) in &changes.unblock {
        finish::unblock(tx, actor, id, answer)?;
    }
    for (id, is_chosen) in &changes.choose {
        finish::choose(tx, actor, id, *is_chosen)?;
    }
    for outgoing in &changes.send {
        mail::send(tx, outgoing)?;
    }
    for event in &changes.record {
        tx.event(event.clone());
    }
    Ok(made)
}

/// Replaces a task by others: whoever waited for it waits for all of them.
fn split(tx: &mut dyn Txn, actor: &EventActor, id: &TaskId, parts: &[TaskId]) -> Result<()> {
    let task = must_not_have_begun(tx, id, "split")?;
    for dependent in task.blocks() {
        let Some(waiting) = tx.open(dependent)? else {
            continue;
        };
        let others = waiting.blocked_by().iter().filter(|blocker| *blocker != id);
        let edit = Edit {
            blocked_by: Some(others.chain(parts).cloned().collect()),
            ..Edit::default()
        };
        tasks::update(tx, actor, dependent, &edit)?;
    }
    tasks::delete(tx, actor, id)?;
    Ok(())
}

fn must_not_have_begun(tx: &mut dyn Txn, id: &TaskId, step: &str) -> Result<Task> {
    let task = must_open(tx, id)?;
    if task.status() == Status::Pending || task.is_failed() {
        return Ok(task);
    }
    let state = task.status().as_str().replace('_', " ");
    Err(StoreError::refused(format!(
        "task {id} is {state}, so it cannot be {step}"
    )))
}
