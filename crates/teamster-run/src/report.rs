//! The outcome of a run in words: the report that is kept, and the text that a person sees before approving.
//!
//! [`input_from()`] makes a [`ReportInput`] from a team's journal and tasks; the host adds what only git and the file
//! system know: the diff stat, the findings, and what is left behind. [`page()`] makes the Markdown of `report.md` from
//! it, [`gate_text()`] the text of the approval gate. All of it is pure except [`keep()`], which writes the page to the
//! project.
//!
//! Names and texts come from agents and from files of unknown origin. None of them can break a table, control a
//! terminal, or show a secret (`markdown.rs`).

mod collaboration;
mod gate;
mod gate_content;
mod journal;
mod left_behind;
mod markdown;
mod page;
mod review;
mod sections;
#[cfg(test)]
mod tests;
mod worker_words;

use std::time::Duration;

use teamster_fs::{Dir, Durability, FsError, layout};
use teamster_journal::cost::Cost;
use teamster_journal::payload::Base;
use teamster_journal::payload::Shown;
use teamster_journal::payload::{
    Budget, Check, CheckVerdict, Checked, DeniedRequest, JudgeFailed, ReviewMode,
};
use teamster_journal::{ChoiceRecord, FindingRecord, Question, ReviewState, WakeRecord};
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::{TeamName, Time};

pub use gate::gate_text;
pub use journal::input_from;
pub use left_behind::LeftBehind;
pub use page::page;

/// Everything that a report is made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportInput {
    /// The name of the team.
    pub team: String,
    /// What was asked for.
    pub task: String,
    /// The agents that were asked for, as `3:executor`.
    pub agents: String,
    /// When the run began.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// How often its host was replaced.
    pub resumed: usize,
    /// How it ended; `None` while it is running.
    pub outcome: Option<ReportOutcome>,
    /// The commit that the work began from.
    pub base: Option<Base>,
    /// The number of files that the user had not committed, and that are not part of the base.
    pub uncommitted: u64,
    /// The source of the plan: `file`, `leader`, `sentence`.
    pub plan_source: Option<String>,
    /// The path of the plan file.
    pub plan_path: Option<String>,
    /// The planner's analysis of the work.
    pub analysis: String,
    /// The planner's assumptions.
    pub assumptions: Vec<String>,
    /// The risks that the planner sees.
    pub risks: Vec<String>,
    /// The tasks, in order.
    pub tasks: Vec<TaskLine>,
    /// The workers, in order of their names.
    pub workers: Vec<WorkerLine>,
    /// The stages, in the order in which they were entered.
    pub stages: Vec<StageLine>,
    /// The flow that the run follows.
    pub flow: String,
    /// The phases of that flow, in order; empty when it has stages only.
    pub phases: Vec<StageLine>,
    /// The checks that the run should run.
    pub wanted: Vec<Check>,
    /// The checks of the base, before the work began.
    pub base_checks: Vec<CheckRun>,
    /// The checks of the work, in all rounds.
    pub checks: Vec<CheckRun>,
    /// Whether the work was to be reviewed.
    pub review_mode: ReviewMode,
    /// The reviews of the work, in order.
    pub reviews: Vec<ReviewState>,
    /// The questions of agents, with their answers.
    pub questions: Vec<Question>,
    /// The permission requests of agents that were denied.
    pub denied: Vec<DeniedRequest>,
    /// The turns of the leader after its plan.
    pub wakes: Vec<WakeRecord>,
    /// The findings of workers and the leader.
    pub found: Vec<FindingRecord>,
    /// Why the judge that should choose one of several results chose none.
    pub judge_failed: Option<JudgeFailed>,
    /// Which of several results of the same work was chosen.
    pub choice: Option<ChoiceRecord>,
    /// Messages to workers that were never delivered, each as a sentence.
    pub untaken: Vec<Phrase>,
    /// The findings of the phases: a name, and the text.
    pub findings: Vec<(String, String)>,
    /// The output of `git diff --stat`, from the base to the integration branch.
    pub diff_stat: String,
    /// Whether the changes are unknown: all workers shared a folder that is in no git repository.
    pub is_diff_unknown: bool,
    /// The commit that a person is or was asked about.
    pub asked_about: Option<String>,
    /// Why the commit could not land after it was approved.
    pub refused: Option<String>,
    /// What was shown when the gate was last opened.
    pub shown: Option<Shown>,
    /// The decisions at the gate, in order.
    pub decisions: Vec<DecisionLine>,
    /// What the run cost.
    pub cost: Cost,
    /// The budget of the run.
    pub budget: Budget,
    /// The budget limit that ended it, in words.
    pub exhausted: Option<String>,
    /// The merge conflicts.
    pub conflicts: Vec<Conflict>,
    /// The changes of the user's branches during the run, one sentence each.
    pub references: Vec<String>,
    /// The things that are left behind, and how to access them.
    pub left: Vec<LeftBehind>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportOutcome {
    /// One of `complete`, `rejected`, `rolled_back`, `failed`, `cancelled`, `budget_exhausted`, `tasks_failed`.
    pub word: String,
    /// The exit code of `teamster run`.
    pub exit_code: Option<i64>,
    /// Why it ended so.
    pub reason: String,
    /// The commit with the work.
    pub commit: Option<String>,
}

