//! The API under `/api/v1`: its request and response types beyond the model itself, its routes, and the documents that
//! are generated from them.

mod openapi;
mod routes;
mod typescript;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use teamster_journal::Event;
use teamster_types::phrase::PhraseKey;
use teamster_types::{TaskId, Time};
use teamster_view::model::{MessageView, Spent, TaskRow};
use teamster_view::status::TeamProblem;

pub use teamster_app::diffs::{Branch, ChangedFile, Changes, Diff};
pub use teamster_app::logs::{Log, LogLine, LogPart};

pub use openapi::openapi;
pub use routes::{ApiRoute, Describe, Method, Parameter, ROUTES};
pub use typescript::typescript;

/// The path of the `OpenAPI` document in the project.
pub const OPENAPI_FILE: &str = "docs/openapi.json";
/// The path of the page's types in the project.
pub const TYPESCRIPT_FILE: &str = "web/src/api.ts";

/// An error response. The HTTP status follows from `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Refusal")]
pub struct ApiRefusal {
    /// What went wrong.
    pub error: ApiRefusalReason,
}

/// The error, in the format of the command line's `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "RefusalReason")]
pub struct ApiRefusalReason {
    /// `usage`, `not_found`, `conflict`, `nothing`, `refused`, `unreachable` or `failed`.
    pub kind: String,
    /// The message: what failed, and on what.
    pub message: String,
    /// What the user can do about it.
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
    /// The server's current time, from which ages are calculated.
    pub now: Time,
}

/// Everything about one task.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskDetail {
    /// The task as the team shows it.
    pub task: TaskRow,
    /// The full description, which is what the agent is given.
    pub description: String,
    /// The capabilities that a worker must have.
    pub capabilities: Vec<String>,
    /// The paths that it reserves.
    pub paths: Vec<String>,
    /// The tasks that wait for it.
    pub blocks: Vec<TaskId>,
    /// When the lease of its claim expires.
    pub leased_until: Option<Time>,
    /// The acceptance criteria.
    pub accept: Vec<String>,
    /// The commands that verify it.
    pub verify: Vec<String>,
    /// The result, as its worker describes it.
    pub summary: Option<String>,
    /// What later tasks must know, as its worker describes it.
    pub handover: Option<String>,
    /// What was left open, as its worker describes it.
    pub problems: Vec<String>,
    /// The commit with the result.
    pub commit: Option<String>,
    /// The files that were changed, at most 200.
    pub files: Vec<String>,
    /// The last error.
    pub error: Option<String>,
    /// The costs of the task.
    pub spent: Spent,
    /// The events about it, the newest last, at most 200.
    pub events: Vec<Event>,
}

/// Messages from the journal, beyond the last 50 of the view.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Messages {
    /// The messages, the oldest first.
    pub messages: Vec<MessageView>,
    /// Whether there are older ones: request them with `before` set to the `seq` of the first.
    pub more: bool,
}

/// A part of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Journal {
    /// The events, in order, redacted.
    pub events: Vec<Event>,
    /// Lines that are not events.
    pub problems: Vec<TeamProblem>,
    /// The last position of the journal.
    pub last: u64,
}

/// A leftover: a team, process or worktree whose work has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Zombie")]
pub struct ZombieRow {
    /// `team`, `worker`, `worktree`, `lock` or `pane`.
    pub kind: String,
    /// Its name. Another program may have chosen any name.
    pub name: String,
    /// The team it belongs to.
    pub team: String,
    /// Its age in seconds.
    pub age: u64,
    /// The evidence that it is a leftover.
    pub evidence: Vec<String>,
    /// The message codes of the evidence, for translation.
    pub evidence_codes: Vec<PhraseKey>,
    /// What `reap` does with it: `reap` or `keep`.
    pub action: String,
    /// The shell command that removes it.
    pub command: String,
}

/// The leftovers on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Zombies {
    /// The leftovers.
    pub zombies: Vec<ZombieRow>,
}

/// The result for one leftover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReapedOne {
    /// The leftover.
    pub zombie: ZombieRow,
    /// Whether it was removed.
    pub reaped: bool,
    /// Why it could not be removed.
    pub problem: Option<String>,
}

/// The result of removing leftovers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reaped {
    /// Each leftover that was found.
    pub zombies: Vec<ReapedOne>,
    /// Whether nothing was removed because only a preview was requested.
    pub dry_run: bool,
}

/// A request to remove leftovers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ReapWish")]
pub struct ReapBody {
    /// Whether to only report what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// A worker's name, `lead` or `all`.
    pub to: String,
    /// The text, at most 64 KiB.
    pub text: String,
}

/// The messages that were sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sent {
    /// The ids of the messages, one for each recipient.
    pub ids: Vec<String>,
}

