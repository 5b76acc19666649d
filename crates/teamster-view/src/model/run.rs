//! A run: its stages, merges, verifications, and its gate.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_journal::payload::Shown;
use teamster_types::phrase::PhraseKey;
use teamster_types::{TaskId, Time};

use super::cost::BudgetView;

/// A run, according to its events. Unrecorded values are `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Run")]
pub struct RunView {
    /// The sentence that the run was started with.
    pub task: String,
    /// The requested team, such as `3:executor`.
    pub agents: String,
    /// The members.
    pub members: Vec<RunMember>,
    /// The commit and branch that the work starts from.
    pub base: Option<BaseView>,
    /// The commands that verify the work.
    pub verify: Vec<VerifyCommand>,
    /// The approval mode: `ask`, `auto` or `never`.
    pub approve: Option<String>,
    /// The maximum number of fix rounds.
    pub max_fix: Option<u64>,
    /// The flow: `staged`, `party` or `pdca`.
    pub flow: Option<String>,
    /// The leader: `engine`, or a provider.
    pub leader: Option<String>,
    /// Whether the workers share the project's own folder.
    pub in_place: bool,
    /// The budget.
    pub budget: Option<BudgetView>,
    /// How many of the user's files are uncommitted, and so not part of the base.
    pub uncommitted: u64,
    /// The stage it is in: `plan`, `requirements`, `execute`, `verify`, `fix`, `approval` or `end`.
    pub stage: Option<String>,
    /// The fix round.
    pub round: u64,
    /// Every stage it entered, in order.
    pub stages: Vec<StageView>,
    /// Its plan.
    pub plan: Option<PlanView>,
    /// When it began.
    pub started_at: Option<Time>,
    /// When a host last took it over.
    pub resumed_at: Option<Time>,
    /// How it ended.
    pub finished: Option<FinishedView>,
}

/// A member of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunMember {
    /// Its name.
    pub name: String,
    /// The client that it drives.
    pub provider: Option<String>,
    /// Its role.
    pub role: Option<String>,
    /// The model that it uses.
    pub model: Option<String>,
}

/// The commit and branch that the work of a run starts from.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Base")]
pub struct BaseView {
    /// The commit.
    pub commit: String,
    /// The branch.
    pub branch: Option<String>,
}

/// A verification command.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VerifyCommand {
    /// The command.
    pub command: String,
    /// Where the command comes from.
    pub source: Option<String>,
}

/// A stage that a run entered.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Stage")]
pub struct StageView {
    /// The name of the stage.
    pub stage: String,
    /// When the run entered it.
    pub at: Time,
    /// Its position in the journal.
    pub seq: u64,
    /// Why the run entered it.
    pub reason: String,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub reason_codes: Vec<PhraseKey>,
    /// The fix round.
    pub round: u64,
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub struct PlanView {
    /// The source of the plan: `file`, `leader`, `preset`, `session` or `sentence`.
    pub source: String,
    /// The plan file, if there is one.
    pub path: Option<String>,
    /// The planner's analysis of the work.
    pub analysis: String,
    /// The planner's assumptions.
    pub assumptions: Vec<String>,
    /// The risks that the planner sees.
    pub risks: Vec<String>,
    /// Its tasks.
    pub tasks: Vec<PlanTask>,
}

/// One task of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanTask {
    /// Its label in the plan.
    pub label: String,
    /// Its id in the team.
    pub id: Option<TaskId>,
    /// The subject of the task.
    pub subject: String,
    /// The labels of the tasks that it waits for.
    pub blocked_by: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Finished")]
pub struct FinishedView {
    /// The outcome: `complete`, `rejected`, `rolled_back`, `failed`, `cancelled`, `budget_exhausted` or `tasks_failed`.
    pub outcome: String,
    /// The exit code of `teamster run`.
    pub exit_code: Option<i64>,
    /// Why it ended this way.
    pub reason: String,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub reason_codes: Vec<PhraseKey>,
    /// The commit that landed.
    pub commit: Option<String>,
    /// When it ended.
    pub at: Time,
}

/// The state of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerificationState {
    /// It is running.
    Running,
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It failed and passed on the immediate retry, which does not count as a pass.
    Flaky,
}

/// One run of a verification command.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Its position in the journal.
    pub seq: u64,
    /// What was verified: `base`, `integration` or the result of one task.
    pub on: String,
    /// The commit that was verified.
    pub commit: String,
    /// The command.
    pub command: String,
    /// The fix round.
    pub round: u64,
    /// Its state.
    pub state: VerificationState,
    /// Its exit code.
    pub exit_code: Option<i64>,
    /// How long it took, in seconds.
    pub seconds: Option<f64>,
    /// Whether it timed out.
    pub timed_out: bool,
    /// The last lines of its output.
    pub last: String,
    /// The file in the project with its output.
    pub log: Option<String>,
    /// Whether it counts against the team; it does not if it already failed on the base.
    pub charged: bool,
    /// When it began.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
}

/// The state of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MergeState {
    /// It was predicted, but not performed yet.
    Predicted,
    /// It was performed.
    Merged,
    /// It conflicts.
    Conflict,
    /// It was recorded as performed, but is missing from the team's branch; it is performed again.
    Lost,
    /// The task was completed without a change, so there is nothing to merge.
    Unchanged,
}

/// The merge of one task's work.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Merge")]
pub struct MergeView {
    /// Its position in the journal.
    pub seq: u64,
    /// The task whose work is merged.
    pub task_id: Option<TaskId>,
    /// The worker whose work it is.
    pub worker: Option<String>,
    /// The commit.
    pub commit: String,
    /// Its state.
    pub state: MergeState,
    /// The predicted result: `clean`, `conflict`, `already` or `unrelated`.
    pub predicted: Option<String>,
    /// The merge commit.
    pub merge: Option<String>,
    /// The files that conflict.
    pub files: Vec<String>,
    /// How many times it conflicted.
    pub times: u64,
    /// Whether there will be no further attempt.
    pub is_final: bool,
    /// The task that repairs it.
    pub fix_task: Option<TaskId>,
    /// The time of the last event about it.
    pub at: Time,
}

/// The gate of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its position in the journal.
    pub seq: u64,
    /// The id of this opening of the gate.
    pub gate: String,
    /// The commit to decide about.
    pub commit: String,
    /// The commit that it is compared with.
    pub base: Option<String>,
    /// The branch that it would land on.
    pub branch: Option<String>,
    /// Whether verification ran and passed.
    pub verified: bool,
    /// What the person should know, as text.
    pub words: String,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub words_codes: Vec<PhraseKey>,
    /// Why the commit could not land when it was approved before.
    pub refused: Option<String>,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub refused_codes: Vec<PhraseKey>,
    /// The other facts for the decision, as of the opening of the gate; `null` when the run did not record them.
    pub shown: Option<Shown>,
    /// When it opened.
    pub asked_at: Time,
    /// Whether it still waits for an answer.
    pub waits: bool,
    /// The answer.
    pub answer: Option<AnswerView>,
}

/// An answer at the gate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Answer")]
pub struct AnswerView {
    /// `approve`, `reject` or `revise`.
    pub answer: String,
    /// Whether the run has accepted it. Until then it is only a submitted answer.
    pub taken: bool,
    /// Who gave it.
    pub by: String,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub by_codes: Vec<PhraseKey>,
    /// Whether the work is rolled back.
    pub rollback: bool,
    /// The changes that are needed.
    pub text: String,
    /// When it was given.
    pub at: Time,
}
