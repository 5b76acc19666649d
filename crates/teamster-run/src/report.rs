//! What a run came to, in words: the report that stays, and what a person sees before approving.
//!
//! [`input_from()`] makes a [`ReportInput`] from a team's journal and tasks; the host adds what only git and the folders
//! know: the diff stat, the findings, and what is left behind. [`page()`] makes the Markdown of `report.md` from it,
//! [`gate_text()`] the text of the approval gate. All of it is pure but [`keep()`], which puts the page where it belongs.
//!
//! Names and texts come from agents and from files that anybody may have written. None of them can break a table, draw
//! over a terminal, or show a secret (`markdown.rs`).

mod collaboration;
mod gate;
mod journal;
mod left_behind;
mod markdown;
mod page;
mod review;
mod said;
mod sections;
mod shown;
#[cfg(test)]
mod tests;

use std::time::Duration;

use teamster_fs::{Dir, FsError, Sync, layout};
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

/// Everything that a report tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportInput {
    /// The team.
    pub team: String,
    /// What was asked for.
    pub task: String,
    /// By whom it was to be done, as `3:executor`.
    pub agents: String,
    /// When the run began.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// How often its host was replaced.
    pub resumed: usize,
    /// How it ended; `None` while it goes on.
    pub outcome: Option<ReportOutcome>,
    /// What the work began from.
    pub base: Option<Base>,
    /// Files that the user had not committed, and that are no part of the base.
    pub uncommitted: u64,
    /// Where the plan comes from: `file`, `leader`, `sentence`.
    pub plan_source: Option<String>,
    /// Its file.
    pub plan_path: Option<String>,
    /// What whoever planned found out about the work.
    pub analysis: String,
    /// What whoever planned has taken for granted.
    pub assumptions: Vec<String>,
    /// What could go wrong, by whoever planned.
    pub risks: Vec<String>,
    /// The tasks, in order.
    pub tasks: Vec<TaskLine>,
    /// The workers, in order of their names.
    pub workers: Vec<WorkerLine>,
    /// The stages, in the order in which they were entered.
    pub stages: Vec<StageLine>,
    /// The flow that it follows.
    pub flow: String,
    /// The phases of that flow, in order; empty when it has stages only.
    pub phases: Vec<StageLine>,
    /// The checks that are to be run.
    pub wanted: Vec<Check>,
    /// Checks before the work began.
    pub base_checks: Vec<CheckRun>,
    /// Checks of the work, of all rounds.
    pub checks: Vec<CheckRun>,
    /// Whether the work was to be reviewed.
    pub review_mode: ReviewMode,
    /// The reviews of the work, in order.
    pub reviews: Vec<ReviewState>,
    /// What agents asked, and what became of it.
    pub questions: Vec<Question>,
    /// What agents wanted to do and were not allowed.
    pub denied: Vec<DeniedRequest>,
    /// The turns of the leader after its plan.
    pub wakes: Vec<WakeRecord>,
    /// What workers and the leader found wrong.
    pub found: Vec<FindingRecord>,
    /// Why an agent that was to choose one of several results chose none.
    pub judge_failed: Option<JudgeFailed>,
    /// Which of several results of the same work was chosen.
    pub choice: Option<ChoiceRecord>,
    /// Messages to workers that no client took, each as a sentence.
    pub untaken: Vec<Phrase>,
    /// What was found out on the way: a name, and the text.
    pub findings: Vec<(String, String)>,
    /// `git diff --stat`, from the base to the integration.
    pub diff_stat: String,
    /// Whether it is not known what changed: everybody worked in a folder that is in no repository of git.
    pub is_diff_unknown: bool,
    /// The commit that a person is asked about, or was.
    pub asked_about: Option<String>,
    /// Why the commit could not land when it was approved before.
    pub refused: Option<String>,
    /// What was shown when the gate was last opened.
    pub shown: Option<Shown>,
    /// What was decided at the gate, in order.
    pub decisions: Vec<DecisionLine>,
    /// What the run cost.
    pub cost: Cost,
    /// What it might have cost.
    pub budget: Budget,
    /// The limit that ended it, in words.
    pub exhausted: Option<String>,
    /// Conflicts that were met.
    pub conflicts: Vec<Conflict>,
    /// What became of the user's branches while the run was at work, one sentence each.
    pub references: Vec<String>,
    /// What is left behind, and how to get at it.
    pub left: Vec<LeftBehind>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportOutcome {
    /// `complete`, `rejected`, `rolled_back`, `failed`, `cancelled`, `budget_exhausted`, `tasks_failed`.
    pub word: String,
    /// The exit code of `teamster run`.
    pub exit_code: Option<i64>,
    /// Why it ended so.
    pub reason: String,
    /// The commit with the work.
    pub commit: Option<String>,
}