/// The state of a task in a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TaskState {
    /// No worker has begun it.
    #[default]
    Waiting,
    /// A worker is on it.
    InProgress,
    /// It is done.
    Done,
    /// It is done and merged.
    Merged,
    /// It is done, but has changed nothing.
    Unchanged,
    /// It met a conflict, and the task that resolved it is merged.
    MergedBy(String),
    /// It is done, but could not be merged.
    NotMerged,
    /// It is done, but another result of the same work was chosen.
    NotChosen,
    /// It failed permanently.
    Failed,
    /// It waits for these tasks, which failed permanently.
    Behind(Vec<String>),
}

/// One task in a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskLine {
    /// Its number.
    pub id: String,
    /// What it is about.
    pub subject: String,
    /// Its state.
    pub state: TaskState,
    /// The worker that had it last.
    pub worker: Option<String>,
    /// How often it was attempted.
    pub attempts: usize,
    /// The commit with its result.
    pub commit: Option<String>,
    /// How often merging it met a conflict.
    pub conflicts: usize,
    /// Why it failed.
    pub error: Option<String>,
    /// What was done, in its worker's words.
    pub summary: Option<String>,
    /// The notes for tasks that build on it, in its worker's words.
    pub handover: Option<String>,
    /// The open problems, in its worker's words.
    pub problems: Vec<String>,
    /// What it cost.
    pub cost: Cost,
}

/// One worker in a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerLine {
    /// Its name.
    pub name: String,
    /// Its agent.
    pub provider: String,
    /// Its role.
    pub role: String,
    /// The number of tasks that it completed.
    pub done: u64,
    /// The number of its attempts that failed.
    pub failed: u64,
    /// How long it worked on tasks.
    pub busy: Duration,
    /// What it cost.
    pub cost: Cost,
}

/// One stage in a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageLine {
    /// Its name.
    pub name: String,
    /// Why it was entered.
    pub reason: String,
    /// The number of the fix round.
    pub round: u64,
    /// When it was entered.
    pub at: Time,
    /// How long it took; `None` while it goes on.
    pub lasted: Option<Duration>,
}

/// One run of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckRun {
    /// The result of the check.
    pub checked: Checked,
    /// The number of the fix round.
    pub round: u64,
    /// The commit that it was run on.
    pub commit: String,
    /// Whether it fails, and the team has to fix that.
    pub charged: bool,
}

/// One decision at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLine {
    /// One of `approved`, `rejected`, `rejected and rolled back`, `to be revised`.
    pub answer: String,
    /// Who decided.
    pub by: String,
    /// When it was decided.
    pub at: Time,
    /// The commit that it is about.
    pub commit: String,
    /// The remarks of the person.
    pub text: String,
}

