//! The store's interface: its records, the reads ([`ReadStore`]) and the changes ([`Store`]).

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use teamster_journal::payload::QuestionId;
use teamster_journal::{Event, EventActor, NewEvent};
use teamster_types::failure::Failure;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::json::Object;
use teamster_types::message::{Mailbox, Message};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::progress::Progress;
use teamster_types::session::ClientSession;
use teamster_types::task::{NewTask, Task, Token};
use teamster_types::team::{NewMember, NewTeam, TeamConfig};
use teamster_types::transitions::TaskEdit;
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use crate::error::Result;
use crate::export::TeamExport;
use crate::watch::{Listen, Watch};

/// The outcome of asking for the right to host a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRight {
    /// The caller has the right.
    Ours,
    /// Another process has the right.
    Theirs(OtherHost),
}

/// Another process that hosts a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherHost {
    /// The name under which the process holds the right.
    pub holder: String,
    /// The process, if it is known.
    pub process: Option<ProcessId>,
    /// The remaining time of its lease.
    pub left: Duration,
}

/// A file that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Damaged {
    /// The name of the file.
    pub file: String,
    /// What is wrong with it.
    pub error: String,
}

/// A team that exists, readable or not.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamEntry {
    /// The name of its folder. In a foreign team it may be any name.
    pub name: String,
    /// Its registry, or what is wrong with it.
    pub config: Result<TeamConfig, String>,
}

/// All tasks of a team, in ascending order of their ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskList {
    /// The tasks that could be read.
    pub tasks: Vec<Task>,
    /// The tasks that could not be read.
    pub problems: Vec<Damaged>,
}

/// A worker's request for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The worker that asks.
    pub worker: WorkerName,
    /// The task to claim; `None` for the next suitable one.
    pub id: Option<TaskId>,
    /// The lease of the claim; `None` for the store's default.
    pub lease: Option<Duration>,
}

/// A claim that was made or renewed.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The task as it is now.
    pub task: Task,
    /// The secret that proves the claim, for the claimer only.
    pub token: Token,
    /// The fencing number, which increases with every claim of this task.
    pub fence: u64,
    /// When the lease expires unless it is renewed.
    pub leased_until: Time,
}

/// A task of a plan. Its blockers within the plan are given by their place in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlannedTask {
    /// The task. Its own `blocked_by` names tasks that already exist.
    pub task: NewTask,
    /// Places in the plan, counted from 0.
    pub after: Vec<usize>,
}

/// A proposal that becomes a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedProposal {
    /// The question that proposes it. It must be open.
    pub question: QuestionId,
    /// The index of the task in [`TeamChanges::create`].
    pub place: usize,
    /// The task that the question is about.
    pub about: Option<TaskId>,
    /// What the answer says besides the number of the task.
    pub words: String,
}

/// Changes of a team that are applied atomically, in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TeamChanges {
    /// New tasks, as in a plan.
    pub create: Vec<PlannedTask>,
    /// Tasks that are replaced by new ones, each with the indices of its replacements in `create`. Tasks that waited
    /// for the old one wait for all of them.
    pub split: Vec<(TaskId, Vec<usize>)>,
    /// Tasks whose fields change.
    pub update: Vec<(TaskId, TaskEdit)>,
    /// Tasks that are removed because they are no longer needed. Tasks that waited for one of them no longer do.
    pub remove: Vec<TaskId>,
    /// Blocked tasks, each with the answer to its worker.
    pub unblock: Vec<(TaskId, String)>,
    /// Candidate results, each with whether it was chosen.
    pub choose: Vec<(TaskId, bool)>,
    /// The messages that are sent.
    pub send: Vec<OutgoingMessage>,
    /// Proposals that become new tasks. Each is answered with the number of its task.
    pub accept: Vec<AcceptedProposal>,
    /// Events that change nothing else. A question that one of them answers must be open.
    pub record: Vec<NewEvent>,
}

/// How the work of a task was merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskMerge {
    /// What was merged: the commit of the task, or of the task that resolved its conflict.
    pub commit: String,
    /// The merge commit; `None` when there was nothing left to merge.
    pub made: Option<String>,
    /// The paths of the files that the merge changed.
    pub files: Vec<String>,
}

/// Work that was recorded as merged but is missing from the team's branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostMerge {
    /// The commit that was looked for; `None` when the task has none.
    pub commit: Option<String>,
    /// The commit in which it was not found.
    pub head: String,
}