/// Where a task stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TaskState {
    /// Nobody has begun it.
    #[default]
    Waiting,
    /// Somebody is at it.
    InProgress,
    /// It is done.
    Done,
    /// It is done and merged.
    Merged,
    /// It is done, and has changed nothing.
    Unchanged,
    /// It met a conflict, and the task that resolved it is merged.
    MergedBy(String),
    /// It is done, and could not be merged.
    NotMerged,
    /// It is done, and another result of the same work was taken.
    NotChosen,
    /// It failed for good.
    Failed,
    /// It waits for these, which failed for good.
    Behind(Vec<String>),
}

/// One task in a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskLine {
    /// Its number.
    pub id: String,
    /// What it is about.
    pub subject: String,
    /// Where it stands.
    pub state: TaskState,
    /// Who had it last.
    pub worker: Option<String>,
    /// How often it was begun.
    pub attempts: usize,
    /// What came of it.
    pub commit: Option<String>,
    /// How often merging it met a conflict.
    pub conflicts: usize,
    /// Why it failed.
    pub error: Option<String>,
    /// What was done, in its worker's words.
    pub summary: Option<String>,
    /// What whoever builds on it must know, in its worker's words.
    pub handover: Option<String>,
    /// What was left open, in its worker's words.
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
    /// Tasks that it completed.
    pub done: u64,
    /// Attempts of its that failed.
    pub failed: u64,
    /// How long it had a task.
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
    /// The round of fixing.
    pub round: u64,
    /// When it was entered.
    pub at: Time,
    /// How long it took; `None` while it goes on.
    pub lasted: Option<Duration>,
}

/// One check that was run.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckRun {
    /// What came of it.
    pub checked: Checked,
    /// The round of fixing.
    pub round: u64,
    /// The commit that it was run on.
    pub commit: String,
    /// It fails, and the team has to answer for that.
    pub charged: bool,
}

/// What was decided at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLine {
    /// `approved`, `rejected`, `rejected and rolled back`, `to be revised`.
    pub answer: String,
    /// Who decided.
    pub by: String,
    /// When it was decided.
    pub at: Time,
    /// The commit that it is about.
    pub commit: String,
    /// What was said.
    pub text: String,
}

/// A conflict that merging met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The task that was being merged.
    pub task: String,
    /// The files.
    pub files: Vec<String>,
    /// The task that is to resolve it.
    pub fix_task: Option<String>,
    /// It was the last one: the task failed for good.
    pub is_final: bool,
}

/// Puts a report into the project, in place of an earlier one, and returns its path there.
pub fn keep(project: &Dir, team: &TeamName, page: &str) -> Result<String, FsError> {
    let mut path = String::new();
    let mut folder = None;
    for name in layout::report_folders(team) {
        folder = Some(folder.as_ref().unwrap_or(project).child_or_create(name)?);
        path = format!("{path}{name}/");
    }
    let folder = folder.as_ref().unwrap_or(project);
    folder.replace(layout::REPORT, page.as_bytes(), Sync::Durable)?;
    Ok(format!("{path}{}", layout::REPORT))
}

impl ReportInput {
    /// Returns the checks that were run last: of one round and one commit, each command as it was run last.
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

    /// Returns whether the work was verified, in one sentence that never says more than is so.
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
