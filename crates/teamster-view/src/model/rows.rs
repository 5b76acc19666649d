//! Workers, tasks and messages of a team.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_types::graph::{Blocker, ExplainedState, State, explain_state};
use teamster_types::health::Verdict;
use teamster_types::phrase::{Phrase, PhraseKey};
use teamster_types::task::Task;
use teamster_types::{TaskId, Time};

use super::cost::Spent;
use crate::workers::{WorkerRow, word};
pub use teamster_journal::PermissionRequest;

/// One worker, or a teammate of a session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Worker")]
pub struct WorkerView {
    /// Its name.
    pub name: String,
    /// Its role, if a run or a session defines one.
    pub role: Option<String>,
    /// The client that it drives.
    pub provider: String,
    /// The model that it uses, if known.
    pub model: Option<String>,
    /// The backend that it runs on.
    pub backend_type: String,
    /// Its activity according to its bridge, its client or the journal: `polling`, `executing`, `idle`, `spawning`,
    /// `working`, `completed`, `failed`, `stopped` and others.
    pub status: Option<String>,
    /// The verdict on its health.
    pub verdict: Verdict,
    /// The evidence for the verdict.
    pub evidence: Vec<String>,
    /// The message codes of these sentences, in the same order, for translation.
    pub evidence_codes: Vec<PhraseKey>,
    /// The process of its bridge.
    pub pid: Option<u32>,
    /// The task it works on.
    pub current_task_id: Option<TaskId>,
    /// The subject of that task.
    pub current_task: Option<String>,
    /// Since when it has worked on the task, or been idle.
    pub since: Option<Time>,
    /// When its bridge last polled for work.
    pub last_poll_at: Option<Time>,
    /// When it or its agent was last active.
    pub last_event_at: Option<Time>,
    /// Errors since its last success.
    pub consecutive_errors: u32,
    /// Tasks it completed.
    pub tasks_completed: u64,
    /// Attempts that failed.
    pub attempts_failed: u64,
    /// Its costs.
    pub spent: Spent,
    /// Its agent's permission requests that wait for a person.
    pub requests: Vec<PermissionRequest>,
    /// The signal that asked it to stop: `shutdown` or `drain`.
    pub asked_to: Option<String>,
}

/// One task with its level in the graph.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskRow {
    /// Its id.
    pub id: TaskId,
    /// The subject of the task.
    pub subject: String,
    /// The status in the task file: `pending`, `in_progress` or `completed`.
    pub status: String,
    /// Its state.
    pub state: State,
    /// The reason for that state.
    pub reason: String,
    /// The message codes of this text, for translation.
    pub reason_codes: Vec<PhraseKey>,
    /// The owner of the task.
    pub owner: Option<String>,
    /// The tasks that it waits for.
    pub blocked_by: Vec<TaskId>,
    /// Its level in the graph: 0 waits for nothing; every other task has a higher level than all its blockers.
    pub level: usize,
    /// Whether it is part of the longest chain of uncompleted tasks.
    pub critical: bool,
    /// Whether it can only be claimed by its id, and is not counted in the progress.
    pub internal: bool,
    /// Attempts that failed.
    pub attempts: u32,
    /// When it was last claimed.
    pub started_at: Option<Time>,
    /// When it was completed or failed permanently.
    pub ended_at: Option<Time>,
    /// The task that it repairs, if it was created for a failed verification or a conflict.
    pub fixes: Option<TaskId>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Message")]
pub struct MessageView {
    /// Its place in the journal; 0 in a session's state file, which has none.
    pub seq: u64,
    /// Its id; empty for a broadcast.
    pub id: String,
    /// The type of the message: `message`, `context`, `task_complete` and others.
    #[serde(rename = "type")]
    pub kind: String,
    /// The sender.
    pub from: String,
    /// The recipient; `all` for a broadcast.
    pub to: String,
    /// The text.
    pub content: String,
    /// When it was sent.
    pub sent_at: Option<Time>,
    /// The task that it concerns.
    pub task_id: Option<TaskId>,
}

impl WorkerView {
    /// Creates a worker of which only the name is known.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            role: None,
            provider: String::new(),
            model: None,
            backend_type: String::new(),
            status: None,
            verdict: Verdict::Unknown,
            evidence: Vec::new(),
            evidence_codes: Vec::new(),
            pid: None,
            current_task_id: None,
            current_task: None,
            since: None,
            last_poll_at: None,
            last_event_at: None,
            consecutive_errors: 0,
            tasks_completed: 0,
            attempts_failed: 0,
            spent: Spent::default(),
            requests: Vec::new(),
            asked_to: None,
        }
    }

    /// Returns its condition in one word, for people.
    pub fn word(&self) -> &'static str {
        word(self.status.as_deref(), self.verdict)
    }

    /// Returns whether it should be shown among many workers: it works, asks, or is unhealthy.
    pub(crate) fn matters(&self) -> bool {
        self.current_task_id.is_some()
            || self.current_task.is_some()
            || !self.requests.is_empty()
            || !matches!(self.verdict, Verdict::Healthy | Verdict::Unknown)
    }

    /// Converts a row of the current worker list.
    pub(crate) fn of(row: WorkerRow) -> Self {
        Self {
            provider: row.provider,
            backend_type: row.backend_type,
            status: row.status.map(str::to_owned),
            verdict: row.verdict,
            evidence: Phrase::texts(&row.evidence),
            evidence_codes: Phrase::keys(&row.evidence),
            pid: row.pid,
            current_task_id: row.current_task_id,
            last_poll_at: row.last_poll_at,
            last_event_at: row.last_event_at,
            consecutive_errors: row.consecutive_errors,
            ..Self::named(&row.name)
        }
    }
}

impl TaskRow {
    /// Creates the row of a task without knowledge of its blockers.
    pub fn plain(task: &Task) -> Self {
        let standing = explain_state(task, Time::from_millis(0), |_| Blocker::Open);
        Self::of(task, standing)
    }

    /// Creates the row of an evaluated task, without its level in the graph and its times.
    pub(crate) fn of(task: &Task, standing: ExplainedState) -> Self {
        Self {
            id: task.id().clone(),
            subject: task.subject().to_owned(),
            status: task.status().as_str().to_owned(),
            state: standing.state,
            reason: standing.reason,
            reason_codes: standing.phrases,
            owner: task.owner().map(str::to_owned),
            blocked_by: task.blocked_by().to_vec(),
            level: 0,
            critical: false,
            internal: task.is_internal(),
            attempts: task.failed_attempts(),
            started_at: None,
            ended_at: None,
            fixes: None,
        }
    }
}
