//! What a store does, in the words of the domain.

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
use teamster_types::process::{Life, ProcessId};
use teamster_types::progress::Progress;
use teamster_types::session::ClientSession;
use teamster_types::task::{NewTask, Task, Token};
use teamster_types::team::{NewMember, NewTeam, TeamConfig};
use teamster_types::transitions::Edit;
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use crate::error::Result;
use crate::export::TeamExport;
use crate::watch::{Listen, Watch};

/// Who has the right to host a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRight {
    /// Whoever asked.
    Ours,
    /// Another process.
    Theirs(OtherHost),
}

/// Another process that hosts a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherHost {
    /// What it calls itself.
    pub holder: String,
    /// The process, where that can be read.
    pub process: Option<ProcessId>,
    /// How long its lease still lasts unless it is renewed.
    pub left: Duration,
}

/// A file that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Damaged {
    /// Which file, by its name.
    pub file: String,
    /// What is wrong with it.
    pub error: String,
}

/// A team that is there, readable or not.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamEntry {
    /// Its folder's name. A foreign program may have chosen any.
    pub name: String,
    /// Its registry, or what is wrong with it.
    pub config: Result<TeamConfig, String>,
}

/// All tasks of a team, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskList {
    /// Those that could be read.
    pub tasks: Vec<Task>,
    /// Those that could not.
    pub problems: Vec<Damaged>,
}

/// A worker's request for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Who asks.
    pub worker: WorkerName,
    /// A certain task; otherwise the next one that suits.
    pub id: Option<TaskId>,
    /// How long the claim lasts; otherwise the store's setting.
    pub lease: Option<Duration>,
}

/// A claim that was made or renewed.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The task as it is now.
    pub task: Task,
    /// The proof, for whoever claimed it.
    pub token: Token,
    /// Grows with every claim of this task.
    pub fence: u64,
    /// Until when the claim lasts unless renewed.
    pub leased_until: Time,
}

/// A task of a plan, whose blockers are other tasks of the same plan by their place in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlannedTask {
    /// The task. Its own `blocked_by` names tasks that exist already.
    pub task: NewTask,
    /// Places in the plan, counted from 0.
    pub after: Vec<usize>,
}

/// A proposal that becomes a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedProposal {
    /// The question that proposes it. It must be open.
    pub question: QuestionId,
    /// The place of the task among those that are created.
    pub place: usize,
    /// The task that the question is about.
    pub about: Option<TaskId>,
    /// What is answered besides the number of the task.
    pub words: String,
}

/// Changes of a team that belong together: all of them are made, or none. They are made in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TeamChanges {
    /// New tasks, as of a plan.
    pub create: Vec<PlannedTask>,
    /// Tasks that are replaced by new ones, each with the places of those in `create`. Whoever waited for it waits for all
    /// of them.
    pub split: Vec<(TaskId, Vec<usize>)>,
    /// Tasks whose fields change.
    pub update: Vec<(TaskId, Edit)>,
    /// Tasks that are removed, because nobody needs them any more. Whoever waited for one does so no longer.
    pub remove: Vec<TaskId>,
    /// Blocked tasks, each with what is answered to its worker.
    pub unblock: Vec<(TaskId, String)>,
    /// Results of which one was chosen, each with whether it is that one.
    pub choose: Vec<(TaskId, bool)>,
    /// The messages that are sent.
    pub send: Vec<Outgoing>,
    /// Proposals that new tasks are made of. Each is answered with the number of its task.
    pub accept: Vec<AcceptedProposal>,
    /// Events that change nothing else. A question that one of them answers must be open.
    pub record: Vec<NewEvent>,
}

/// How the work of a task was merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// What was merged: the commit of the task, or of the task that resolved its conflict.
    pub commit: String,
    /// The merge itself; `None` when all of it was there already.
    pub made: Option<String>,
    /// What came with it, by path.
    pub files: Vec<String>,
}

