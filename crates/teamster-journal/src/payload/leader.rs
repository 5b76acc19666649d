//! Payloads about the leader of a run after planning (why it was woken, and what it did), and about the judge that
//! chooses one of several candidate results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use teamster_types::TaskId;
use teamster_types::phrase::PhraseKeys;

use super::list;

/// Why a leader is woken.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum WakeKind {
    /// A worker has a question, or cannot continue with its task.
    Question,
    /// A task failed permanently, or twice for the same reason.
    Failure,
    /// The work of a task conflicts with merged work, and the conflict could not be resolved.
    Conflict,
    /// A reviewer found something that has to be fixed.
    Findings,
    /// A person wrote to the leader.
    Message,
    /// A person at the gate wants something changed.
    Revision,
    /// A phase of the run's flow ends and needs the leader's summary.
    Phase,
}

/// One reason to wake a leader.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct WakeReason {
    /// The kind of the reason.
    pub kind: WakeKind,
    /// The subject: the id of a question or a task, or the position of an event.
    pub about: String,
}

impl WakeReason {
    /// Creates a reason with this subject.
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
    /// The id of the launched process, so that it is found if the host is killed.
    pub launch: String,
    /// Why the previous answer could not be carried out, if the leader is asked again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A task that a leader cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelledTask {
    /// The task.
    pub task: TaskId,
    /// Why the task is no longer needed.
    pub reason: String,
}

/// A review finding that a leader decided not to have fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DismissedFinding {
    /// The commit that was reviewed.
    pub commit: String,
    /// The number of the finding within the review, counted from 1.
    pub finding: usize,
    /// Why it is not fixed.
    pub reason: String,
}

/// The payload of `leader.acted`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LeaderActed {
    /// The number of the wake.
    pub wake: u32,
    /// The total number of actions.
    pub actions: usize,
    /// Tasks that were cancelled.
    #[serde(deserialize_with = "list")]
    pub cancelled: Vec<CancelledTask>,
    /// The leader's notes for the report.
    #[serde(deserialize_with = "list")]
    pub notes: Vec<String>,
    /// Review findings that are not fixed.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub dismissed: Vec<DismissedFinding>,
}

/// The payload of `leader.failed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LeaderFailed {
    /// The number of the wake.
    pub wake: u32,
    /// Why the wake failed.
    pub reason: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
}

/// The payload of `judge.asked`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct JudgeAsked {
    /// The judge: the name of a member.
    pub judge: String,
    /// The user's name for its agent.
    pub provider: String,
    /// The tasks whose results are the candidates.
    #[serde(deserialize_with = "list")]
    pub candidates: Vec<TaskId>,
    /// The id of the launched process, so that the next host can find it.
    pub launch: String,
}

/// The payload of `judge.failed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct JudgeFailed {
    /// The judge.
    pub judge: String,
    /// Why it chose none.
    pub reason: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
}

/// A result that was not chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherResult {
    /// The task.
    pub task: TaskId,
    /// The ref that preserves the work; `null` when there is none.
    #[serde(rename = "ref")]
    pub kept_as: Option<String>,
    /// Why it was not chosen.
    pub why: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(
        default,
        rename = "whyCodes",
        skip_serializing_if = "PhraseKeys::is_empty"
    )]
    pub why_codes: PhraseKeys,
}

/// The payload of `candidate.chosen`. The event's task is the one whose result was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CandidateChosen {
    /// The commit that was chosen.
    pub commit: String,
    /// Why it was chosen.
    pub reason: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
    /// The judge that chose it: the name of a member; `null` when the smallest passing result was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The other results.
    #[serde(deserialize_with = "list")]
    pub others: Vec<OtherResult>,
}