/// A merge conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The task that was being merged.
    pub task: String,
    /// The conflicting files.
    pub files: Vec<String>,
    /// The task that is to resolve it.
    pub fix_task: Option<String>,
    /// Whether it was the last attempt: the task failed permanently.
    pub is_final: bool,
}

/// Writes a report to the project, replacing an earlier one, and returns its path there.
pub fn keep(project: &Dir, team: &TeamName, page: &str) -> Result<String, FsError> {
    let mut path = String::new();
    let mut folder = None;
    for name in layout::report_folders(team) {
        folder = Some(folder.as_ref().unwrap_or(project).child_or_create(name)?);
        path = format!("{path}{name}/");
    }
    let folder = folder.as_ref().unwrap_or(project);
    folder.replace(layout::REPORT, page.as_bytes(), Durability::Durable)?;
    Ok(format!("{path}{}", layout::REPORT))
}

impl ReportInput {
    /// Returns the checks of the last round and commit; of each command, the last run.
    pub fn last_checks(&self) -> Vec<&CheckRun> {
        let Some(last) = self.checks.last() else {
            return Vec::new();
        };
        let is_last = |run: &&CheckRun| run.round == last.round && run.commit == last.commit;
        let mut checks: Vec<&CheckRun> = Vec::new();
        for run in self.checks.iter().rev().take_while(is_last) {
            let command = &run.checked.command;
            if !checks.iter().any(|known| known.checked.command == *command) {
                checks.push(run);
            }
        }
        checks.reverse();
        checks
    }

    /// Returns how long the run took, if it is over.
    pub fn took(&self) -> Option<Duration> {
        Some(self.ended?.since(self.started?))
    }

    /// Returns whether the work was verified, in one sentence that never claims too much.
    pub fn verified_words(&self) -> Wording {
        let checks = self.last_checks();
        if checks.is_empty() {
            return PhraseCode::NothingVerified.into();
        }
        let elsewhere = checks.iter().map(|run| run.commit.as_str()).find(|commit| {
            let asked = self.asked_about.as_deref();
            asked.is_some_and(|asked| asked != *commit)
        });
        if let Some(commit) = elsewhere {
            let commit = markdown::short(commit);
            return Phrase::new(PhraseCode::VerifiedElsewhere, [("commit", &commit)]).into();
        }
        let count = |is: &dyn Fn(&CheckRun) -> bool| checks.iter().filter(|run| is(run)).count();
        let passed = count(&|run| run.checked.verdict == CheckVerdict::Passed);
        let not_run = self
            .wanted
            .iter()
            .filter(|check| {
                !checks
                    .iter()
                    .any(|run| run.checked.command == check.command)
            })
            .count();
        let all = checks.len() + not_run;
        if passed == all {
            return match passed {
                1 => PhraseCode::VerifiedByCheck.into(),
                _ => Phrase::new(PhraseCode::VerifiedByChecks, [("count", &passed)]).into(),
            };
        }
        let parts: Vec<Phrase> = [
            (
                count(&|run| run.charged && run.checked.verdict.is_failure()),
                PhraseCode::CountFailed,
            ),
            (
                count(&|run| !run.charged && run.checked.verdict.is_failure()),
                PhraseCode::CountFailedBefore,
            ),
            (
                count(&|run| run.checked.verdict == CheckVerdict::Flaky),
                PhraseCode::CountFlaky,
            ),
            (
                count(&|run| run.checked.verdict == CheckVerdict::Stopped),
                PhraseCode::CountStopped,
            ),
            (not_run, PhraseCode::CountNotRun),
            (passed, PhraseCode::CountPassed),
        ]
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, code)| Phrase::new(code, [("count", &number)]))
        .collect();
        let of = match all {
            1 => PhraseCode::PartOfCheckVerified.into(),
            _ => Phrase::new(PhraseCode::PartOfChecksVerified, [("count", &all)]),
        };
        let parts = Wording::joined(&parts, "; ");
        Wording::from(of)
            .and(", ", parts)
            .and(".", Wording::default())
    }
}
