//! Workers, tasks and messages of a team.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_types::graph::{Blocker, Standing, State, standing};
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
    /// What it is for, where a run or a session says so.
    pub role: Option<String>,
    /// Which client it drives.
    pub provider: String,
    /// Which model it uses, where that is known.
    pub model: Option<String>,
    /// How it runs.
    pub backend_type: String,
    /// What it is doing, as its bridge, its client or the journal says: `polling`, `executing`, `idle`, `spawning`,
    /// `working`, `completed`, `failed`, `stopped` and others.
    pub status: Option<String>,
    /// How it is.
    pub verdict: Verdict,
    /// What the verdict rests on, in words.
    pub evidence: Vec<String>,
    /// The codes of these sentences, in the same order, for other languages.
    pub evidence_codes: Vec<PhraseKey>,
    /// Its bridge's process.
    pub pid: Option<u32>,
    /// The task it works on.
    pub current_task_id: Option<TaskId>,
    /// What that task is, in words.
    pub current_task: Option<String>,
    /// Since when it works on that, or does nothing.
    pub since: Option<Time>,
    /// When its bridge last looked for work.
    pub last_poll_at: Option<Time>,
    /// When it or its agent last did anything.
    pub last_event_at: Option<Time>,
    /// Errors since its last success.
    pub consecutive_errors: u32,
    /// Tasks it completed.
    pub tasks_completed: u64,
    /// Attempts of it that failed.
    pub attempts_failed: u64,
    /// What it spent.
    pub spent: Spent,
    /// What its agent wants to do and a person has to decide.
    pub requests: Vec<PermissionRequest>,
    /// It was asked to stop: `shutdown` or `drain`.
    pub asked_to: Option<String>,
}

/// One task with its place in the graph.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskRow {
    /// Its id.
    pub id: TaskId,
    /// What to do.
    pub subject: String,
    /// The word in the file: `pending`, `in_progress` or `completed`.
    pub status: String,
    /// Where it stands.
    pub state: State,
    /// Why it stands there, in words.
    pub reason: String,
    /// The codes of these sentences, for other languages.
    pub reason_codes: Vec<PhraseKey>,
    /// Who has it.
    pub owner: Option<String>,
    /// What it waits for.
    pub blocked_by: Vec<TaskId>,
    /// Its place in the graph: 0 waits for nothing, every other one is behind all that it waits for.
    pub level: usize,
    /// Whether it is part of the longest chain of tasks that are not completed.
    pub critical: bool,
    /// Whether it is claimed by name only, and counts in no progress.
    pub internal: bool,
    /// Attempts that failed.
    pub attempts: u32,
    /// When it was last claimed.
    pub started_at: Option<Time>,
    /// When it was completed or failed for good.
    pub ended_at: Option<Time>,
    /// The task that it repairs: this one was made by a failed verification or a conflict.
    pub fixes: Option<TaskId>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Message")]
pub struct MessageView {
    /// Its place in the journal; 0 in a session's state file, which has none.
    pub seq: u64,
    /// Its id; empty for one that went to everybody.
    pub id: String,
    /// What sort of message it is: `message`, `context`, `task_complete` and others.
    #[serde(rename = "type")]
    pub kind: String,
    /// Who sent it.
    pub from: String,
    /// To whom; `all` for everybody.
    pub to: String,
    /// What it says.
    pub content: String,
    /// When it was sent.
    pub sent_at: Option<Time>,
    /// About which task.
    pub task_id: Option<TaskId>,
}

impl WorkerView {
    /// Somebody of whom only the name is known.
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

    /// Returns how it is, in a word for people.
    pub fn word(&self) -> &'static str {
        word(self.status.as_deref(), self.verdict)
    }

    /// Whether somebody would look for it among very many: it works, asks, or is not well.
    pub(crate) fn matters(&self) -> bool {
        self.current_task_id.is_some()
            || self.current_task.is_some()
            || !self.requests.is_empty()
            || !matches!(self.verdict, Verdict::Healthy | Verdict::Unknown)
    }

    /// The present, as every surface tells it.
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
    /// A task of which only itself is known, not those that it waits for.
    pub fn plain(task: &Task) -> Self {
        let standing = standing(task, Time::from_millis(0), |_| Blocker::Open);
        Self::of(task, standing)
    }

    /// A task that was judged, without its place in the graph and its times.
    pub(crate) fn of(task: &Task, standing: Standing) -> Self {
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
