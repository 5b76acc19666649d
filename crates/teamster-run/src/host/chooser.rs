//! Chooses one of several results of the same work: those that fail a check are out, and of the others the smallest wins.

use teamster_isolate::git::{CommitId, Repo};
use teamster_journal::payload::{CandidateChosen, OtherResult, RunEnd};
use teamster_journal::{EventKind, HOST, NewEvent};
use teamster_store::TeamChanges;
use teamster_types::TaskId;
use teamster_types::task::Task;

use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::projector::Projector;
use super::task_progress::candidates;
use super::verifier::Verifier;
use super::{HostCommand, Result};
use crate::verify::compare_with_base;

/// A result that may be chosen, or why it may not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RatedResult {
    task: TaskId,
    commit: Option<String>,
    kept_as: Option<String>,
    /// The number of lines that it adds and removes.
    lines: u64,
    /// Why it is out.
    out: Option<String>,
}

/// Runs the checks on every result and chooses one; returns what follows.
pub(super) fn choose(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    verifier: &mut Verifier,
    projector: &mut Projector,
) -> Result<Vec<HostCommand>> {
    let tasks = run.tasks()?;
    let tasks: Vec<Task> = candidates(&tasks).into_iter().cloned().collect();
    for task in tasks.iter().filter(|task| task.is_done()) {
        if let Some(commit) = task.commit()
            && !verifier.check_candidate(run, guard, projector, task.id(), commit)?
        {
            return Ok(vec![HostCommand::Wait]);
        }
    }
    let mut rated = Vec::new();
    for task in &tasks {
        rated.push(rate(run, task)?);
    }
    let Some(best) = best_of(&rated) else {
        let why: Vec<String> = rated.iter().map(describe).collect();
        let why = format!(
            "none of {} results can be taken: {}",
            rated.len(),
            why.join("; ")
        );
        return Ok(vec![
            HostCommand::StopWorkers("no result can be taken"),
            HostCommand::finish(RunEnd::Unverified, why),
        ]);
    };
    let passed = rated.iter().filter(|result| result.out.is_none()).count();
    let reason = match passed {
        1 => "it is the only one that passes".to_owned(),
        count => format!(
            "of {count} that pass it is the smallest: {} changed lines",
            best.lines
        ),
    };
    let others = rated.iter().filter(|result| result.task != best.task);
    let chosen = CandidateChosen {
        commit: best.commit.clone().unwrap_or_default(),
        reason,
        others: others
            .map(|other| OtherResult {
                task: other.task.clone(),
                kept_as: other.kept_as.clone(),
                why: other
                    .out
                    .clone()
                    .unwrap_or_else(|| format!("{} changed lines", other.lines)),
            })
            .collect(),
    };
    let changes = TeamChanges {
        choose: rated
            .iter()
            .map(|result| (result.task.clone(), result.task == best.task))
            .collect(),
        record: vec![NewEvent::new(HOST, EventKind::CandidateChosen(chosen)).task(&best.task)],
        ..TeamChanges::default()
    };
    run.store().apply(run.team(), HOST, &changes)?;
    run.read()?;
    Ok(Vec::new())
}

/// Returns the result that passes with the fewest changed lines; of two that are alike, that of the earlier task.
fn best_of(rated: &[RatedResult]) -> Option<&RatedResult> {
    let passing = rated.iter().filter(|result| result.out.is_none());
    passing.min_by_key(|result| (result.lines, result.task.number()))
}

fn rate(run: &RunContext<'_>, task: &Task) -> Result<RatedResult> {
    let result = task.result().unwrap_or_default();
    let mut rated = RatedResult {
        task: task.id().clone(),
        commit: result.commit.clone(),
        kept_as: result.kept_as,
        lines: 0,
        out: None,
    };
    if task.is_failed() {
        let error = task.error().unwrap_or("no reason is known");
        rated.out = Some(format!("it failed: {error}"));
        return Ok(rated);
    }
    let Some(commit) = &result.commit else {
        rated.out = Some("it changed nothing".to_owned());
        return Ok(rated);
    };
    let state = run.state();
    if let Some(checks) = state.candidates.get(task.id()) {
        let report = compare_with_base(&run.spec().verify, &state.base, checks);
        let failed: Vec<&str> = report
            .to_fix()
            .chain(report.stopped.iter().copied())
            .map(|checked| checked.command.as_str())
            .collect();
        if !failed.is_empty() {
            rated.out = Some(format!("it fails {}", failed.join(", ")));
        }
    }
    if let Some(repo) = run.repo() {
        rated.lines = changed_lines(repo, result.base.as_deref(), commit)?;
    }
    Ok(rated)
}

fn changed_lines(repo: &Repo, base: Option<&str>, commit: &str) -> Result<u64> {
    let (Some(Ok(base)), Ok(commit)) =
        (base.map(str::parse::<CommitId>), commit.parse::<CommitId>())
    else {
        return Ok(u64::MAX);
    };
    let counts = repo.counted(&base, &commit)?;
    // A file that is no text has no lines; it counts as one change.
    let lines = counts
        .iter()
        .map(|count| match (count.added, count.removed) {
            (None, None) => 1,
            (added, removed) => added.unwrap_or(0) + removed.unwrap_or(0),
        });
    Ok(lines.sum())
}

fn describe(rated: &RatedResult) -> String {
    let kept = match &rated.kept_as {
        Some(name) => format!(" (kept as {name})"),
        None => String::new(),
    };
    let why = rated.out.as_deref().unwrap_or("it passes");
    format!("task {}: {why}{kept}", rated.task)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rated(number: u64, lines: u64, out: Option<&str>) -> RatedResult {
        RatedResult {
            task: TaskId::from_number(number),
            commit: Some("c".to_owned()),
            kept_as: None,
            lines,
            out: out.map(str::to_owned),
        }
    }

    #[test]
    fn smallest_result_that_passes_is_chosen() {
        let results = [
            rated(1, 3, Some("it fails make test")),
            rated(2, 20, None),
            rated(3, 10, None),
            rated(4, 10, None),
        ];
        assert_eq!(best_of(&results).unwrap().task, TaskId::from_number(3));
        assert_eq!(best_of(&results[..1]), None);
    }
}