/// Work that was called merged and is not where it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostMerge {
    /// The commit that was looked for; `None` when the task has none.
    pub commit: Option<String>,
    /// The commit in which it was not found.
    pub head: String,
}

/// To whom a message goes.
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
pub struct Outgoing {
    /// Who sends it: a worker's name, `lead`, `user`, `system`.
    pub from: String,
    /// The recipient.
    pub to: Recipient,
    /// The type of the message, such as `message`, `context` or `task_complete`.
    pub kind: String,
    /// What it says.
    pub content: String,
    /// Keys that its type needs, such as `taskId`.
    pub extra: Object,
}

/// Whose mail is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A worker: its inbox.
    Worker(WorkerName),
    /// The lead: everyone's outbox, and its own inbox.
    Lead,
}

/// What a reader got.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delivery {
    /// Messages that are not acknowledged yet, in order for each sender.
    pub messages: Vec<Message>,
    /// Lines that are no messages.
    pub skipped: u64,
}

/// A message with where it lies and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Filed {
    /// Its box, as `inbox/worker-1`.
    pub mailbox: String,
    /// The message.
    pub message: Message,
    /// When its recipient got it: whoever reads its own mail, or the client of a worker's agent.
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
    /// Whether the current task is finished first.
    #[serde(skip)]
    pub drain: bool,
}

/// A part of the journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalPage {
    /// Events in order.
    pub events: Vec<Event>,
    /// Lines that are no events, by their place.
    pub damaged: Vec<Damaged>,
}

/// A team that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedTeam {
    /// Where its files are kept for a while.
    pub trash: Option<String>,
    /// Where its journal is kept.
    pub journal: Option<String>,
}

/// How many tasks are left of a team's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLeft {
    /// Tasks that somebody can get once what they wait for is done.
    pub pending: usize,
    /// Tasks that somebody works on.
    pub in_progress: usize,
}

/// A piece of a log file of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPiece {
    /// The name of the file, without a folder.
    pub file: String,
    /// Tells the file from any other, whatever it is called: a log that is put aside keeps it, one that is begun anew has another.
    pub identity: String,
    /// Where the piece begins in the file.
    pub from: u64,
    /// Where the next piece begins.
    pub next: u64,
    /// The content.
    pub text: String,
}

/// How far somebody on another machine knows a log file of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLog {
    /// The file, as [`LogPiece::identity`] tells it.
    pub identity: String,
    /// Where the next piece begins.
    pub next: u64,
}

/// What somebody on another machine has of a worker's logs, and wants the rest of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// The request's own id.
    pub id: String,
    /// The files that are known.
    pub present: Vec<KnownLog>,
}

/// Plain reads, and the beats that no lock protects.
pub trait Read: Send + Sync {
    /// Returns the time of the store's clock. Leases are judged by it alone.
    fn now(&self) -> Time;

    /// Notes that this process is to end: from now on it waits for a store that is away no longer than it must.
    fn hurry(&self) {}

    /// Returns every team there is.
    fn teams(&self) -> Result<Vec<TeamEntry>>;

    /// Returns a team's registry.
    fn team(&self, team: &TeamName) -> Result<TeamConfig>;

    /// Returns one task.
    fn task(&self, team: &TeamName, id: &TaskId) -> Result<Task>;

    /// Returns all tasks, as they were at one moment.
    fn tasks(&self, team: &TeamName) -> Result<TaskList>;

    /// Returns how far the team is, without reading more than needed.
    fn progress(&self, team: &TeamName) -> Result<(Progress, Vec<Damaged>)>;

    /// Returns how many tasks a worker may still get. Every worker that has nothing to do asks for it again and again, so it must cost
    /// little however many tasks there are.
    fn work_left(&self, team: &TeamName) -> Result<WorkLeft> {
        let (progress, _) = self.progress(team)?;
        Ok(WorkLeft {
            pending: progress.pending_tasks,
            in_progress: progress.in_progress_tasks,
        })
    }

