//! The rules of the store, shared by all back ends.

mod batch;
mod claim;
mod finish;
mod mail;
mod tasks;
mod teams;

pub use teams::{created, refuse_held};

use std::time::Duration;

use serde_json::Value;
use teamster_journal::{EventActor, NewEvent};
use teamster_types::failure::Failure;
use teamster_types::message::Message;
use teamster_types::task::{NewTask, Task, Token};
use teamster_types::team::{NewMember, NewTeam, TeamConfig};
use teamster_types::transitions::TaskEdit;
use teamster_types::{TaskId, TeamName, WorkerName};

use crate::backend::{Backend, Txn};
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::export::TeamExport;
use crate::store::{
    ClaimRequest, Claimed, DeletedTeam, Delivery, LostMerge, OutgoingMessage, PlannedTask, Reader,
    Signal, Store, TaskMerge, TeamChanges,
};

impl<B: Backend> Store for B {
    fn export_team(&self, team: &TeamName) -> Result<(TeamExport, Vec<TaskId>)> {
        let mut export = self.snapshot_team(team)?;
        let released = export.release_claims()?;
        export.check()?;
        Ok((export, released))
    }

    fn import_team(&self, export: &TeamExport) -> Result<()> {
        export.check()?;
        self.restore_team(export)
    }

    fn create_team(&self, new: &NewTeam, base: Option<&str>) -> Result<TeamConfig> {
        self.new_team(new, base)
    }

    fn join_team(&self, team: &TeamName, member: &NewMember) -> Result<TeamConfig> {
        // Checked before anything is opened for writing: a refusal must not create a lock or a journal in a foreign
        // team.
        teams::may_be_joined(team, &self.team(team)?)?;
        run_rule(self, team, "team join", |tx| teams::join(tx, member))
    }

    fn enlist(&self, team: &TeamName, member: &NewMember) -> Result<TeamConfig> {
        run_rule(self, team, "worker start", |tx| teams::enlist(tx, member))
    }

    fn dismiss(&self, team: &TeamName, actor: &EventActor, worker: &WorkerName) -> Result<bool> {
        if !teams::is_guest(&self.team(team)?, worker) {
            return Ok(false);
        }
        self.collect(team, worker)?;
        run_rule(self, team, "worker end", |tx| {
            teams::dismiss(tx, actor, worker)
        })
    }

    fn collect(&self, team: &TeamName, worker: &WorkerName) -> Result<usize> {
        // Each message is a separate transaction, so that each has its own journal position.
        let mut count = 0;
        loop {
            let taken = run_rule(self, team, "message collect", |tx| {
                mail::collect(tx, worker, false)
            })?;
            if taken == 0 {
                return Ok(count);
            }
            count += taken;
        }
    }

    fn host_team(
        &self,
        team: &TeamName,
        order: Option<&Value>,
        event: NewEvent,
    ) -> Result<TeamConfig> {
        run_rule(self, team, "run", |tx| {
            teams::host(tx, order, event.clone())
        })
    }

    fn delete_team(&self, team: &TeamName, actor: &EventActor, force: bool) -> Result<DeletedTeam> {
        self.drop_team(team, actor, force)
    }

    fn create_task(&self, team: &TeamName, actor: &EventActor, new: &NewTask) -> Result<Task> {
        run_rule(self, team, "task create", |tx| {
            tasks::create(tx, actor, new)
        })
    }

    fn import_tasks(
        &self,
        team: &TeamName,
        actor: &EventActor,
        plan: &[PlannedTask],
    ) -> Result<Vec<Task>> {
        run_rule(self, team, "task import", |tx| {
            tasks::import(tx, actor, plan)
        })
    }

    fn apply(
        &self,
        team: &TeamName,
        actor: &EventActor,
        changes: &TeamChanges,
    ) -> Result<Vec<Task>> {
        run_rule(self, team, "team change", |tx| {
            batch::apply(tx, actor, changes)
        })
    }

    fn update_task(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        edit: &TaskEdit,
    ) -> Result<Task> {
        run_rule(self, team, "task update", |tx| {
            tasks::update(tx, actor, id, edit)
        })
    }

