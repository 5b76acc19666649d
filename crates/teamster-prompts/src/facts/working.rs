//! The facts for whoever works on a task: `worker.md`, `fix.md` and `conflict.md`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{CheckState, Said};

/// Who is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct You {
    /// The worker's name.
    pub name: String,
    /// The team's name.
    pub team: String,
    /// What the worker is for, such as `tester`.
    pub role: Option<String>,
    /// What the preset says to it. It is trusted, and told as it is.
    pub meaning: String,
}

/// The task itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskFacts {
    /// Its number.
    pub id: String,
    /// What it is about, in one line.
    pub subject: String,
    /// Everything else that whoever made it said.
    pub description: String,
    /// Sentences that hold when it is done.
    pub accept: Vec<String>,
    /// Patterns of the files that it may change; empty for all.
    pub paths: Vec<String>,
}

/// A task that was done before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DoneTask {
    /// Its number.
    pub id: String,
    /// Who did it.
    pub worker: Option<String>,
    /// What it was about.
    pub subject: String,
    /// What was done, in its worker's words.
    pub summary: String,
    /// What whoever builds on it must know, in its worker's words.
    pub handover: String,
    /// What was left open, in its worker's words.
    pub problems: Vec<String>,
    /// Files that it changed.
    pub files: Vec<String>,
    /// How many more files it changed.
    pub more_files: usize,
    /// Whether it was completed without a change.
    pub no_change: bool,
}

/// Somebody who works at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OtherWorker {
    /// Its name.
    pub worker: String,
    /// The number of its task.
    pub task: String,
    /// What its task is about.
    pub subject: String,
    /// Patterns of the files that it may change.
    pub paths: Vec<String>,
}

/// How an earlier attempt at the task ended, told by what happened to the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EarlierAttempt {
    /// How often it was tried and how that ended, in our words.
    pub how: String,
    /// Why it failed, in the words of the agent or of a program.
    pub reason: String,
    /// The reference that keeps what it had changed.
    pub kept: Option<String>,
    /// A file with what it had changed, as a patch.
    pub patch: Option<String>,
    /// Files that it had changed.
    pub files: Vec<String>,
    /// Whether nothing of it is left where the worker works.
    pub is_lost: bool,
    /// What a reviewer, a check or whoever made it said about it.
    pub remarks: Vec<Said>,
}

/// A question about the task that was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Answer {
    /// The question.
    pub question: String,
    /// Who answered.
    pub from: String,
    /// The answer.
    pub text: String,
}

/// A message that the worker has not been told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mail {
    /// Who wrote it.
    pub from: String,
    /// What it says.
    pub text: String,
}

/// The commands by which the work is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Checks {
    /// Commands that prove this task alone.
    pub proofs: Vec<String>,
    /// Commands that must pass on the merged work.
    pub passing: Vec<String>,
    /// Commands that fail now and are to pass in the end.
    pub targets: Vec<String>,
    /// Commands that failed before the work began and are nobody's task.
    pub failing: Vec<String>,
    /// Whether a person decides about the merged work.
    pub has_gate: bool,
}

/// How the worker reaches others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reach {
    /// What stands before the names of our tools, such as `mcp__teamster__`; `None` for a client without them.
    pub tools: Option<String>,
    /// The command to call instead, as a shell takes it; `None` when there is no way at all.
    pub command: Option<String>,
}

/// Where the worker works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Place {
    /// Whether others work in the same folder.
    pub is_shared: bool,
}

/// What everybody who works is told, whatever the task is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Situation {
    /// Who is told.
    pub you: You,
    /// What the person asked the team for, in their words; `None` when the task says the same, or without a run.
    pub goal: Option<String>,
    /// Who else works at this moment.
    pub others: Vec<OtherWorker>,
    /// How many more work at this moment.
    pub more_others: usize,
    /// How the last attempt at the task ended.
    pub earlier: Option<EarlierAttempt>,
    /// Questions about the task that were answered.
    pub answers: Vec<Answer>,
    /// Messages for the worker.
    pub messages: Vec<Mail>,
    /// How the work is judged.
    pub checks: Checks,
    /// How others are reached.
    pub reach: Reach,
    /// Where the worker works.
    pub place: Place,
}

/// The facts of `worker.md`: a task of the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkerPrompt {
    /// What everybody is told.
    #[serde(flatten)]
    pub situation: Situation,
    /// The task.
    pub task: TaskFacts,
    /// The tasks that it waited for.
    pub builds_on: Vec<DoneTask>,
}

/// What a failing check is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FixFacts {
    /// The command.
    pub command: String,
    /// How it ended, such as `with exit code 1`.
    pub how: String,
    /// Whether it failed before the team began, and is to pass in the end.
    pub was_failing: bool,
    /// The last lines that it printed.
    pub output: String,
    /// The tasks that were merged since it last passed.
    pub merged: Vec<DoneTask>,
    /// The other checks.
    pub other_checks: Vec<CheckState>,
}

/// The facts of `fix.md`: a check fails on the merged work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FixPrompt {
    /// What everybody is told.
    #[serde(flatten)]
    pub situation: Situation,
    /// The task.
    pub task: TaskFacts,
    /// What is to be mended.
    pub fix: FixFacts,
}

/// Two sides of a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConflictFacts {
    /// The files that both sides changed.
    pub files: Vec<String>,
    /// The task whose work is to be brought in.
    pub incoming: DoneTask,
    /// What that task was to do.
    pub incoming_description: String,
    /// The commit with its work.
    pub incoming_commit: Option<String>,
    /// A file with its work as a patch.
    pub incoming_patch: Option<String>,
    /// Its changes to the files of the conflict.
    pub incoming_diff: String,
    /// The tasks that changed the same files and were merged before.
    pub merged: Vec<DoneTask>,
    /// A file with what they changed in the files of the conflict, as a patch.
    pub merged_patch: Option<String>,
    /// What they changed in the files of the conflict.
    pub merged_diff: String,
    /// Why an earlier resolution was none.
    pub failed_before: Option<String>,
}

/// The facts of `conflict.md`: the work of a task does not fit what was merged before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConflictPrompt {
    /// What everybody is told.
    #[serde(flatten)]
    pub situation: Situation,
    /// The task.
    pub task: TaskFacts,
    /// The two sides.
    pub conflict: ConflictFacts,
}