/// The recipient of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// One worker, or a teammate of Claude Code.
    Worker(String),
    /// The lead.
    Lead,
    /// Every member.
    All,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct OutgoingMessage {
    /// The sender: a worker's name, `lead`, `user` or `system`.
    pub from: String,
    /// The recipient.
    pub to: Recipient,
    /// The type of the message, such as `message`, `context` or `task_complete`.
    pub kind: String,
    /// What it says.
    pub content: String,
    /// Additional keys that its type needs, such as `taskId`.
    pub extra: Object,
}

/// The reader of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A worker: its inbox.
    Worker(WorkerName),
    /// The lead: everyone's outbox, and its own inbox.
    Lead,
}

/// The messages that a reader received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delivery {
    /// Messages that are not acknowledged yet, in order per sender.
    pub messages: Vec<Message>,
    /// The number of lines that are not messages.
    pub skipped: u64,
}

/// A message with its mailbox and its receipts.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMessage {
    /// The label of its mailbox, such as `inbox/worker-1`.
    pub mailbox: String,
    /// The message.
    pub message: Message,
    /// When it was delivered to its recipient: a reader of the mailbox, or the client of a worker's agent.
    pub delivered_at: Option<Time>,
    /// When its recipient acknowledged it.
    pub acked_at: Option<Time>,
}

/// A request that a worker stop.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signal {
    /// The id by which the worker's answer names the request.
    pub request_id: String,
    /// Why the worker is to stop.
    pub reason: String,
    /// When the request was made.
    pub timestamp: Time,
    /// Whether the worker finishes its current task first.
    #[serde(skip)]
    pub drain: bool,
}

/// A part of the journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalPage {
    /// Events in order.
    pub events: Vec<Event>,
    /// Lines that are not events, by their place in the file.
    pub damaged: Vec<Damaged>,
}

/// A team that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedTeam {
    /// Where its files are kept in the trash, if anywhere.
    pub trash: Option<String>,
    /// Where a copy of its journal is kept, if anywhere.
    pub journal: Option<String>,
}

/// The remaining work of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLeft {
    /// Tasks that can be claimed now, or once the tasks they wait for are done.
    pub pending: usize,
    /// Tasks in progress.
    pub in_progress: usize,
}

/// A piece of a log file of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPiece {
    /// The name of the file, without a folder.
    pub file: String,
    /// Identifies the file regardless of its name: a rotated log keeps its identity, a new log gets another one.
    pub identity: String,
    /// Where the piece begins in the file.
    pub from: u64,
    /// Where the next piece begins.
    pub next: u64,
    /// The content.
    pub text: String,
}

/// How much of a worker's log file the requester already has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLog {
    /// The file, identified as in [`LogPiece::identity`].
    pub identity: String,
    /// Where the next piece begins.
    pub next: u64,
}

/// A request from another machine for the rest of a worker's logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// The id of the request.
    pub id: String,
    /// The parts of files that the requester already has.
    pub present: Vec<KnownLog>,
}

/// Plain reads, and the heartbeats, which need no lock.
pub trait ReadStore: Send + Sync {
    /// Returns the time by the store's clock, which alone decides about leases.
    fn now(&self) -> Time;

    /// Notes that this process is shutting down: from now on it retries an unreachable store only briefly.
    fn limit_retries(&self) {}

    /// Returns every team.
    fn teams(&self) -> Result<Vec<TeamEntry>>;

    /// Returns a team's registry.
    fn team(&self, team: &TeamName) -> Result<TeamConfig>;

    /// Returns one task.
    fn task(&self, team: &TeamName, id: &TaskId) -> Result<Task>;

    /// Returns a consistent snapshot of all tasks.
    fn tasks(&self, team: &TeamName) -> Result<TaskList>;

    /// Returns the team's progress, and the task files that could not be read.
    fn progress(&self, team: &TeamName) -> Result<(Progress, Vec<Damaged>)>;

    /// Returns how many tasks are left for workers. Every idle worker calls this repeatedly, so it must be cheap for
    /// any number of tasks.
    fn work_left(&self, team: &TeamName) -> Result<WorkLeft> {
        let (progress, _) = self.progress(team)?;
        Ok(WorkLeft {
            pending: progress.pending_tasks,
            in_progress: progress.in_progress_tasks,
        })
    }

