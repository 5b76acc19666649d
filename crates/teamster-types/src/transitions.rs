//! The transitions of a task: claim, renew, complete, fail, release, retry, edit.
//!
//! Each is a function of the task, the time and the caller's proof. All stores call these inside their own critical
//! section, so the rules exist once. A refused transition changes nothing.

mod block;
mod merge;

use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;
use crate::graph::{Blocker, State, explain_state};
use crate::process::{ProcessId, ProcessState};
use crate::task::{Claim, DESCRIPTION_LIMIT, NewTask, SUBJECT_LIMIT, Status, Task, Token};
use crate::{TaskId, Time, WorkerName};

pub use block::{Block, BlockAnswer, WORDS_LIMIT, answer_block, block};
pub use merge::{choose, give_up, merge_lost, merged, unchanged};

/// The lease of a claim: how long it lasts without being renewed.
pub const LEASE: Duration = Duration::from_secs(120);
/// The maximum age of a heartbeat that proves its worker alive.
pub const HEARTBEAT_FRESH: Duration = Duration::from_secs(30);

/// The reason a transition was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another worker holds the task.
    #[error("task {id} is claimed by {by} (lease until {until})")]
    Taken {
        /// The task.
        id: TaskId,
        /// Its holder.
        by: String,
        /// When its lease expires.
        until: String,
    },
    /// The task is assigned to another worker.
    #[error("task {id} is assigned to {owner}")]
    Assigned {
        /// The task.
        id: TaskId,
        /// The worker it is assigned to.
        owner: String,
    },
    /// The task cannot be claimed now.
    #[error("task {id} cannot be claimed: {reason}")]
    NotClaimable {
        /// The task.
        id: TaskId,
        /// The reason, in words.
        reason: String,
    },
    /// The token does not belong to the current claim.
    #[error("the token does not hold task {id}: {reason}")]
    StaleToken {
        /// The task.
        id: TaskId,
        /// Why the token is stale.
        reason: String,
    },
    /// The transition is not possible in the task's state.
    #[error("task {id} is {state}, so it cannot be {step}")]
    IllegalStep {
        /// The task.
        id: TaskId,
        /// Its state.
        state: String,
        /// The transition.
        step: &'static str,
    },
    /// A text is too long.
    #[error("the {what} has {length} characters; the limit is {limit}")]
    TooLong {
        /// Which text.
        what: &'static str,
        /// Its length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A text is missing.
    #[error("the {0} is empty")]
    Empty(&'static str),
}

/// Refuses texts beyond their limits.
pub fn check_texts(subject: Option<&str>, description: Option<&str>) -> Result<(), Refusal> {
    if subject.is_some_and(|subject| subject.trim().is_empty()) {
        return Err(Refusal::Empty("subject"));
    }
    for (what, text, limit) in [
        ("subject", subject, SUBJECT_LIMIT),
        ("description", description, DESCRIPTION_LIMIT),
    ] {
        let length = text.map_or(0, |text| text.chars().count());
        if length > limit {
            return Err(Refusal::TooLong {
                what,
                length,
                limit,
            });
        }
    }
    Ok(())
}

/// Whether a task in progress may be taken over, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// The task may not be taken over.
    No,
    /// The lease has expired and the worker is dead.
    WorkerDead(String),
    /// The same worker asks for its own task by id, and the claiming process is gone.
    Restarted,
}

/// Returns why a task in progress is free again: its lease has expired and its worker is dead.
pub fn abandoned(
    task: &Task,
    process: ProcessState,
    heartbeat_fresh: bool,
    now: Time,
) -> Option<String> {
    let claim = task
        .claim()
        .filter(|_| task.status() == Status::InProgress)?;
    let dead = process == ProcessState::Gone && !heartbeat_fresh;
    (dead && claim.leased_until <= now).then(|| {
        format!(
            "worker {} died: its lease ran out at {}, pid {} is gone and no heartbeat is fresh",
            claim.worker, claim.leased_until, claim.pid
        )
    })
}

/// Decides whether `worker` may take `task` over from its holder.
pub fn takeover(
    task: &Task,
    worker: &WorkerName,
    by_id: bool,
    process: ProcessState,
    heartbeat_fresh: bool,
    now: Time,
) -> Takeover {
    let own = task
        .claim()
        .is_some_and(|claim| claim.worker == *worker && task.owner() == Some(worker.as_str()));
    if by_id && own && process == ProcessState::Gone {
        return Takeover::Restarted;
    }
    match abandoned(task, process, heartbeat_fresh, now) {
        Some(reason) => Takeover::WorkerDead(reason),
        None => Takeover::No,
    }
}

