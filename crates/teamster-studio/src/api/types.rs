//! What is asked and answered beyond the model itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use teamster_journal::Event;
use teamster_types::{TaskId, Time};
use teamster_view::model::{Message, Spent, TaskRow};
use teamster_view::status::Problem;

/// Why something was not done. The status of the answer follows from `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Refusal {
    /// What went wrong.
    pub error: RefusalReason,
}

/// What went wrong, in the words of the command line's `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusalReason {
    /// `usage`, `not_found`, `conflict`, `nothing`, `refused`, `unreachable` or `failed`.
    pub kind: String,
    /// What happened, to what.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// The server itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// The version of teamster.
    pub version: String,
    /// When it was started.
    pub started_at: Time,
    /// What time it is here: ages are counted from this.
    pub now: Time,
}

/// Everything about one task.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskDetail {
    /// The task as the team shows it.
    pub task: TaskRow,
    /// What to do, in full: this is what the agent is told.
    pub description: String,
    /// What a worker must be able to do.
    pub capabilities: Vec<String>,
    /// What it reserves.
    pub paths: Vec<String>,
    /// The tasks that wait for it.
    pub blocks: Vec<TaskId>,
    /// Until when its claim lasts.
    pub leased_until: Option<Time>,
    /// What came of it, in words.
    pub summary: Option<String>,
    /// The commit that holds what came of it.
    pub commit: Option<String>,
    /// The files that were changed, at most 200.
    pub files: Vec<String>,
    /// The last error.
    pub error: Option<String>,
    /// What was spent on it.
    pub spent: Spent,
    /// What happened to it, the newest last, at most 200.
    pub events: Vec<Event>,
}

/// Messages from the journal, for whoever wants more than the last 50.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Messages {
    /// The messages, the oldest first.
    pub messages: Vec<Message>,
    /// Whether there are older ones: ask again with `before` set to the `seq` of the first.
    pub more: bool,
}

/// A part of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Journal {
    /// The events, in order, redacted.
    pub events: Vec<Event>,
    /// Lines that are no events.
    pub problems: Vec<Problem>,
    /// The last position of the journal.
    pub last: u64,
}

/// Something that is over but still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Zombie {
    /// `team`, `worker`, `worktree`, `lock` or `pane`.
    pub kind: String,
    /// Its name. A foreign program may have chosen any.
    pub name: String,
    /// The team it belongs to.
    pub team: String,
    /// Its age in seconds.
    pub age: u64,
    /// Why this is said.
    pub evidence: Vec<String>,
    /// What reaping does with it: `reap` or `keep`.
    pub action: String,
    /// What removes it, for a shell.
    pub command: String,
}

/// What is over but still there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Zombies {
    /// All of it.
    pub zombies: Vec<Zombie>,
}

/// What became of one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReapedOne {
    /// What it was.
    pub zombie: Zombie,
    /// Whether it is gone.
    pub reaped: bool,
    /// Why it could not be removed.
    pub problem: Option<String>,
}

/// What was reaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reaped {
    /// Each that was found.
    pub zombies: Vec<ReapedOne>,
    /// Whether it was only looked.
    pub dry_run: bool,
}

/// The wish to remove what is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReapWish {
    /// Only say what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// A worker's name, `lead` or `all`.
    pub to: String,
    /// What it says, at most 64 KiB.
    pub text: String,
}

/// What was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sent {
    /// The ids of the messages, one for each recipient.
    pub ids: Vec<String>,
}

/// The wish that a worker stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopWish {
    /// Let it finish its current task.
    #[serde(default)]
    pub drain: bool,
    /// Do not ask.
    #[serde(default)]
    pub force: bool,
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkerEnd {
    /// Who.
    pub worker: String,
    /// How.
    pub how: String,
    /// More about it.
    pub note: String,
}

/// What came of a wish to stop. Stopping goes on for up to a minute; the stream of events tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stopping {
    /// How each ended.
    pub workers: Vec<WorkerEnd>,
    /// Whether everyone is proven gone.
    pub verified: bool,
}

/// An answer at the gate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswer {
    /// Which gate: an answer for one that is closed is refused.
    pub gate: String,
    /// The commit that was looked at.
    pub commit: String,
    /// `approve`, `reject` or `revise`.
    pub answer: ApprovalWord,
    /// With `reject`: take the work back.
    #[serde(default)]
    pub rollback: bool,
    /// With `revise`: what to change.
    #[serde(default)]
    pub text: String,
}

/// What is answered at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalWord {
    /// Land it.
    Approve,
    /// Do not.
    Reject,
    /// Change something first.
    Revise,
}

/// An answer that was handed to the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Answered {
    /// Its place in the journal.
    pub seq: u64,
}

/// Sent as the event `hello` at the beginning of every stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hello {
    /// The version of teamster: a page of another one should load itself anew.
    pub version: String,
    /// The team that the stream is about; `null` for the stream of all teams.
    pub team: Option<String>,
}

/// Sent as the event `lagging` to a client that reads too slowly, before the stream ends. The client comes back with its
/// last event id and misses nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lagging {
    /// In words.
    pub message: String,
}

/// Sent as the event `gone` when the team is not there any more, before the stream ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Gone {
    /// In words.
    pub message: String,
}