    /// Returns the failure record of a task.
    fn failure(&self, team: &TeamName, id: &TaskId) -> Result<Option<Failure>>;

    /// Returns every message of a team with its receipts, oldest first in each box.
    fn messages(&self, team: &TeamName) -> Result<Vec<StoredMessage>>;

    /// Returns the messages that were sent before `before` and are not delivered yet.
    fn undelivered(&self, team: &TeamName, before: Time) -> Result<Vec<StoredMessage>>;

    /// Writes a worker's heartbeat.
    fn beat(&self, heartbeat: &Heartbeat) -> Result<()>;

    /// Writes the first heartbeat of a launch, which makes it the only process that runs as this worker. Returns false
    /// when another launch did so since the caller saw the launch `seen`, or none. Where all workers are on one
    /// machine, a lock excludes other launches instead.
    fn register_launch(&self, heartbeat: &Heartbeat, _seen: Option<&str>) -> Result<bool> {
        self.beat(heartbeat).map(|()| true)
    }

    /// Asks a worker on another machine for the parts of its logs that `present` does not cover. Returns the id of the
    /// request, or `None` where all logs are on one machine.
    fn ask_for_logs(
        &self,
        _team: &TeamName,
        _worker: &WorkerName,
        _present: &[KnownLog],
    ) -> Result<Option<String>> {
        Ok(None)
    }

    /// Returns the worker's answer to a request for logs; `None` until there is one.
    fn answered_logs(&self, _team: &TeamName, _request: &str) -> Result<Option<Vec<LogPiece>>> {
        Ok(None)
    }

    /// Returns the unanswered requests for a worker's logs.
    fn log_requests(&self, _team: &TeamName, _worker: &WorkerName) -> Result<Vec<LogRequest>> {
        Ok(Vec::new())
    }

    /// Answers a request for logs.
    fn answer_logs(&self, _team: &TeamName, _request: &str, _pieces: &[LogPiece]) -> Result<()> {
        Ok(())
    }

    /// Removes a worker's heartbeat after an orderly shutdown.
    fn remove_heartbeat(&self, team: &TeamName, worker: &WorkerName) -> Result<()>;

    /// Returns every heartbeat of a team, and those that could not be read.
    fn heartbeats(&self, team: &TeamName) -> Result<(Vec<Heartbeat>, Vec<Damaged>)>;

    /// Returns whether a process is alive, as far as this store can determine.
    fn process_state(&self, process: &ProcessId) -> ProcessState;

    /// Takes or renews the right to host a team for a limited time, unless another process has it. `gone` is a holder
    /// that is proven dead. A file store needs no such right: the lock on its machine is enough.
    fn hold_host(
        &self,
        team: &TeamName,
        holder: &str,
        lease: Duration,
        gone: Option<&str>,
    ) -> Result<HostRight> {
        let _ = (team, holder, lease, gone);
        Ok(HostRight::Ours)
    }

    /// Returns the process that has the right to host a team; `None` when there is none, or when the store needs no
    /// such right.
    fn current_host(&self, team: &TeamName) -> Result<Option<OtherHost>> {
        let _ = team;
        Ok(None)
    }

    /// Releases the right to host a team.
    fn release_host(&self, team: &TeamName, holder: &str) -> Result<()> {
        let _ = (team, holder);
        Ok(())
    }

    /// Returns the same store, whose changes are accepted only while `holder` has the right to host the team; `None`
    /// where the store needs no such right.
    fn hosted_by(&self, holder: &str) -> Option<Arc<dyn Store>> {
        let _ = holder;
        None
    }

    /// Returns the sessions of Claude Code that are recorded on this machine.
    fn client_sessions(&self) -> Vec<ClientSession> {
        Vec::new()
    }

    /// Copies the journal to the project's reports and returns where; `None` when this store cannot do so.
    fn keep_journal(&self, team: &TeamName) -> Result<Option<String>> {
        let _ = team;
        Ok(None)
    }

    /// Returns the pending stop signals of a worker.
    fn signals(&self, team: &TeamName, worker: &WorkerName) -> Result<Vec<Signal>>;

    /// Returns a listener for a worker's signals and for changes of the team. It is cheap enough for an idle worker to
    /// poll.
    fn listen(&self, team: &TeamName, worker: &WorkerName) -> Result<Box<dyn Listen>>;

    /// Returns the last position of the journal; 0 when it is empty.
    fn position(&self, team: &TeamName) -> Result<u64>;

