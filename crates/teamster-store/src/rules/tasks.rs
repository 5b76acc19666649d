//! Creates, changes and removes tasks, and keeps `blocks` in step with `blockedBy`.

use serde_json::Value;
use teamster_fs::OrTrace as _;
use teamster_journal::payload::TaskChange;
use teamster_journal::{EventActor, EventKind, NewEvent, changes};
use teamster_types::graph::{find_cycle, plan_cycle};
use teamster_types::json::Object;
use teamster_types::task::{NewTask, Status, Task};
use teamster_types::transitions::{self, Refusal, TaskEdit};
use teamster_types::{TaskId, transitions::check_new};

use super::{must_open, no_task};
use crate::backend::Txn;
use crate::error::{Result, StoreError};
use crate::store::PlannedTask;

pub(super) fn create(tx: &mut dyn Txn, actor: &EventActor, new: &NewTask) -> Result<Task> {
    check_new(new)?;
    let id = tx.new_id()?;
    let task = Task::new(id.clone(), &deduplicated(new), tx.now());
    let also = mirror(tx, &id, &[], task.blocked_by())?;
    tx.put(task.clone());
    tx.event(
        NewEvent::new(
            actor,
            EventKind::TaskCreated(TaskChange::between(None, Some(&task)).also(also)),
        )
        .task(&id),
    );
    Ok(task)
}

pub(super) fn import(
    tx: &mut dyn Txn,
    actor: &EventActor,
    plan: &[PlannedTask],
) -> Result<Vec<Task>> {
    if plan.is_empty() {
        return Err(StoreError::refused("the plan has no tasks"));
    }
    check_order(plan)?;
    let mut ids: Vec<TaskId> = Vec::with_capacity(plan.len());
    for _ in plan {
        let next = match ids.last() {
            None => Some(tx.new_id()?),
            Some(last) => last.next(),
        };
        ids.push(next.ok_or_else(|| StoreError::refused("all task ids are used up"))?);
    }
    let mut tasks = Vec::with_capacity(plan.len());
    for (place, planned) in plan.iter().enumerate() {
        check_new(&planned.task)?;
        // Tasks of the plan are referred to by place only: a guessed id could close a cycle.
        if let Some(guessed) = planned.task.blocked_by.iter().find(|id| ids.contains(id)) {
            return Err(must_exist(tx, guessed));
        }
        let mut new = planned.task.clone();
        new.blocked_by
            .extend(planned.after.iter().map(|other| ids[*other].clone()));
        tasks.push(Task::new(ids[place].clone(), &deduplicated(&new), tx.now()));
    }
    // `blocks` of the new tasks is set before any of them is written; existing tasks are updated one by one.
    for place in 0..tasks.len() {
        let id = ids[place].clone();
        for other in &plan[place].after {
            transitions::mirror(&mut tasks[*other], &id, true);
        }
    }
    for (task, planned) in tasks.iter().zip(plan) {
        let also = mirror(tx, task.id(), &[], &planned.task.blocked_by)?;
        tx.put(task.clone());
        tx.event(
            NewEvent::new(
                actor,
                EventKind::TaskCreated(TaskChange::between(None, Some(task)).also(also)),
            )
            .task(task.id()),
        );
    }
    Ok(tasks)
}

/// Checks that a plan refers only to its own places, and that no task waits for itself, directly or indirectly.
fn check_order(plan: &[PlannedTask]) -> Result<()> {
    for (place, planned) in plan.iter().enumerate() {
        if let Some(wrong) = planned.after.iter().find(|other| **other >= plan.len()) {
            return Err(StoreError::refused(format!(
                "task {} of the plan waits for task {} of {}",
                place + 1,
                wrong + 1,
                plan.len()
            )));
        }
    }
    let after: Vec<&[usize]> = plan
        .iter()
        .map(|planned| planned.after.as_slice())
        .collect();
    let Some(cycle) = plan_cycle(&after) else {
        return Ok(());
    };
    let names: Vec<String> = cycle
        .iter()
        .map(|place| format!("\"{}\"", plan[*place].task.subject))
        .collect();
    Err(StoreError::refused(format!(
        "the plan has a cycle: {}",
        names.join(" waits for ")
    )))
}