    /// Returns how a task failed so far.
    fn failure(&self, team: &TeamName, id: &TaskId) -> Result<Option<Failure>>;

    /// Returns every message of a team with its receipts, oldest first in each box.
    fn messages(&self, team: &TeamName) -> Result<Vec<Filed>>;

    /// Messages that were sent before `before` and not delivered yet.
    fn undelivered(&self, team: &TeamName, before: Time) -> Result<Vec<Filed>>;

    /// Records that a worker's heart beats.
    fn beat(&self, heartbeat: &Heartbeat) -> Result<()>;

    /// Records the first beat of a launch, which takes the worker's seat. Returns false when another launch has taken it since
    /// somebody saw that of `seen` there, or none. Where all workers are on one machine a lock keeps the others out.
    fn take_seat(&self, heartbeat: &Heartbeat, _seen: Option<&str>) -> Result<bool> {
        self.beat(heartbeat).map(|()| true)
    }

    /// Asks a worker of another machine for what its logs have beyond `present`. Returns the id of the request, or `None` where all logs
    /// are on one machine.
    fn ask_for_logs(
        &self,
        _team: &TeamName,
        _worker: &WorkerName,
        _present: &[KnownLog],
    ) -> Result<Option<String>> {
        Ok(None)
    }

    /// Returns what a worker answered to a request for its logs; `None` while it has not.
    fn answered_logs(&self, _team: &TeamName, _request: &str) -> Result<Option<Vec<LogPiece>>> {
        Ok(None)
    }

    /// Returns the requests for its logs that a worker has to answer.
    fn log_requests(&self, _team: &TeamName, _worker: &WorkerName) -> Result<Vec<LogRequest>> {
        Ok(Vec::new())
    }

    /// Answers a request for logs.
    fn answer_logs(&self, _team: &TeamName, _request: &str, _pieces: &[LogPiece]) -> Result<()> {
        Ok(())
    }

    /// Takes a worker's heartbeat away, at its orderly end.
    fn end_beat(&self, team: &TeamName, worker: &WorkerName) -> Result<()>;

    /// Returns every heartbeat of a team, and those that could not be read.
    fn heartbeats(&self, team: &TeamName) -> Result<(Vec<Heartbeat>, Vec<Damaged>)>;

    /// Tells whether a process lives, as far as this store can tell.
    fn life(&self, process: &ProcessId) -> Life;

    /// Takes or renews the right to host a team for so long, unless another process has it. `gone` is a holder that is proven
    /// gone. Files need no such right: the lock of their machine is enough.
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

    /// Returns the process that has the right to host a team; `None` when nobody has, or nobody needs it.
    fn current_host(&self, team: &TeamName) -> Result<Option<OtherHost>> {
        let _ = team;
        Ok(None)
    }

    /// Gives the right to host a team back.
    fn release_host(&self, team: &TeamName, holder: &str) -> Result<()> {
        let _ = (team, holder);
        Ok(())
    }

    /// Returns the same store, whose changes are made only as long as `holder` has the right to host the team; `None` where
    /// nobody needs one.
    fn hosted_by(&self, holder: &str) -> Option<Arc<dyn Store>> {
        let _ = holder;
        None
    }

    /// Sessions of Claude Code that left a record on this machine.
    fn client_sessions(&self) -> Vec<ClientSession> {
        Vec::new()
    }

    /// Keeps a copy of the journal with the project's reports; where, if this store can do so.
    fn keep_journal(&self, team: &TeamName) -> Result<Option<String>> {
        let _ = team;
        Ok(None)
    }

    /// Returns the stop signals that wait for a worker.
    fn signals(&self, team: &TeamName, worker: &WorkerName) -> Result<Vec<Signal>>;

    /// Listens for a worker: for signals, and for anything that may have changed. Cheap, for whoever has nothing to do
    /// but to wait.
    fn listen(&self, team: &TeamName, worker: &WorkerName) -> Result<Box<dyn Listen>>;

