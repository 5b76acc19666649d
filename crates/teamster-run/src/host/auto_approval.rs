//! What keeps merged work from being approved automatically, so that a person has to look.
//!
//! Each function looks at one source: what workers reported, failed tasks, checks, denied requests, findings, the review, and
//! changes of the repository that git would not show. The first objection counts, because one is enough to ask a person.

use teamster_journal::payload::{ReviewMode, ReviewVerdict, RunSpec, Severity};
use teamster_journal::{Gate, ReviewOutcome, RunState};
use teamster_types::TaskId;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::task::Task;
use teamster_types::text::{clip, one_line};

use super::context::RunContext;
use super::task_progress::{hopeless, needs_review};
use super::{GateExit, Result, render, repository_audit};

/// The longest quotation of a worker in a sentence, in characters.
const LONGEST_WORDS: usize = 200;

/// Returns why the work cannot be approved automatically, and how the host leaves the gate.
pub(super) fn objection(run: &RunContext<'_>, gate: &Gate) -> Result<Option<(GateExit, String)>> {
    if let Some(why) = open_problem(run)? {
        return Ok(Some((GateExit::TasksFailed, why)));
    }
    if let Some(why) = task_objection(run.spec(), &run.tasks()?, gate.verified) {
        return Ok(Some(why));
    }
    if let Some(why) = given_up_tasks(run.state()) {
        return Ok(Some((GateExit::TasksFailed, why.to_string())));
    }
    if let Some(why) = unanswered_request(run.state()) {
        return Ok(Some((GateExit::Unverified, why)));
    }
    if let Some(why) = open_finding(run.state()) {
        return Ok(Some((GateExit::Unverified, why)));
    }
    if let Some(why) = review_objection(run.spec(), run.state(), &gate.commit) {
        return Ok(Some((GateExit::Unverified, why)));
    }
    if let Some(first) = repository_audit::new_replacements(run).first() {
        let why = format!("{first} was added during the run, so a person has to look");
        return Ok(Some((GateExit::Unverified, why)));
    }
    let changed = repository_audit::changed_rules(run);
    if !changed.is_empty() {
        let why = format!(
            "{} of git changed during the run, so a person has to look",
            changed.join(", ")
        );
        return Ok(Some((GateExit::Unverified, why)));
    }
    Ok(None)
}

/// Returns an open problem that the worker of a task without changes reports, in words. A person decides what it means.
///
/// An admission that something did not work counts only if the worker did not report the task as done: `I could not
/// find a fault` is a good end of a task that looks for one.
pub(super) fn open_problem(run: &RunContext<'_>) -> Result<Option<String>> {
    let tasks = run.tasks()?;
    let said = render::worker_summaries(run)?;
    let found = said.iter().find_map(|said| {
        let task = tasks.iter().find(|task| *task.id() == said.task_id)?;
        let is_reported = task.result().is_some_and(|result| result.reported_done);
        let admission = said.admission.as_ref().filter(|_| !is_reported);
        let open = admission.or_else(|| said.problems.first())?;
        task.is_unchanged().then_some((said, open))
    });
    Ok(found.map(|(said, open)| {
        let who = said.worker.as_deref().unwrap_or("its worker");
        let (task, open) = (&said.task_id, clip(&one_line(open), LONGEST_WORDS));
        format!("task {task} changed nothing, and {who} says: \u{201c}{open}\u{201d}")
    }))
}

/// Returns why the tasks or the checks need a person, and how the host leaves the gate.
fn task_objection(spec: &RunSpec, tasks: &[Task], is_verified: bool) -> Option<(GateExit, String)> {
    let failed = hopeless(tasks).len();
    if failed > 0 {
        let why = format!("{failed} tasks failed permanently or wait for one that did");
        return Some((GateExit::TasksFailed, why));
    }
    if !is_verified {
        let why = if spec.verify.is_empty() {
            "nothing was verified, so it was not approved"
        } else {
            "not every check passed, so it was not approved"
        };
        return Some((GateExit::Unverified, why.to_owned()));
    }
    let outside: Vec<&str> = tasks
        .iter()
        .filter(|task| needs_review(task))
        .map(|task| task.id().as_str())
        .collect();
    if outside.is_empty() {
        return None;
    }
    let why = format!(
        "task {} changed files that it had not reserved, so a person has to look",
        outside.join(", ")
    );
    Some((GateExit::Unverified, why))
}

/// Returns why the review needs a person, in words: there is something to fix, or a required review is missing.
fn review_objection(spec: &RunSpec, state: &RunState, commit: &str) -> Option<String> {
    let is_required = spec.review == ReviewMode::Require;
    let review = state.review_of(commit);
    let why = match review.map(|review| &review.outcome) {
        Some(ReviewOutcome::Finished(finished)) => {
            // A finding that the leader dismissed needs a person only if it is a blocker.
            let mut left = review.map_or(0, |review| review.to_fix().len());
            let dismissed = review.map(|review| review.dismissed.keys());
            for place in dismissed.into_iter().flatten() {
                let finding = place
                    .checked_sub(1)
                    .and_then(|at| finished.findings.get(at));
                let is_blocker = finding.is_some_and(|it| it.severity == Severity::Blocker);
                left += usize::from(is_blocker);
            }
            let unmet = finished.criteria.iter().filter(|it| !it.met).count();
            // A leader that dismissed findings knows that the reviewer asks for changes.
            let is_settled = review.is_some_and(|review| !review.dismissed.is_empty());
            let wants_changes = finished.verdict != ReviewVerdict::Accept && !is_settled;
            let why = match (left, unmet, wants_changes) {
                (0, 0, false) => return None,
                (0, 0, true) => "the review asks for changes".to_owned(),
                (0, unmet, _) => format!("{unmet} acceptance criteria are not met by the review"),
                (left, ..) => {
                    format!("the review found {left} things that should be fixed first")
                }
            };
            return Some(format!("{why}, so a person has to look"));
        }
        _ if !is_required => return None,
        Some(ReviewOutcome::Failed(why) | ReviewOutcome::Skipped(why)) => why.as_str(),
        Some(ReviewOutcome::UnderWay) | None => "no reviewer was asked about this commit",
    };
    Some(format!(
        "it was NOT reviewed, so it was not approved: {why}"
    ))
}

/// Returns the failed tasks that the leader cancelled without a replacement, in words.
pub(super) fn given_up_tasks(state: &RunState) -> Option<Phrase> {
    let given_up: Vec<&str> = state
        .failures
        .given_up()
        .iter()
        .map(TaskId::as_str)
        .collect();
    (!given_up.is_empty()).then(|| {
        let tasks = given_up.join(", ");
        Phrase::new(PhraseCode::FailedTasksCancelled, [("tasks", &tasks)])
    })
}

/// Returns a permission request that was denied only because it was not answered, in words. Its worker continued
/// without it, and only a person can say whether that matters.
pub(super) fn unanswered_request(state: &RunState) -> Option<String> {
    let denied = state.permissions.unanswered()?;
    let words = clip(&one_line(&denied.words()), LONGEST_WORDS);
    Some(format!("{words}, so a person has to look"))
}

/// Returns a finding of workers or the leader that must be fixed before the work lands, in words. Such a finding is
/// never marked as fixed, so a person has to look.
fn open_finding(state: &RunState) -> Option<String> {
    let ((by, first), more) = state.found.split_first()?;
    let claim = clip(&one_line(&first.claim), LONGEST_WORDS);
    let more = match more.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let severity = first.severity.as_str();
    Some(format!(
        "{by} found a {severity}: \u{201c}{claim}\u{201d}{more}; a person has to look"
    ))
}