/// A request that a worker stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StopWish")]
pub struct StopBody {
    /// Whether it may finish its current task first.
    #[serde(default)]
    pub drain: bool,
    /// Whether to stop it without asking it first.
    #[serde(default)]
    pub force: bool,
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkerEnd {
    /// The name of the worker.
    pub worker: String,
    /// How it ended, in one word.
    pub how: String,
    /// What else there is to say, such as why it is still running; empty when there is nothing.
    pub note: String,
}

/// The result of a request to stop. Stopping takes up to a minute; the event stream reports the progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stopping {
    /// How each ended.
    pub workers: Vec<WorkerEnd>,
    /// Whether every worker is proven to be gone.
    pub verified: bool,
}

/// An answer at the gate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswer {
    /// The opening of the gate that is answered; an answer to a closed one is rejected.
    pub gate: String,
    /// The commit that was shown.
    pub commit: String,
    /// `approve`, `reject` or `revise`.
    pub answer: ApprovalWord,
    /// With `reject`: whether to roll the work back.
    #[serde(default)]
    pub rollback: bool,
    /// With `revise`: the changes that are needed.
    #[serde(default)]
    pub text: String,
}

/// The answer at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalWord {
    /// The work may land.
    Approve,
    /// The work may not land.
    Reject,
    /// The work needs changes first.
    Revise,
}

/// An answer that was submitted to the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Answered {
    /// Its position in the journal.
    pub seq: u64,
}

/// An answer to a question of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuestionBody {
    /// The answer for the agent; may be empty with `accept`.
    #[serde(default)]
    pub text: String,
    /// Whether to create the task that the agent proposes.
    #[serde(default)]
    pub accept: bool,
}

/// The result of answering a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QuestionReplied {
    /// The answer that was recorded.
    pub answer: String,
    /// The task that was created from a proposal.
    pub task: Option<TaskId>,
}

/// A decision about a proposed plan.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanBody {
    /// The revision that was shown; an answer to another one is rejected.
    pub revision: u32,
    /// The decision.
    pub decision: PlanWord,
    /// With `revise` the changes that are needed, with `reject` the reason, with `edit` the replacement plan as the
    /// text of a plan file.
    #[serde(default)]
    pub text: String,
}

/// The decision about a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanWord {
    /// The plan is carried out.
    Accept,
    /// The run ends without work.
    Reject,
    /// The leader makes another plan.
    Revise,
    /// The given plan replaces it.
    Edit,
}

/// A decision about a plan that took effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanReplied {
    /// Its position in the journal.
    pub seq: u64,
}

/// A decision about a permission request of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionBody {
    /// The id of the request.
    pub request: String,
    /// Whether it is allowed.
    pub allow: bool,
    /// Why it is denied, for the agent.
    #[serde(default)]
    pub reason: String,
}

/// A decision that was passed to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RequestReplied {
    /// Whether it is allowed.
    pub allowed: bool,
}

/// Sent as the event `hello` at the start of every stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hello {
    /// The version of teamster; a page of another version should reload.
    pub version: String,
    /// The team that the stream is about; `null` for the stream of all teams.
    pub team: Option<String>,
}

/// Sent as the event `hello` at the start of a shared stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SharedHello {
    /// The id of the stream, for `follow`.
    pub stream: String,
}

/// The channels of a shared stream to close and then to open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowBody {
    /// The numbers of the channels to close; numbers that are not open are ignored.
    #[serde(default)]
    pub close: Vec<u32>,
    /// The channels to open.
    #[serde(default)]
    pub open: Vec<OpenChannel>,
}

/// One channel of a shared stream: all teams, one team, or the log of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenChannel {
    /// The number that its events carry; an open channel with the same number is closed.
    pub channel: u32,
    /// The team to follow; without it, the overview of all teams.
    #[serde(default)]
    pub team: Option<String>,
    /// With `team`: whether to send the `overview` events of all teams on the same channel.
    #[serde(default)]
    pub overview: bool,
    /// With `team`: the worker whose log to follow, instead of the team.
    #[serde(default)]
    pub worker: Option<String>,
    /// With `worker`: the task whose log to follow; without it, the latest and then each next one.
    #[serde(default)]
    pub task: Option<String>,
    /// The id of the last event that the client received, as in Last-Event-ID.
    #[serde(default)]
    pub last: Option<String>,
}

/// The channels of a shared stream after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Following {
    /// The number of open channels.
    pub channels: usize,
}

/// Sent as the event `refused` on a channel that cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChannelRefused {
    /// The HTTP status that a separate connection would have received.
    pub status: u16,
    /// Why it cannot be opened.
    pub error: ApiRefusalReason,
}

/// Sent as the event `end` when a channel has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChannelEnd {
    /// The number of the channel.
    pub channel: u32,
}

/// Sent as the event `lagging` to a client that reads too slowly, before the stream ends. The client reconnects with
/// its last event id and misses nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lagging {
    /// The explanation, as text.
    pub message: String,
}

/// Sent as the event `gone` when the team no longer exists, before the stream ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Gone {
    /// The explanation, as text.
    pub message: String,
}
