//! The facts for whoever plans, is asked during a run, reviews or chooses: `plan.md`, `wake.md`, `review.md`, `judge.md`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Answer, DoneTask};

/// Something that somebody said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Said {
    /// Who said it.
    pub from: String,
    /// What was said.
    pub text: String,
}

/// A member of the team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemberFacts {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: Option<String>,
    /// Its client, such as `codex`.
    pub provider: String,
    /// What it can do.
    pub can: Vec<String>,
}

/// A check and how it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckState {
    /// The command.
    pub command: String,
    /// How it stands, as the rest of a sentence: `passes`, `fails`, `has not been run`.
    pub state: String,
    /// The last lines that it printed, where they matter.
    pub output: String,
}

/// A folder of the repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FolderFacts {
    /// Its path; empty for the files that lie at the top.
    pub path: String,
    /// How many files are in it and below it.
    pub files: usize,
}

/// What the repository looks like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RepositoryFacts {
    /// How many files it has.
    pub files: usize,
    /// Its folders at the top, told when not every file is named.
    pub folders: Vec<FolderFacts>,
    /// Some of its files.
    pub paths: Vec<String>,
    /// How its README begins.
    pub readme: String,
    /// Files with instructions for agents, such as `AGENTS.md`.
    pub instructions: Vec<String>,
}

/// What a plan may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanLimits {
    /// The most tasks.
    pub tasks: Option<usize>,
    /// What the run may use, in words.
    pub budget: Option<String>,
}

/// The facts of `plan.md`: somebody splits the work into tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanPrompt {
    /// The team's name.
    pub team: String,
    /// What the person asked for, in their words.
    pub goal: String,
    /// What the preset says to whoever plans. It is trusted, and told as it is.
    pub meaning: String,
    /// Who will work.
    pub members: Vec<MemberFacts>,
    /// The checks, and how they stand before anybody works.
    pub checks: Vec<CheckState>,
    /// What the repository looks like.
    pub repository: RepositoryFacts,
    /// Whether the leader may run commands that only read.
    pub can_read: bool,
    /// What the plan may ask for.
    pub limits: PlanLimits,
    /// Whether a person can be asked what the leader cannot decide.
    pub may_ask: bool,
    /// Whether the person wants to settle what is wanted before anything is planned.
    pub requirements: bool,
    /// Questions of the leader that were answered.
    pub answers: Vec<Answer>,
    /// What the person wanted changed in the plans before the last one, the oldest first.
    pub earlier: Vec<String>,
    /// The plan that the leader made before, as it was proposed.
    pub previous: Option<String>,
    /// What the person wants changed in the last plan.
    pub revise: Option<String>,
    /// The schema of the answer. It is ours, and told as it is.
    pub schema: String,
}

/// A task as the leader sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskStateFacts {
    /// Its number.
    pub id: String,
    /// How it stands, as the rest of a sentence: `is done`, `is being worked on`.
    pub state: String,
    /// Who has it, or had it last.
    pub worker: Option<String>,
    /// What it is about.
    pub subject: String,
    /// Everything else that was said about it; empty for one that is done.
    pub description: String,
    /// Sentences that hold when it is done; none for one that is done.
    pub accept: Vec<String>,
}

/// What is left to a leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WakeLimits {
    /// How often it will be asked at most.
    pub wakes_left: Option<usize>,
}

/// The facts of `wake.md`: the leader is asked during the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WakePrompt {
    /// The team's name.
    pub team: String,
    /// What the person asked for, in their words.
    pub goal: String,
    /// What the leader found out when it planned.
    pub analysis: String,
    /// What the leader took for granted when it planned.
    pub assumptions: Vec<String>,
    /// Questions of the leader that were answered before it planned.
    pub answers: Vec<Answer>,
    /// What the leader wrote down in its turns, the oldest first.
    pub notes: Vec<String>,
    /// Why the leader is asked, as the rest of a sentence: `worker-1 asks a question`.
    pub reason: String,
    /// What it is about: the question, the failure, the findings, the person's words.
    pub subject: Vec<Said>,
    /// Whether findings of a review are among it, of which the leader says what becomes of them.
    pub has_findings: bool,
    /// What happened since the leader's last turn, the oldest first.
    pub digest: Vec<String>,
    /// The tasks.
    pub tasks: Vec<TaskStateFacts>,
    /// Who works.
    pub members: Vec<MemberFacts>,
    /// What is left to it.
    pub limits: WakeLimits,
    /// The schema of the answer. It is ours, and told as it is.
    pub schema: String,
}

/// A task whose work is reviewed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReviewedTask {
    /// What was done.
    #[serde(flatten)]
    pub done: DoneTask,
    /// Sentences that hold when it is done.
    pub accept: Vec<String>,
}

/// Something that a reviewer found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingFacts {
    /// How bad it is: `blocker`, `major`, `minor` or `nit`.
    pub severity: String,
    /// The file; `None` where it is about no file.
    pub path: Option<String>,
    /// The line.
    pub line: Option<u64>,
    /// What is wrong.
    pub claim: String,
    /// Why the leader decided not to have it fixed, if it did.
    pub left: Option<String>,
}

/// The facts of `review.md`: somebody who did not write it looks at the merged work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReviewPrompt {
    /// The team's name.
    pub team: String,
    /// What the person asked for, in their words.
    pub goal: String,
    /// What the team did.
    pub tasks: Vec<ReviewedTask>,
    /// The checks, and how they stand on this work.
    pub checks: Vec<CheckState>,
    /// The commit where the team began.
    pub base: String,
    /// The commit that is reviewed.
    pub commit: String,
    /// The commit that was reviewed last.
    pub since: Option<String>,
    /// How many lines of which files changed.
    pub stat: String,
    /// The change itself, as far as it is short.
    pub diff: String,
    /// The file with the whole change, in the reviewer's folder.
    pub patch: Option<String>,
    /// What the reviewer found before and is not settled.
    pub findings: Vec<FindingFacts>,
    /// The schema of the answer. It is ours, and told as it is.
    pub schema: String,
}

/// A result among several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Candidate {
    /// The number of its task.
    pub id: String,
    /// Who did it.
    pub worker: Option<String>,
    /// Its commit.
    pub commit: String,
    /// What was done, in its worker's words.
    pub summary: String,
    /// How many lines of which files changed.
    pub stat: String,
    /// The change itself, as far as it is short.
    pub diff: String,
    /// The file with the whole change, in the judge's folder.
    pub patch: Option<String>,
}

/// The facts of `judge.md`: one of several results is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JudgePrompt {
    /// The team's name.
    pub team: String,
    /// What the person asked for, in their words.
    pub goal: String,
    /// The commit where all of them began.
    pub base: String,
    /// The results.
    pub candidates: Vec<Candidate>,
}
