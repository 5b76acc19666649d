//! The API under `/api/v1`: what is asked and answered beyond the model itself, its routes, and the documents that are made from
//! them.

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

/// Where the `OpenAPI` document lies, in the project.
pub const OPENAPI_FILE: &str = "docs/openapi.json";
/// Where the page's types lie, in the project.
pub const TYPESCRIPT_FILE: &str = "web/src/api.ts";

/// Why something was not done. The status of the answer follows from `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Refusal")]
pub struct ApiRefusal {
    /// What went wrong.
    pub error: ApiRefusalReason,
}

/// What went wrong, in the words of the command line's `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "RefusalReason")]
pub struct ApiRefusalReason {
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
    /// The sentences that have to hold when it is done.
    pub accept: Vec<String>,
    /// The commands that prove it done.
    pub verify: Vec<String>,
    /// What came of it, in its worker's words.
    pub summary: Option<String>,
    /// What whoever builds on it must know, in its worker's words.
    pub handover: Option<String>,
    /// What was left open, in its worker's words.
    pub problems: Vec<String>,
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
    pub messages: Vec<MessageView>,
    /// Whether there are older ones: ask again with `before` set to the `seq` of the first.
    pub more: bool,
}

/// A part of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Journal {
    /// The events, in order, redacted.
    pub events: Vec<Event>,
    /// Lines that are no events.
    pub problems: Vec<TeamProblem>,
    /// The last position of the journal.
    pub last: u64,
}

/// Something that is over but still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Zombie")]
pub struct ZombieRow {
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
    /// The same, by codes and parameters, for other languages.
    pub evidence_codes: Vec<PhraseKey>,
    /// What reaping does with it: `reap` or `keep`.
    pub action: String,
    /// What removes it, for a shell.
    pub command: String,
}

/// What is over but still there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Zombies {
    /// All of it.
    pub zombies: Vec<ZombieRow>,
}

/// What became of one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReapedOne {
    /// What it was.
    pub zombie: ZombieRow,
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

/// A request to remove what is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ReapWish")]
pub struct ReapBody {
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

/// A request that a worker stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StopWish")]
pub struct StopBody {
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
    /// The name of the worker.
    pub worker: String,
    /// How it ended, in one word.
    pub how: String,
    /// More about it.
    pub note: String,
}

/// What came of a request to stop. Stopping goes on for up to a minute; the stream of events tells.
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

/// An answer to a question of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuestionBody {
    /// What the agent is told; may be empty with `accept`.
    #[serde(default)]
    pub text: String,
    /// Make the task that the agent proposes.
    #[serde(default)]
    pub accept: bool,
}

/// What came of an answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QuestionReplied {
    /// The answer that was recorded.
    pub answer: String,
    /// The task that was made of a proposal.
    pub task: Option<TaskId>,
}

/// A decision about a plan that is proposed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanBody {
    /// The revision that was looked at: an answer to another one is refused.
    pub revision: u32,
    /// What is decided.
    pub decision: PlanWord,
    /// With `revise` what to change, with `reject` why, with `edit` the plan that takes its place, as the text of a plan file.
    #[serde(default)]
    pub text: String,
}

/// What is decided about a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanWord {
    /// Carry it out.
    Accept,
    /// End the run without work.
    Reject,
    /// Let the leader make another one.
    Revise,
    /// Put another one in its place.
    Edit,
}

/// A decision about a plan that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanReplied {
    /// Its place in the journal.
    pub seq: u64,
}

/// A decision about what an agent wants to do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionBody {
    /// The request, as the worker names it.
    pub request: String,
    /// Whether it may.
    pub allow: bool,
    /// Why not, in words for the agent.
    #[serde(default)]
    pub reason: String,
}

/// A decision that the agent was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RequestReplied {
    /// Whether it may.
    pub allowed: bool,
}

/// Sent as the event `hello` at the beginning of every stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hello {
    /// The version of teamster: a page of another one should load itself anew.
    pub version: String,
    /// The team that the stream is about; `null` for the stream of all teams.
    pub team: Option<String>,
}

/// Sent as the event `hello` at the beginning of a shared stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SharedHello {
    /// The name of the stream, for `follow`.
    pub stream: String,
}

/// Channels of a shared stream to be closed and opened, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowBody {
    /// The numbers of channels that nobody needs any more; one that is not open is passed over.
    #[serde(default)]
    pub close: Vec<u32>,
    /// What to tell from now on.
    #[serde(default)]
    pub open: Vec<OpenChannel>,
}

/// One channel of a shared stream: all teams, one team, or the log of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenChannel {
    /// The number that its events carry; a channel that has it already is closed.
    pub channel: u32,
    /// The team to hear about; without it, all teams in short.
    #[serde(default)]
    pub team: Option<String>,
    /// With `team`: `overview` events of all teams on the same channel.
    #[serde(default)]
    pub overview: bool,
    /// With `team`: the worker whose log is followed, instead of the team.
    #[serde(default)]
    pub worker: Option<String>,
    /// With `worker`: the task whose log is followed; without it, the latest and then the next.
    #[serde(default)]
    pub task: Option<String>,
    /// The id of the last event that the client has, as Last-Event-ID.
    #[serde(default)]
    pub last: Option<String>,
}

/// The channels of a shared stream after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Following {
    /// How many are open.
    pub channels: usize,
}

/// Sent as the event `refused` on a channel that cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChannelRefused {
    /// The status that a connection of its own would have got.
    pub status: u16,
    /// Why it cannot be opened.
    pub error: ApiRefusalReason,
}

/// Sent as the event `end` when nothing more comes on a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChannelEnd {
    /// The number of the channel.
    pub channel: u32,
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
