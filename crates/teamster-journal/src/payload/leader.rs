//! Payloads about the agent that leads a run, after it has planned: why it was woken, and what it did; and about whoever
//! chooses one of several results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use teamster_types::TaskId;
use teamster_types::phrase::PhraseKeys;

use super::list;

/// What a leader is woken for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum WakeKind {
    /// A worker asks something, or cannot go on with its task.
    Question,
    /// A task failed for good, or twice for the same reason.
    Failure,
    /// The work of a task conflicts with what is merged, and nobody could resolve that.
    Conflict,
    /// A reviewer found something that has to be fixed.
    Findings,
    /// A person wrote to the leader.
    Message,
    /// A person at the gate wants something changed.
    Revision,
    /// A phase of the run's flow ends with what the leader says about it.
    Phase,
}

/// One reason to wake a leader.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct WakeReason {
    /// The kind of the reason.
    pub kind: WakeKind,
    /// What it is about: the id of a question or a task, or the position of an event.
    pub about: String,
}

impl WakeReason {
    /// Returns a reason about something.
    pub fn new(kind: WakeKind, about: impl Into<String>) -> Self {
        let about = about.into();
        Self { kind, about }
    }
}

/// The payload of `leader.woken`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LeaderWoken {
    /// The number of this wake in the run, counted from 1.
    pub wake: u32,
    /// Why the leader was woken.
    #[serde(deserialize_with = "list")]
    pub reasons: Vec<WakeReason>,
    /// Names what was started, so that it is found should the host be killed.
    pub launch: String,
    /// Why the answer before could not be carried out, where the leader is asked the same again, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A task that a leader cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelledTask {
    /// The task.
    pub task: TaskId,
    /// Why nobody needs it any more, in words.
    pub reason: String,
}

/// A finding of a review that a leader decided not to have fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DismissedFinding {
    /// The commit that was reviewed.
    pub commit: String,
    /// The place of the finding among those of the review, counted from 1.
    pub finding: usize,
    /// Why it is not fixed, in words.
    pub reason: String,
}

/// The payload of `leader.acted`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LeaderActed {
    /// The number of the wake.
    pub wake: u32,
    /// How many actions were taken, all of them together.
    pub actions: usize,
    /// Tasks that were cancelled.
    #[serde(deserialize_with = "list")]
    pub cancelled: Vec<CancelledTask>,
    /// What the leader wrote down for the report.
    #[serde(deserialize_with = "list")]
    pub notes: Vec<String>,
    /// Findings of a review that are not fixed.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub dismissed: Vec<DismissedFinding>,
}

/// The payload of `leader.failed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LeaderFailed {
    /// The number of the wake.
    pub wake: u32,
    /// Why it came to nothing, in words.
    pub reason: String,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
}

/// The payload of `judge.asked`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct JudgeAsked {
    /// Who is to choose: the name of a member.
    pub judge: String,
    /// What the user calls its agent.
    pub provider: String,
    /// The tasks whose results there are to choose from.
    #[serde(deserialize_with = "list")]
    pub candidates: Vec<TaskId>,
    /// Names the process that was started, so that a successor finds it.
    pub launch: String,
}

/// The payload of `judge.failed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct JudgeFailed {
    /// Who was to choose.
    pub judge: String,
    /// Why nothing came of it, in words.
    pub reason: String,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
}

/// A result that was not chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherResult {
    /// The task.
    pub task: TaskId,
    /// The reference that keeps the work; `null` when there is none.
    #[serde(rename = "ref")]
    pub kept_as: Option<String>,
    /// Why it was not chosen, in words.
    pub why: String,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(
        default,
        rename = "whyCodes",
        skip_serializing_if = "PhraseKeys::is_empty"
    )]
    pub why_codes: PhraseKeys,
}

/// The payload of `candidate.chosen`. The event is about the task whose result was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CandidateChosen {
    /// The commit that was chosen.
    pub commit: String,
    /// Why it was chosen, in words.
    pub reason: String,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
    /// Who chose it: the name of a member; `null` when it is the smallest that passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The other results.
    #[serde(deserialize_with = "list")]
    pub others: Vec<OtherResult>,
}
