//! The payloads of events. Each is a struct whose fields are the keys of `data` in the journal.
//!
//! Reading is lenient, because older and newer versions write the same kinds: a missing key becomes empty, `None` or
//! `false`, and an unknown key is ignored. Writing is exact.

mod check;
mod cost;
mod gate;
mod leader;
mod merge;
mod plan;
mod question;
mod review;
mod run;
mod run_spec;
mod task;
mod team;
mod worker;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub use check::{Check, CheckOrigin, CheckResult, CheckStarted, CheckVerdict, Checked};
pub use cost::{Budget, BudgetExhausted, BudgetReserved, Limit, UsageReported};
pub use gate::{
    DeniedBy, DeniedRequest, FileChange, Finding, GateAnswer, GateDecided, GateOpened, GateShown,
    GivenUp, LONGEST_FINDING, MOST_FILES, Outside, Shown, Unverified, WorkerWords,
};
pub use leader::{
    CancelledTask, CandidateChosen, DismissedFinding, JudgeAsked, JudgeFailed, LeaderActed,
    LeaderFailed, LeaderWoken, OtherResult, WakeKind, WakeReason,
};
pub use merge::{
    CaughtUp, MergeAdopted, MergeConflict, MergeLost, MergePredicted, Merged, Prediction,
};
pub use plan::{
    PlanAnswer, PlanAnswered, PlanAuthor, PlanDecision, PlanDraft, PlanDraftTask, PlanFailed,
    PlanProposed, UnusableAnswer,
};
pub use question::{
    Addressee, FindingAdded, NoQuestionId, ProposedTask, QuestionAnswered, QuestionAsked,
    QuestionExpired, QuestionForwarded, QuestionId, QuestionKind, WorkerProgress,
};
pub use review::{
    Criterion, ReviewFailed, ReviewFinding, ReviewFinished, ReviewMode, ReviewSkipped,
    ReviewStarted, ReviewVerdict, Severity,
};
pub use run::{
    FilesRecorded, LeaderAsked, PhaseEntered, PlanMade, PlannedTaskEntry, RefsRecorded, RunEnd,
    RunFinished, RunStarted, RunStopRequested, StageEntered, StopLevel,
};
pub use run_spec::{
    Approve, Base, Distribution, GivenPlan, MAX_FIX, Member, PlanOrigin, PlanSource, RunSpec,
};
pub use task::TaskChange;
pub use team::{
    CursorMoved, HookReceived, MalformedMessage, MemberJoined, MemberLeft, MessageSent, SignalSent,
    TeamCreated, ZombieSeen,
};
pub use worker::{
    AgentAction, AgentEventRecorded, SecretKept, WorkerLaunchFailed, WorkerPaused,
    WorkerQuarantined, WorkerRestarted, WorkerResumed, WorkerSecretsKept, WorkerSpawned,
    WorkerStarted, WorkerStopped, WorkerVerdict,
};

/// The payload of a kind that has no fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmptyPayload {}

/// Reads a text that may also be stored as a list of lines.
fn text_or_lines<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrLines {
        Text(String),
        Lines(Vec<String>),
        Nothing(()),
    }
    Ok(match TextOrLines::deserialize(from)? {
        TextOrLines::Text(text) => text,
        TextOrLines::Lines(lines) => lines.join("\n"),
        TextOrLines::Nothing(()) => String::new(),
    })
}

/// Reads the valid elements of a list and skips the others.
fn list<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    let items = Vec::<Value>::deserialize(from)?;
    Ok(items
        .iter()
        .filter_map(|item| T::deserialize(item).ok())
        .collect())
}

/// Reads a text that may be `null`.
fn text_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
