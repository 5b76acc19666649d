//! A run: its stages, what was merged and verified, and the gate.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_journal::payload::Shown;
use teamster_types::phrase::PhraseKey;
use teamster_types::{TaskId, Time};

use super::cost::BudgetView;

/// A run, as its events tell it. What was not told is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Run")]
pub struct RunView {
    /// The sentence.
    pub task: String,
    /// Who was asked for: `3:executor`.
    pub agents: String,
    /// Who takes part.
    pub members: Vec<RunMember>,
    /// What the work starts from.
    pub base: Option<BaseView>,
    /// What is run to verify the work.
    pub verify: Vec<VerifyCommand>,
    /// `ask`, `auto` or `never`.
    pub approve: Option<String>,
    /// How many rounds of fixing there are at most.
    pub max_fix: Option<u64>,
    /// `staged`, `party` or `pdca`.
    pub flow: Option<String>,
    /// Who leads.
    pub leader: Option<String>,
    /// Whether the workers share the project's own folder.
    pub in_place: bool,
    /// What it may spend.
    pub budget: Option<BudgetView>,
    /// How many files of the user's are not part of the base.
    pub uncommitted: u64,
    /// The stage it is in: `plan`, `requirements`, `execute`, `verify`, `fix`, `approval` or `end`.
    pub stage: Option<String>,
    /// The round of fixing.
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

/// Somebody who takes part in a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunMember {
    /// Its name.
    pub name: String,
    /// Which client it drives.
    pub provider: Option<String>,
    /// What it is for.
    pub role: Option<String>,
    /// Which model it uses.
    pub model: Option<String>,
}

/// What the work of a run starts from.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Base")]
pub struct BaseView {
    /// The commit.
    pub commit: String,
    /// The branch.
    pub branch: Option<String>,
}

/// A command that verifies.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VerifyCommand {
    /// The command.
    pub command: String,
    /// Who says so.
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
    /// Its place in the journal.
    pub seq: u64,
    /// Why the run entered it.
    pub reason: String,
    /// The codes of these words, for other languages; empty where somebody else wrote them, or an older version did.
    pub reason_codes: Vec<PhraseKey>,
    /// The round of fixing.
    pub round: u64,
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub struct PlanView {
    /// `file`, `leader`, `preset`, `session` or `sentence`.
    pub source: String,
    /// Its file.
    pub path: Option<String>,
    /// What whoever planned found out about the work.
    pub analysis: String,
    /// What whoever planned has taken for granted.
    pub assumptions: Vec<String>,
    /// What could go wrong.
    pub risks: Vec<String>,
    /// Its tasks.
    pub tasks: Vec<PlanTask>,
}

/// One task of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanTask {
    /// Its name in the plan.
    pub label: String,
    /// Its id in the team.
    pub id: Option<TaskId>,
    /// What to do.
    pub subject: String,
    /// What it waits for, by name.
    pub blocked_by: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Finished")]
pub struct FinishedView {
    /// `complete`, `rejected`, `rolled_back`, `failed`, `cancelled`, `budget_exhausted` or `tasks_failed`.
    pub outcome: String,
    /// The exit code of `teamster run`.
    pub exit_code: Option<i64>,
    /// Why it ended so.
    pub reason: String,
    /// The codes of these words, for other languages; empty where somebody else wrote them, or an older version did.
    pub reason_codes: Vec<PhraseKey>,
    /// The commit that landed.
    pub commit: Option<String>,
    /// When it ended.
    pub at: Time,
}

/// How a verification stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerificationState {
    /// It runs.
    Running,
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It failed and passed at once again; that is not a pass.
    Flaky,
}

/// One command that was run to verify.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Its place in the journal.
    pub seq: u64,
    /// `base` or `integration`.
    pub on: String,
    /// Of which commit.
    pub commit: String,
    /// The command.
    pub command: String,
    /// The round of fixing.
    pub round: u64,
    /// How it stands.
    pub state: VerificationState,
    /// Its exit code.
    pub exit_code: Option<i64>,
    /// How long it took.
    pub seconds: Option<f64>,
    /// Whether it was ended at its limit.
    pub timed_out: bool,
    /// Its last lines.
    pub last: String,
    /// Its whole output, in the project.
    pub log: Option<String>,
    /// Whether it counts against the team: not when it failed on the base already.
    pub charged: bool,
    /// When it began.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
}

/// How a merge stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MergeState {
    /// It was predicted, and not made yet.
    Predicted,
    /// It was made.
    Merged,
    /// It conflicts.
    Conflict,
    /// It was called made, and is not in the team's branch; it is made again.
    Lost,
    /// The task was completed without a change, so there is nothing to merge.
    Unchanged,
}

/// The merge of one task's work.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Merge")]
pub struct MergeView {
    /// Its place in the journal.
    pub seq: u64,
    /// Of which task.
    pub task_id: Option<TaskId>,
    /// Whose work.
    pub worker: Option<String>,
    /// The commit.
    pub commit: String,
    /// How it stands.
    pub state: MergeState,
    /// What was predicted: `clean`, `conflict`, `already` or `unrelated`.
    pub predicted: Option<String>,
    /// The merge commit.
    pub merge: Option<String>,
    /// The files that conflict.
    pub files: Vec<String>,
    /// How many times it conflicted.
    pub times: u64,
    /// Whether it is not tried again.
    pub is_final: bool,
    /// The task that repairs it.
    pub fix_task: Option<TaskId>,
    /// When this was last recorded.
    pub at: Time,
}

/// The gate of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its place in the journal.
    pub seq: u64,
    /// Its name.
    pub gate: String,
    /// The commit that is decided about.
    pub commit: String,
    /// What it is compared with.
    pub base: Option<String>,
    /// The branch that it would land on.
    pub branch: Option<String>,
    /// Whether verification ran and passed.
    pub verified: bool,
    /// What to know, in words.
    pub words: String,
    /// The codes of these words, for other languages; empty where somebody else wrote them, or an older version did.
    pub words_codes: Vec<PhraseKey>,
    /// Why the commit could not land when it was approved before.
    pub refused: Option<String>,
    /// The codes of these words, for other languages; empty where somebody else wrote them, or an older version did.
    pub refused_codes: Vec<PhraseKey>,
    /// What else the decision rests on, as it stood when the gate opened; `null` when the run did not tell.
    pub shown: Option<Shown>,
    /// When it opened.
    pub asked_at: Time,
    /// Whether an answer is still waited for.
    pub waits: bool,
    /// What was answered.
    pub answer: Option<AnswerView>,
}

/// An answer at the gate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Answer")]
pub struct AnswerView {
    /// `approve`, `reject` or `revise`.
    pub answer: String,
    /// Whether the run has taken it. Until then somebody has only said it.
    pub taken: bool,
    /// Who gave it.
    pub by: String,
    /// The codes of these words, for other languages; empty where somebody else wrote them, or an older version did.
    pub by_codes: Vec<PhraseKey>,
    /// Whether the work is to be taken back.
    pub rollback: bool,
    /// What to change.
    pub text: String,
    /// When it was given.
    pub at: Time,
}