    /// Returns the last position of the journal; 0 when it is empty.
    fn position(&self, team: &TeamName) -> Result<u64>;

    /// Returns up to `limit` events from position `from` on.
    fn events(&self, team: &TeamName, from: u64, limit: usize) -> Result<JournalPage>;

    /// Returns the last `count` events.
    fn last_events(&self, team: &TeamName, count: usize) -> Result<JournalPage>;

    /// Returns the first lines of the journal that are no events, by their places, and how many there are in all.
    fn damaged_lines(&self, _team: &TeamName) -> Result<(Vec<Damaged>, usize)> {
        Ok((Vec::new(), 0))
    }

    /// Returns the last event whose type begins with one of these.
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

    /// Returns the last event of each of several lists of types, in one go.
    fn last_of_each(&self, team: &TeamName, asked: &[&[&str]]) -> Result<Vec<Option<Event>>> {
        asked
            .iter()
            .map(|kinds| self.last_of(team, kinds))
            .collect()
    }

    /// Changes from now on, and events after position `after`.
    fn watch(&self, team: &TeamName, after: u64) -> Result<Box<dyn Watch>>;
}

/// Everything that changes a team. Each call happens whole or not at all.
pub trait Store: Read {
    /// Makes a team. `base` is the commit its work starts from.
    fn create_team(&self, new: &NewTeam, base: Option<&str>) -> Result<TeamConfig>;

    /// Adds a member, or changes its provider.
    fn join_team(&self, team: &TeamName, member: &NewMember) -> Result<TeamConfig>;

    /// Adds a worker of ours that is about to run, also to a team of Claude Code. Refused there when a teammate of the
    /// client has its name.
    fn enlist(&self, team: &TeamName, member: &NewMember) -> Result<TeamConfig>;

    /// Takes a worker of ours that has ended out of the registry of a team of Claude Code, with its inbox there; whether it
    /// was in it. In a team of ours a worker stays a member when it ends.
    fn dismiss(&self, team: &TeamName, actor: &EventActor, worker: &WorkerName) -> Result<bool>;

    /// Makes this process the host of a team's run, with this order if one is given, and records it with `event`.
    fn host_team(
        &self,
        team: &TeamName,
        order: Option<&Value>,
        event: NewEvent,
    ) -> Result<TeamConfig>;

    /// Removes a team. Refused while anybody of it is alive, and, unless forced, while a claim's lease runs.
    fn delete_team(&self, team: &TeamName, actor: &EventActor, force: bool) -> Result<DeletedTeam>;

    /// Makes a task.
    fn create_task(&self, team: &TeamName, actor: &EventActor, new: &NewTask) -> Result<Task>;

    /// Makes all tasks of a plan, or none.
    fn import_tasks(
        &self,
        team: &TeamName,
        actor: &EventActor,
        plan: &[PlannedTask],
    ) -> Result<Vec<Task>>;

    /// Makes several changes, or none; returns the new tasks.
    fn apply(
        &self,
        team: &TeamName,
        actor: &EventActor,
        changes: &TeamChanges,
    ) -> Result<Vec<Task>>;

    /// Changes fields of a task and the mirrors that follow from them.
    fn update_task(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        edit: &Edit,
    ) -> Result<Task>;