/// Checks that `worker` may claim a pending task now.
pub fn check_claimable(
    task: &Task,
    worker: &WorkerName,
    now: Time,
    blocker: impl FnMut(&TaskId) -> Blocker,
) -> Result<(), Refusal> {
    let id = task.id().clone();
    let standing = explain_state(task, now, blocker);
    match standing.state {
        State::Claimable => {}
        State::InProgress => {
            return Err(Refusal::Taken {
                id,
                by: task.owner().unwrap_or("nobody").to_owned(),
                until: task.claim().map_or_else(
                    || "unknown".to_owned(),
                    |claim| claim.leased_until.to_string(),
                ),
            });
        }
        _ => {
            return Err(Refusal::NotClaimable {
                id,
                reason: standing.reason,
            });
        }
    }
    match task.owner() {
        Some(owner) if owner != worker.as_str() => Err(Refusal::Assigned {
            id,
            owner: owner.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Claims the task for `worker`. The caller has checked that it may. `proof` is the secret token and a public nonce.
pub fn claim(
    task: &mut Task,
    worker: &WorkerName,
    proof: (Token, String),
    process: ProcessId,
    now: Time,
    lease: Duration,
) -> Claim {
    let claim = Claim::new(worker.clone(), proof, now.after(lease), process);
    let is_own = |name: Option<&str>| name == Some(worker.as_str());
    let is_assigned =
        is_own(task.assigned_to()) || task.status() == Status::Pending && is_own(task.owner());
    task.set_assigned_to(is_assigned.then_some(worker));
    task.set_status(Status::InProgress);
    task.set_owner(Some(worker));
    task.set_new_claim(&claim);
    count_write(task);
    claim
}

/// Returns the claim that `token` proves, if it is still the current one.
fn proven_claim(task: &Task, token: &Token) -> Result<Claim, Refusal> {
    let stale = |reason: String| Refusal::StaleToken {
        id: task.id().clone(),
        reason,
    };
    let Some(claim) = task.claim() else {
        return Err(stale(format!(
            "it is {} and not claimed",
            task.status().as_str()
        )));
    };
    if claim.token != *token {
        return Err(stale(format!(
            "{} holds it under a newer claim",
            claim.worker
        )));
    }
    if task.owner() != Some(claim.worker.as_str()) {
        return Err(stale(format!(
            "another program gave it to {}",
            task.owner().unwrap_or("nobody")
        )));
    }
    if task.status() == Status::Pending {
        return Err(stale("another program put it back to pending".to_owned()));
    }
    Ok(claim)
}

fn held_claim(task: &Task, token: &Token, step: &'static str) -> Result<Claim, Refusal> {
    let claim = proven_claim(task, token)?;
    if task.status() == Status::InProgress {
        Ok(claim)
    } else {
        Err(Refusal::IllegalStep {
            id: task.id().clone(),
            state: "completed".to_owned(),
            step,
        })
    }
}

/// Renews the lease, starting now.
pub fn renew(task: &mut Task, token: &Token, now: Time, lease: Duration) -> Result<Claim, Refusal> {
    let mut claim = held_claim(task, token, "renewed")?;
    claim.leased_until = now.after(lease);
    task.set_lease(&claim);
    count_write(task);
    Ok(claim)
}

/// Completes the task. Returns `Ok(false)` when it was already completed under the same token.
pub fn complete(
    task: &mut Task,
    token: &Token,
    result: Option<Value>,
    now: Time,
) -> Result<bool, Refusal> {
    proven_claim(task, token)?;
    let known = task.raw_result().is_some();
    if task.status() == Status::Completed && (result.is_none() || known) {
        return Ok(false);
    }
    // Another program may have marked it completed before its worker did; the worker's result still counts.
    task.set_status(Status::Completed);
    task.set_completed_at(Some(now));
    if result.is_some() {
        task.set_result(result);
    }
    count_write(task);
    Ok(true)
}

/// Records a failed attempt: the task becomes pending again after a retry delay, or fails permanently after the last
/// attempt.
pub fn fail(
    task: &mut Task,
    before: Option<&Failure>,
    token: &Token,
    error: &str,
    now: Time,
) -> Result<Failure, Refusal> {
    held_claim(task, token, "failed")?;
    let failure = Failure::again(before, task.id(), error, now);
    let pause = (!failure.is_final()).then(|| failure.not_before());
    end_attempt(task, &failure, pause, now);
    Ok(failure)
}

/// Requeues the task of a dead worker: the attempt counts, but there is no retry delay.
pub fn requeue(task: &mut Task, before: Option<&Failure>, error: &str, now: Time) -> Failure {
    let failure = Failure::again(before, task.id(), error, now);
    end_attempt(task, &failure, None, now);
    failure
}

fn end_attempt(task: &mut Task, failure: &Failure, pause: Option<Time>, now: Time) {
    task.set_failed_attempts(failure.retry_count);
    if failure.is_final() {
        task.set_status(Status::Completed);
        task.set_permanently_failed(true);
        task.set_error(Some(&failure.last_error));
        task.set_completed_at(Some(now));
    } else {
        task.set_status(Status::Pending);
        clear_owner(task);
    }
    task.remove_claim();
    task.set_not_before(pause);
    count_write(task);
}

/// Removes the owner. A task that was assigned before it was claimed is assigned to the same worker again.
fn clear_owner(task: &mut Task) {
    let assigned: Option<WorkerName> = task.assigned_to().and_then(|name| name.parse().ok());
    task.set_owner(assigned.as_ref());
}

/// Releases the task without counting a failure. Without a token it is forced by a person.
pub fn release(task: &mut Task, token: Option<&Token>) -> Result<(), Refusal> {
    match token {
        Some(token) => drop(held_claim(task, token, "released")?),
        None if task.status() == Status::InProgress => {}
        None => {
            let state = task.status().as_str().replace('_', " ");
            return Err(Refusal::IllegalStep {
                id: task.id().clone(),
                state,
                step: "released",
            });
        }
    }
    task.set_status(Status::Pending);
    clear_owner(task);
    task.remove_claim();
    count_write(task);
    Ok(())
}

/// Resets the task as if it had never failed. Refused while it is in progress or after it was completed.
pub fn retry(task: &mut Task, failure: Option<&Failure>) -> Result<(), Refusal> {
    let waits =
        task.status() == Status::Pending && (failure.is_some() || task.not_before().is_some());
    if !(task.is_failed() || waits) {
        let state = match task.status() {
            Status::Pending => "pending and has not failed",
            Status::InProgress => "in progress",
            Status::Completed => "completed",
        };
        return Err(Refusal::IllegalStep {
            id: task.id().clone(),
            state: state.to_owned(),
            step: "retried",
        });
    }
    task.set_status(Status::Pending);
    clear_owner(task);
    task.set_permanently_failed(false);
    task.set_failed_attempts(0);
    task.set_error(None);
    task.remove_claim();
    task.set_not_before(None);
    task.set_completed_at(None);
    task.set_result(None);
    task.set_block(None);
    count_write(task);
    Ok(())
}

/// The changes of `task update`; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskEdit {
    /// A new subject.
    pub subject: Option<String>,
    /// A new description.
    pub description: Option<String>,
    /// A new owner; `Some(None)` removes the owner.
    pub owner: Option<Option<WorkerName>>,
    /// New blockers.
    pub blocked_by: Option<Vec<TaskId>>,
    /// New capabilities.
    pub capabilities: Option<Vec<String>>,
    /// New paths.
    pub paths: Option<Vec<String>>,
}

/// Changes the fields of a task. The owner of a task in progress can be changed only by releasing the task.
pub fn edit(task: &mut Task, edit: &TaskEdit) -> Result<(), Refusal> {
    check_texts(edit.subject.as_deref(), edit.description.as_deref())?;
    let id = task.id().clone();
    if edit.owner.is_some() && task.status() == Status::InProgress {
        let by = task.owner().unwrap_or("nobody").to_owned();
        return Err(Refusal::Taken {
            id,
            by,
            until: task.claim().map_or_else(
                || "unknown".to_owned(),
                |claim| claim.leased_until.to_string(),
            ),
        });
    }
    if edit.owner.is_some() && task.status() == Status::Completed {
        return Err(Refusal::IllegalStep {
            id,
            state: "completed".to_owned(),
            step: "assigned",
        });
    }
    if let Some(subject) = &edit.subject {
        task.set_text("subject", subject);
    }
    if let Some(description) = &edit.description {
        task.set_text("description", description);
    }
    if let Some(owner) = &edit.owner {
        task.set_assigned_to(None);
        task.set_owner(owner.as_ref());
    }
    if let Some(blockers) = &edit.blocked_by {
        task.set_blocked_by(blockers.clone());
    }
    if let Some(capabilities) = &edit.capabilities {
        task.set_capabilities(capabilities);
    }
    if let Some(paths) = &edit.paths {
        task.set_paths(paths);
    }
    count_write(task);
    Ok(())
}

/// Adds or removes `dependent` in `blocks`; returns false when nothing changed.
pub fn mirror(task: &mut Task, dependent: &TaskId, present: bool) -> bool {
    let mut blocks = task.blocks().to_vec();
    let known = blocks.contains(dependent);
    if known == present {
        return false;
    }
    if present {
        blocks.push(dependent.clone());
    } else {
        blocks.retain(|id| id != dependent);
    }
    task.set_blocks(blocks);
    count_write(task);
    true
}

/// Removes a deleted blocker from `blockedBy`; returns false when it was not there.
pub fn unblock(task: &mut Task, blocker: &TaskId) -> bool {
    if !task.blocked_by().contains(blocker) {
        return false;
    }
    let left = task
        .blocked_by()
        .iter()
        .filter(|id| *id != blocker)
        .cloned()
        .collect();
    task.set_blocked_by(left);
    count_write(task);
    true
}

/// Checks the texts of a new task.
pub fn check_new(new: &NewTask) -> Result<(), Refusal> {
    check_texts(Some(&new.subject), Some(&new.description))
}

fn count_write(task: &mut Task) {
    task.count_version();
}