    /// Returns up to `limit` events from position `from` on.
    fn events(&self, team: &TeamName, from: u64, limit: usize) -> Result<JournalPage>;

    /// Returns the last `count` events.
    fn last_events(&self, team: &TeamName, count: usize) -> Result<JournalPage>;

    /// Returns the first lines of the journal that are not events, by their places, and the number of all such lines.
    fn damaged_lines(&self, _team: &TeamName) -> Result<(Vec<Damaged>, usize)> {
        Ok((Vec::new(), 0))
    }

    /// Returns the last event whose type begins with one of `kinds`.
    fn last_of(&self, team: &TeamName, kinds: &[&str]) -> Result<Option<Event>> {
        let fits = |event: &Event| kinds.iter().any(|kind| event.kind.starts_with(kind));
        let mut reach = 200_usize;
        loop {
            let page = self.last_events(team, reach)?.events;
            if let Some(found) = page.iter().rfind(|event| fits(event)) {
                return Ok(Some(found.clone()));
            }
            if page.len() < reach {
                return Ok(None);
            }
            reach = reach.saturating_mul(8);
        }
    }

    /// Returns, for each list of type prefixes, the last event that matches.
    fn last_of_each(&self, team: &TeamName, asked: &[&[&str]]) -> Result<Vec<Option<Event>>> {
        asked
            .iter()
            .map(|kinds| self.last_of(team, kinds))
            .collect()
    }

    /// Returns a watcher for changes from now on, and for events after position `after`.
    fn watch(&self, team: &TeamName, after: u64) -> Result<Box<dyn Watch>>;
}

/// Everything that changes a team. Each call is atomic.
pub trait Store: ReadStore {
    /// Creates a team. `base` is the commit that its work starts from.
    fn create_team(&self, new: &NewTeam, base: Option<&str>) -> Result<TeamConfig>;

    /// Adds a member, or changes its provider.
    fn join_team(&self, team: &TeamName, member: &NewMember) -> Result<TeamConfig>;

    /// Adds a teamster worker that is about to run, also to a team of Claude Code. Refused there when a teammate of
    /// Claude Code has the same name.
    fn enlist(&self, team: &TeamName, member: &NewMember) -> Result<TeamConfig>;

    /// Removes a teamster worker that has ended from the registry of a Claude Code team, together with its inbox there;
    /// returns whether it was registered. In a team of teamster a worker stays a member when it ends.
    fn dismiss(&self, team: &TeamName, actor: &EventActor, worker: &WorkerName) -> Result<bool>;

    /// Makes this process the host of a team's run, replaces the run's specification if `order` is given, and records
    /// `event`.
    fn host_team(
        &self,
        team: &TeamName,
        order: Option<&Value>,
        event: NewEvent,
    ) -> Result<TeamConfig>;

    /// Removes a team. Refused while any of its workers is alive, and, unless forced, while a claim's lease is valid.
    fn delete_team(&self, team: &TeamName, actor: &EventActor, force: bool) -> Result<DeletedTeam>;

    /// Creates a task.
    fn create_task(&self, team: &TeamName, actor: &EventActor, new: &NewTask) -> Result<Task>;

    /// Creates all tasks of a plan, or none.
    fn import_tasks(
        &self,
        team: &TeamName,
        actor: &EventActor,
        plan: &[PlannedTask],
    ) -> Result<Vec<Task>>;

    /// Applies several changes atomically; returns the new tasks.
    fn apply(
        &self,
        team: &TeamName,
        actor: &EventActor,
        changes: &TeamChanges,
    ) -> Result<Vec<Task>>;

    /// Changes fields of a task, and the `blocks` of the tasks that it waits for.
    fn update_task(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        edit: &TaskEdit,
    ) -> Result<Task>;

