//! Several changes of one team, applied atomically.

use teamster_journal::payload::{QuestionAnswered, QuestionId};
use teamster_journal::{EventActor, EventKind, NewEvent, QuestionStatus, Questions};
use teamster_types::TaskId;
use teamster_types::task::{Status, Task};
use teamster_types::transitions::TaskEdit;

use super::{finish, mail, must_open, tasks};
use crate::backend::Txn;
use crate::error::{Result, StoreError};
use crate::store::{AcceptedProposal, TeamChanges};

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
    for accepted in &changes.accept {
        let task = made.get(accepted.place).map(Task::id);
        accept(tx, actor, accepted, task)?;
    }
    for event in &changes.record {
        if let EventKind::QuestionAnswered(answered) = event.payload() {
            must_be_open(tx, answered.question)?;
        }
        tx.event(event.clone());
    }
    Ok(made)
}

/// Answers a proposal with the id of the task that was created from it.
fn accept(
    tx: &mut dyn Txn,
    actor: &EventActor,
    accepted: &AcceptedProposal,
    task: Option<&TaskId>,
) -> Result<()> {
    let question = accepted.question;
    let Some(task) = task else {
        return Err(StoreError::refused(format!(
            "{question} is to become a task that is not among the new ones"
        )));
    };
    must_be_open(tx, question)?;
    let answer = match accepted.words.trim() {
        "" => format!("accepted as task {task}"),
        more => format!("accepted as task {task}: {more}"),
    };
    let answered = EventKind::QuestionAnswered(QuestionAnswered { question, answer });
    let event = NewEvent::new(actor, answered);
    tx.event(match &accepted.about {
        Some(about) => event.task(about),
        None => event,
    });
    Ok(())
}

/// Refuses an answer to a question that is no longer open: it would have no effect.
fn must_be_open(tx: &mut dyn Txn, id: QuestionId) -> Result<()> {
    let events = tx.events_from(id.seq())?;
    let questions = Questions::of(&events);
    let Some(question) = questions.get(id) else {
        return Err(StoreError::not_found(format!("there is no question {id}")));
    };
    match &question.state {
        QuestionStatus::Open => Ok(()),
        QuestionStatus::Answered { by, .. } => {
            Err(StoreError::conflict(format!("{by} answered {id} first")))
        }
        QuestionStatus::Expired { reason, .. } => Err(StoreError::conflict(format!(
            "{id} no longer waits for an answer: {reason}"
        ))),
    }
}

/// Replaces a task by others: tasks that waited for it wait for all of them.
fn split(tx: &mut dyn Txn, actor: &EventActor, id: &TaskId, parts: &[TaskId]) -> Result<()> {
    let task = must_not_have_begun(tx, id, "split")?;
    for dependent in task.blocks() {
        let Some(waiting) = tx.open(dependent)? else {
            continue;
        };
        let others = waiting.blocked_by().iter().filter(|blocker| *blocker != id);
        let edit = TaskEdit {
            blocked_by: Some(others.chain(parts).cloned().collect()),
            ..TaskEdit::default()
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