    /// Removes a task that nobody works on; those that waited for it do so no longer.
    fn delete_task(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task>;

    /// Gives a worker its next task, or the one it asked for. `None`: nothing is claimable.
    fn claim(&self, team: &TeamName, request: &ClaimRequest) -> Result<Option<Claimed>>;

    /// Makes a claim last longer. Not journalled.
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

    /// Puts a claimed task back because its worker cannot go on without an answer, and lets nobody claim it until
    /// somebody has answered. It loses no attempt.
    fn block(&self, team: &TeamName, id: &TaskId, token: &Token, reason: &str) -> Result<Task>;

    /// Answers the worker of a blocked task: the task can be claimed again, and whoever claims it is told.
    fn unblock(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        answer: &str,
    ) -> Result<Task>;

    /// Gives a task back. Without a token it is a person (`actor`) who insists.
    fn release(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        token: Option<&Token>,
    ) -> Result<Task>;

    /// Takes a task from a worker that is proven dead, without waiting for the end of its lease: the attempt counts,
    /// and nobody has to wait. Refused while there is any doubt.
    fn requeue(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task>;

    /// Lets a task that failed begin anew.
    fn retry(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task>;

    /// Notes that the work of a completed task is where others begin. Noting it twice changes nothing.
    fn merged(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        merge: &Merge,
    ) -> Result<Task>;

    /// Notes that a completed task changed nothing, so that there is nothing of it to merge. Noting it twice changes
    /// nothing.
    fn unchanged(&self, team: &TeamName, actor: &EventActor, id: &TaskId) -> Result<Task>;

    /// Takes back that the work of a task is merged, because it was not found in the team's branch. `lost` tells what
    /// was looked for and where.
    fn merge_lost(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        lost: &LostMerge,
    ) -> Result<Task>;

    /// Ends a task for good that nobody works on: it could be tried again, or was done, but it will not come to
    /// anything. Those that wait for it are blocked visibly.
    fn give_up(
        &self,
        team: &TeamName,
        actor: &EventActor,
        id: &TaskId,
        error: &str,
    ) -> Result<Task>;

    /// Sends a message; one for each recipient is returned.
    fn send(&self, team: &TeamName, outgoing: &Outgoing) -> Result<Vec<Message>>;

    /// Puts what Claude Code wrote into a worker's inbox of its own format into the worker's mailbox; how many messages
    /// those were.
    fn collect(&self, team: &TeamName, worker: &WorkerName) -> Result<usize>;

    /// Reads up to `limit` messages that are not acknowledged, and acknowledges them if asked.
    fn receive(
        &self,
        team: &TeamName,
        reader: &Reader,
        limit: usize,
        ack: bool,
    ) -> Result<Delivery>;

    /// Returns up to `limit` messages that are not acknowledged, and leaves the receipts as they are: whoever looks has not
    /// been told yet.
    fn peek(&self, team: &TeamName, reader: &Reader, limit: usize) -> Result<Delivery>;

    /// Acknowledges everything up to and with the message `id`; how many those were.
    fn acknowledge(&self, team: &TeamName, reader: &Reader, id: &str) -> Result<u64>;

    /// Asks a worker to stop.
    fn signal(
        &self,
        team: &TeamName,
        actor: &EventActor,
        worker: &WorkerName,
        signal: &Signal,
    ) -> Result<()>;

    /// Takes a worker's stop signals away once it has obeyed.
    fn clear_signals(&self, team: &TeamName, worker: &WorkerName) -> Result<()>;

    /// Writes an event that changes nothing else; its position.
    fn record(&self, team: &TeamName, event: NewEvent) -> Result<u64>;

    /// Returns everything of a team for another store, and the tasks that somebody works on here: in the export they are free
    /// again. The team itself is left as it is.
    fn export_team(&self, team: &TeamName) -> Result<(TeamExport, Vec<TaskId>)>;

    /// Makes a team of an export. There must be none of that name.
    fn import_team(&self, export: &TeamExport) -> Result<()>;
}

impl Reader {
    /// Returns the boxes it reads, given the workers that have an outbox.
    pub fn boxes(&self, outboxes: impl IntoIterator<Item = WorkerName>) -> Vec<Mailbox> {
        match self {
            Self::Worker(worker) => vec![Mailbox::Inbox(worker.clone())],
            Self::Lead => std::iter::once(Mailbox::Lead)
                .chain(outboxes.into_iter().map(Mailbox::Outbox))
                .collect(),
        }
    }

    /// Its name in messages and events.
    pub fn name(&self) -> &str {
        match self {
            Self::Worker(worker) => worker.as_str(),
            Self::Lead => "lead",
        }
    }
}