pub(super) fn update(
    tx: &mut dyn Txn,
    actor: &EventActor,
    id: &TaskId,
    edit: &TaskEdit,
) -> Result<Task> {
    let before = must_open(tx, id)?;
    let mut task = before.clone();
    let edit = TaskEdit {
        blocked_by: edit.blocked_by.as_ref().map(|ids| unique(ids)),
        ..edit.clone()
    };
    if let Some(blockers) = &edit.blocked_by {
        refuse_cycle(tx, id, blockers)?;
    }
    transitions::edit(&mut task, &edit)?;
    let also = match &edit.blocked_by {
        Some(blockers) => mirror(tx, id, before.blocked_by(), blockers)?,
        None => Object::new(),
    };
    tx.put(task.clone());
    tx.event(
        NewEvent::new(
            actor,
            EventKind::TaskUpdated(TaskChange::between(Some(&before), Some(&task)).also(also)),
        )
        .task(id),
    );
    Ok(task)
}

pub(super) fn delete(tx: &mut dyn Txn, actor: &EventActor, id: &TaskId) -> Result<Task> {
    let task = must_open(tx, id)?;
    if task.status() == Status::InProgress {
        let by = task.owner().unwrap_or("nobody").to_owned();
        let until = task.claim().map_or_else(
            || "unknown".to_owned(),
            |claim| claim.leased_until.to_string(),
        );
        return Err(StoreError::from(Refusal::Taken {
            id: id.clone(),
            by,
            until,
        })
        .hint(format!(
            "`teamster task release {id} --force` takes it back first"
        )));
    }
    let mut also = mirror(tx, id, task.blocked_by(), &[])?;
    for dependent in task.blocks() {
        if let Some(before) = tx.open(dependent)? {
            let mut after = before.clone();
            if transitions::unblock(&mut after, id) {
                also.insert(
                    dependent.to_string(),
                    Value::Object(changes(Some(&before), Some(&after))),
                );
                tx.put(after);
            }
        }
    }
    tx.remove(id)?;
    tx.event(
        NewEvent::new(
            actor,
            EventKind::TaskDeleted(TaskChange::between(Some(&task), None).also(also)),
        )
        .task(id),
    );
    Ok(task)
}

/// Updates `blocks` of the tasks that `id` starts or stops waiting for, and returns the changes for the event.
fn mirror(tx: &mut dyn Txn, id: &TaskId, before: &[TaskId], after: &[TaskId]) -> Result<Object> {
    let mut also = Object::new();
    let added = after
        .iter()
        .filter(|blocker| !before.contains(blocker))
        .map(|blocker| (blocker, true));
    let removed = before
        .iter()
        .filter(|blocker| !after.contains(blocker))
        .map(|blocker| (blocker, false));
    for (blocker, present) in added.chain(removed) {
        let Some(old) = tx.open(blocker)? else {
            if present {
                return Err(must_exist(tx, blocker));
            }
            continue;
        };
        let mut new = old.clone();
        if transitions::mirror(&mut new, id, present) {
            also.insert(
                blocker.to_string(),
                Value::Object(changes(Some(&old), Some(&new))),
            );
            tx.put(new);
        }
    }
    Ok(also)
}

fn must_exist(tx: &dyn Txn, blocker: &TaskId) -> StoreError {
    no_task(tx.team(), blocker)
        .hint("a task can only wait for an existing task")
        .refused_instead()
}

fn refuse_cycle(tx: &mut dyn Txn, id: &TaskId, blockers: &[TaskId]) -> Result<()> {
    let cycle = find_cycle(id, blockers, |asked| {
        // An unreadable task has no known blockers.
        let task = tx.read_task(asked);
        let task = task
            .ok_or_trace("read a task that others wait for")
            .flatten();
        Ok::<_, StoreError>(
            task.map(|task| task.blocked_by().to_vec())
                .unwrap_or_default(),
        )
    })?;
    match cycle {
        None => Ok(()),
        Some(cycle) => {
            let path: Vec<&str> = cycle.iter().map(TaskId::as_str).collect();
            Err(StoreError::refused(format!(
                "that would be a cycle: {}",
                path.join(" waits for ")
            )))
        }
    }
}

fn deduplicated(new: &NewTask) -> NewTask {
    NewTask {
        blocked_by: unique(&new.blocked_by),
        ..new.clone()
    }
}

fn unique(ids: &[TaskId]) -> Vec<TaskId> {
    let mut seen = Vec::with_capacity(ids.len());
    for id in ids {
        if !seen.contains(id) {
            seen.push(id.clone());
        }
    }
    seen
}