    /// Removes a task that is not in progress; tasks that waited for it no longer do.
    fn delete_task(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task>;

    /// Claims the worker's next task, or the one it asked for. Returns `None` when nothing is claimable.
    fn claim(&self, team: &TeamName, request: &ClaimRequest) -> Result<Option<Claimed>>;

    /// Renews the lease of a claim. Not journalled.
    fn renew(
        &self,
        team: &TeamName,
        id: &TaskId,
        token: &Token,
        lease: Option<Duration>,
    ) -> Result<Claimed>;

    /// Completes a claimed task.
    fn complete(
        &self,
        team: &TeamName,
        id: &TaskId,
        token: &Token,
        result: Option<Value>,
    ) -> Result<Task>;

    /// Records a failed attempt.
    fn fail(&self, team: &TeamName, id: &TaskId, token: &Token, error: &str) -> Result<Task>;

    /// Puts a claimed task back because its worker needs an answer. The task cannot be claimed until the question is
    /// answered; no attempt is counted.
    fn block(&self, team: &TeamName, id: &TaskId, token: &Token, reason: &str) -> Result<Task>;

    /// Answers the question of a blocked task: the task can be claimed again, and its next worker gets the answer.
    fn unblock(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        answer: &str,
    ) -> Result<Task>;

    /// Releases a claimed task. Without a token it is forced by a person (`actor`).
    fn release(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        token: Option<&Token>,
    ) -> Result<Task>;

    /// Requeues the task of a worker that is proven dead, before its lease expires. The attempt counts, and there is no
    /// retry delay. Refused while there is any doubt.
    fn requeue(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task>;

    /// Resets a failed task so that it is tried again.
    fn retry(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task>;

    /// Records that the work of a completed task is merged, so that other tasks can build on it. Recording it twice
    /// changes nothing.
    fn merged(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        merge: &TaskMerge,
    ) -> Result<Task>;

    /// Records that a completed task changed nothing and needs no merge. Recording it twice changes nothing.
    fn unchanged(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task>;

    /// Revokes the record that the work of a task is merged, because it was not found in the team's branch. `lost` says
    /// what was looked for and where.
    fn merge_lost(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        lost: &LostMerge,
    ) -> Result<Task>;

    /// Marks a task that is not in progress as failed permanently, although it could be retried or was completed. Tasks
    /// that wait for it become visibly blocked.
    fn give_up(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        error: &str,
    ) -> Result<Task>;

    /// Sends a message; returns one message for each recipient.
    fn send(&self, team: &TeamName, outgoing: &OutgoingMessage) -> Result<Vec<Message>>;

    /// Moves the messages that Claude Code wrote to a worker, in its own format, into the worker's mailbox; returns
    /// their number.
    fn collect(&self, team: &TeamName, worker: &WorkerName) -> Result<usize>;

    /// Reads up to `limit` unacknowledged messages, and acknowledges them if `ack` is set.
    fn receive(
        &self,
        team: &TeamName,
        reader: &Reader,
        limit: usize,
        ack: bool,
    ) -> Result<Delivery>;

    /// Returns up to `limit` unacknowledged messages without marking them as delivered: the reader has not received
    /// them yet.
    fn peek(&self, team: &TeamName, reader: &Reader, limit: usize) -> Result<Delivery>;

    /// Acknowledges everything up to and including the message `id`; returns the number of acknowledged messages.
    fn acknowledge(&self, team: &TeamName, reader: &Reader, id: &str) -> Result<u64>;

    /// Asks a worker to stop.
    fn signal(
        &self,
        team: &TeamName,
        actor: &EventActor,
        worker: &WorkerName,
        signal: &Signal,
    ) -> Result<()>;

    /// Removes a worker's stop signals once it has obeyed them.
    fn clear_signals(&self, team: &TeamName, worker: &WorkerName) -> Result<()>;

    /// Writes an event that changes nothing else; returns its position.
    fn record(&self, team: &TeamName, event: NewEvent) -> Result<u64>;

    /// Returns everything of a team for another store, and the ids of the tasks in progress, which are released in the
    /// export. The team itself is not changed.
    fn export_team(&self, team: &TeamName) -> Result<(TeamExport, Vec<TaskId>)>;

    /// Creates a team from an export. Refused when a team of that name exists.
    fn import_team(&self, export: &TeamExport) -> Result<()>;
}

impl Reader {
    /// Returns the mailboxes it reads, given the workers that have an outbox.
    pub fn boxes(&self, outboxes: impl IntoIterator<Item = WorkerName>) -> Vec<Mailbox> {
        match self {
            Self::Worker(worker) => vec![Mailbox::Inbox(worker.clone())],
            Self::Lead => std::iter::once(Mailbox::Lead)
                .chain(outboxes.into_iter().map(Mailbox::Outbox))
                .collect(),
        }
    }

    /// Returns its name in messages and events.
    pub fn name(&self) -> &str {
        match self {
            Self::Worker(worker) => worker.as_str(),
            Self::Lead => "lead",
        }
    }
}