    fn delete_task(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task> {
        run_rule(self, team, "task delete", |tx| tasks::delete(tx, actor, id))
    }

    fn claim(&self, team: &TeamName, request: &ClaimRequest) -> Result<Option<Claimed>> {
        run_rule(self, team, "task claim", |tx| claim::claim(tx, request))
    }

    fn renew(
        &self,
        team: &TeamName,
        id: &TaskId,
        token: &Token,
        lease: Option<Duration>,
    ) -> Result<Claimed> {
        run_rule(self, team, "task renew", |tx| {
            claim::renew(tx, id, token, lease)
        })
    }

    fn complete(
        &self,
        team: &TeamName,
        id: &TaskId,
        token: &Token,
        result: Option<Value>,
    ) -> Result<Task> {
        run_rule(self, team, "task complete", |tx| {
            finish::complete(tx, id, token, result.clone())
        })
    }

    fn fail(&self, team: &TeamName, id: &TaskId, token: &Token, error: &str) -> Result<Task> {
        run_rule(self, team, "task fail", |tx| {
            finish::fail(tx, id, token, error)
        })
    }

    fn block(&self, team: &TeamName, id: &TaskId, token: &Token, reason: &str) -> Result<Task> {
        run_rule(self, team, "task block", |tx| {
            finish::block(tx, id, token, reason)
        })
    }

    fn unblock(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        answer: &str,
    ) -> Result<Task> {
        run_rule(self, team, "task unblock", |tx| {
            finish::unblock(tx, actor, id, answer)
        })
    }

    fn release(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        token: Option<&Token>,
    ) -> Result<Task> {
        run_rule(self, team, "task release", |tx| {
            finish::release(tx, actor, id, token)
        })
    }

    fn requeue(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task> {
        run_rule(self, team, "task requeue", |tx| {
            claim::requeue(tx, actor, id)
        })
    }

    fn retry(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task> {
        run_rule(self, team, "task retry", |tx| finish::retry(tx, actor, id))
    }

    fn merged(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        merge: &TaskMerge,
    ) -> Result<Task> {
        run_rule(self, team, "task merged", |tx| {
            finish::merged(tx, actor, id, merge)
        })
    }

    fn unchanged(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task> {
        run_rule(self, team, "task unchanged", |tx| {
            finish::unchanged(tx, actor, id)
        })
    }

    fn merge_lost(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        lost: &LostMerge,
    ) -> Result<Task> {
        run_rule(self, team, "task merge lost", |tx| {
            finish::merge_lost(tx, actor, id, lost)
        })
    }

    fn give_up(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        error: &str,
    ) -> Result<Task> {
        run_rule(self, team, "task give up", |tx| {
            finish::give_up(tx, actor, id, error)
        })
    }

    fn send(&self, team: &TeamName, outgoing: &OutgoingMessage) -> Result<Vec<Message>> {
        run_rule(self, team, "message send", |tx| mail::send(tx, outgoing))
    }

    fn receive(
        &self,
        team: &TeamName,
        reader: &Reader,
        limit: usize,
        ack: bool,
    ) -> Result<Delivery> {
        run_rule(self, team, "message read", |tx| {
            mail::receive(tx, reader, limit, ack)
        })
    }

    fn peek(&self, team: &TeamName, reader: &Reader, limit: usize) -> Result<Delivery> {
        run_rule(self, team, "message peek", |tx| {
            mail::peek(tx, reader, limit)
        })
    }

    fn acknowledge(&self, team: &TeamName, reader: &Reader, id: &str) -> Result<u64> {
        run_rule(self, team, "message ack", |tx| {
            mail::acknowledge(tx, reader, id)
        })
    }

    fn signal(
        &self,
        team: &TeamName,
        actor: &EventActor,
        worker: &WorkerName,
        signal: &Signal,
    ) -> Result<()> {
        run_rule(self, team, "signal", |tx| {
            teams::signal(tx, actor, worker, signal)
        })
    }

    fn clear_signals(&self, team: &TeamName, worker: &WorkerName) -> Result<()> {
        run_rule(self, team, "signal", |tx| tx.put_signal(worker, None))
    }

    fn record(&self, team: &TeamName, event: NewEvent) -> Result<u64> {
        let before = self.change(team, "journal", &mut |tx| {
            tx.event(event.clone());
            Ok(())
        })?;
        Ok(before + 1)
    }
}

/// Runs one rule in a transaction and returns its result.
fn run_rule<T>(
    backend: &impl Backend,
    team: &TeamName,
    what: &'static str,
    mut rule: impl FnMut(&mut dyn Txn) -> Result<T>,
) -> Result<T> {
    let mut answer = None;
    backend.change(team, what, &mut |tx| {
        answer = Some(rule(tx)?);
        Ok(())
    })?;
    answer.ok_or_else(|| {
        StoreError::new(
            StoreErrorKind::Failed,
            format!("{what} of team {team} was not made"),
        )
    })
}

/// Opens a task, or fails when it does not exist.
fn must_open(tx: &mut dyn Txn, id: &TaskId) -> Result<Task> {
    tx.open(id)?.ok_or_else(|| no_task(tx.team(), id))
}

/// Returns the failure record of a task. An unreadable record is not an error: the task itself counts its failures.
fn known_failure(tx: &mut dyn Txn, task: &Task) -> Result<Option<Failure>> {
    let sidecar = match tx.failure(task.id()) {
        Err(error) if matches!(error.kind, StoreErrorKind::Failed | StoreErrorKind::Refused) => {
            None
        }
        read => return read,
    };
    Ok(sidecar.or_else(|| {
        let count = task.failed_attempts();
        (count > 0).then(|| Failure {
            task_id: task.id().clone(),
            last_error: task.error().unwrap_or("unknown").to_owned(),
            retry_count: count,
            last_failed_at: tx.now(),
            rest: serde_json::Map::new(),
        })
    }))
}

/// Returns the error for a task that the team does not have.
pub fn no_task(team: &TeamName, id: &TaskId) -> StoreError {
    StoreError::not_found(format!("team {team} has no task {id}")).hint(format!(
        "`teamster task list --team {team}` shows its tasks"
    ))
}
