//! The facts for a worker with a task: `worker.md`, `fix.md` and `conflict.md`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{CheckState, QuotedText};

/// The recipient of the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecipientFacts {
    /// The worker's name.
    pub name: String,
    /// The team's name.
    pub team: String,
    /// The worker's role, such as `tester`.
    pub role: Option<String>,
    /// The preset's instructions for it. They are trusted, and inserted unchanged.
    pub meaning: String,
}

/// The task itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskFacts {
    /// Its number.
    pub id: String,
    /// The subject of the task, in one line.
    pub subject: String,
    /// The description by the author of the task.
    pub description: String,
    /// The acceptance criteria.
    pub accept: Vec<String>,
    /// Patterns of the files that it may change; empty for all.
    pub paths: Vec<String>,
}

/// A completed task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DoneTask {
    /// Its number.
    pub id: String,
    /// The worker that did it.
    pub worker: Option<String>,
    /// The subject of the task.
    pub subject: String,
    /// The worker's own summary.
    pub summary: String,
    /// What later tasks must know, as its worker describes it.
    pub handover: String,
    /// What was left open, as its worker describes it.
    pub problems: Vec<String>,
    /// Files that it changed.
    pub files: Vec<String>,
    /// How many more files it changed.
    pub more_files: usize,
    /// Whether it was completed without a change.
    pub no_change: bool,
}

/// Another worker that is currently working.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OtherWorker {
    /// Its name.
    pub worker: String,
    /// The number of its task.
    pub task: String,
    /// The subject of its task.
    pub subject: String,
    /// Patterns of the files that it may change.
    pub paths: Vec<String>,
}

/// The outcome of an earlier attempt at the task, and what is left of its work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EarlierAttempt {
    /// How often it was attempted and how that ended, as teamster describes it.
    pub how: String,
    /// Why it failed, as the agent or a program described it.
    pub reason: String,
    /// The ref that preserves its changes.
    pub kept: Option<String>,
    /// A file with its changes, as a patch.
    pub patch: Option<String>,
    /// The files that it had changed.
    pub files: Vec<String>,
    /// Whether none of it is left in the worker's folder.
    pub is_lost: bool,
    /// Remarks about it from a reviewer, a check or the author of the task.
    pub remarks: Vec<QuotedText>,
}

/// An answered question about the task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnswerFacts {
    /// The question.
    pub question: String,
    /// Who answered.
    pub from: String,
    /// The answer.
    pub text: String,
}

/// A message that the worker has not been given yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MailFacts {
    /// The sender.
    pub from: String,
    /// The text.
    pub text: String,
}

/// The commands that verify the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckFacts {
    /// Commands that verify this task alone.
    pub proofs: Vec<String>,
    /// Commands that must pass on the merged work.
    pub passing: Vec<String>,
    /// Commands that fail now and must pass in the end.
    pub targets: Vec<String>,
    /// Commands that failed before the work began and are not part of any task.
    pub failing: Vec<String>,
    /// Whether a person decides about the merged work.
    pub has_gate: bool,
}

/// How the worker can communicate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChannelFacts {
    /// The prefix of teamster's tools, such as `mcp__teamster__`; `None` for a client without them.
    pub tools: Option<String>,
    /// The shell command to use instead; `None` when there is no way to communicate.
    pub command: Option<String>,
}

/// Where the worker works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkplaceFacts {
    /// Whether others work in the same folder.
    pub is_shared: bool,
}

/// The facts that every worker gets, whatever the task is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CommonFacts {
    /// The recipient of the prompt.
    pub you: RecipientFacts,
    /// What the person asked the team for, in their words; `None` when the task says the same, or without a run.
    pub goal: Option<String>,
    /// The other workers that are currently working.
    pub others: Vec<OtherWorker>,
    /// How many further workers are currently working.
    pub more_others: usize,
    /// How the last attempt at the task ended.
    pub earlier: Option<EarlierAttempt>,
    /// The answered questions about the task.
    pub answers: Vec<AnswerFacts>,
    /// Messages for the worker.
    pub messages: Vec<MailFacts>,
    /// The commands that verify the work.
    pub checks: CheckFacts,
    /// How the worker can communicate.
    pub reach: ChannelFacts,
    /// Where the worker works.
    pub place: WorkplaceFacts,
}

/// The facts of `worker.md`, the prompt for a task of the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkerPrompt {
    /// The facts that every worker gets.
    #[serde(flatten)]
    pub situation: CommonFacts,
    /// The task.
    pub task: TaskFacts,
    /// The tasks that it waited for.
    pub builds_on: Vec<DoneTask>,
}

/// The facts about a failing check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FixFacts {
    /// The command.
    pub command: String,
    /// How it ended, such as `with exit code 1`.
    pub how: String,
    /// Whether it failed before the team began, and must pass in the end.
    pub was_failing: bool,
    /// The last lines of its output.
    pub output: String,
    /// The tasks that were merged since it last passed.
    pub merged: Vec<DoneTask>,
    /// The other checks.
    pub other_checks: Vec<CheckState>,
}

/// The facts of `fix.md`, the prompt for fixing a check that fails on the merged work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FixPrompt {
    /// The facts that every worker gets.
    #[serde(flatten)]
    pub situation: CommonFacts,
    /// The task.
    pub task: TaskFacts,
    /// The failing check.
    pub fix: FixFacts,
}

/// The two sides of a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConflictFacts {
    /// The files that both sides changed.
    pub files: Vec<String>,
    /// The task whose work is to be merged.
    pub incoming: DoneTask,
    /// The description of that task.
    pub incoming_description: String,
    /// The commit with its work.
    pub incoming_commit: Option<String>,
    /// A file with its work as a patch.
    pub incoming_patch: Option<String>,
    /// Its changes to the conflicting files.
    pub incoming_diff: String,
    /// The tasks that changed the same files and were merged before.
    pub merged: Vec<DoneTask>,
    /// A file with their changes to the conflicting files, as a patch.
    pub merged_patch: Option<String>,
    /// Their changes to the conflicting files.
    pub merged_diff: String,
    /// Why an earlier resolution was not accepted.
    pub failed_before: Option<String>,
}

/// The facts of `conflict.md`, the prompt for resolving a conflict between a task's work and work merged before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConflictPrompt {
    /// The facts that every worker gets.
    #[serde(flatten)]
    pub situation: CommonFacts,
    /// The task.
    pub task: TaskFacts,
    /// The two sides of the conflict.
    pub conflict: ConflictFacts,
}
