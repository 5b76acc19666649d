//! Makes the input of a report from the journal, so that the report can be recreated at any time.

use std::collections::{BTreeMap, BTreeSet};

use teamster_isolate::git::pin_ref;
use teamster_journal::cost::LimitReached;
use teamster_journal::payload::{CheckVerdict, GateAnswer, MergeConflict, RunSpec, SecretKept};
use teamster_journal::{
    DecisionRecord, Event, ON_BASE, RunHistory, RunState, TaskHistory, TeamState,
};
use teamster_types::task::{MergeMark, Status, Task};
use teamster_types::{TaskId, TeamName};

use super::{
    CheckRun, Conflict, DecisionLine, LeftBehind, ReportInput, ReportOutcome, StageLine, TaskLine,
    TaskState, WorkerLine,
};

/// Makes as much of the input as the journal contains. `tasks` are the team's present tasks, or those that
/// `teamster_store::rebuild` makes from the same events.
///
/// The caller adds what only git and the file system know: `diff_stat`, `findings`, and in `left` the worktrees and
/// branches that still exist. Commits of finished tasks that were not merged are in `left` already.
pub fn input_from(team: &TeamName, events: &[Event], tasks: &[Task]) -> ReportInput {
    let state = TeamState::of(events);
    let history = &state.run.history;
    let costs = &state.run.spent;
    let plan = history.plan.as_ref();
    let carried_out = state.run.planning.carried_out();
    let asked = history.gate.as_ref().map(|gate| &gate.opened);
    ReportInput {
        team: team.to_string(),
        started: history.started,
        ended: history.finished.as_ref().map(|(at, _)| *at),
        resumed: history.resumptions,
        outcome: history
            .finished
            .as_ref()
            .map(|(_, finished)| ReportOutcome {
                word: finished.outcome.clone(),
                exit_code: finished.exit_code,
                reason: finished.reason.clone(),
                commit: finished.commit.as_deref().and_then(filled),
            }),
        plan_source: plan.and_then(|plan| filled(&plan.source)),
        plan_path: plan.and_then(|plan| plan.path.as_deref().and_then(filled)),
        analysis: state.run.planning.analysis().to_owned(),
        assumptions: carried_out.map_or_else(Vec::new, |plan| plan.assumptions.clone()),
        risks: carried_out.map_or_else(Vec::new, |plan| plan.risks.clone()),
        tasks: task_lines(tasks, &state),
        workers: worker_lines(&state),
        stages: stages(history),
        phases: phases(&state.run),
        base_checks: checks(history, true),
        checks: checks(history, false),
        reviews: state.run.reviews.clone(),
        questions: state.questions.all().cloned().collect(),
        denied: state.run.permissions.denied(),
        wakes: history.collaboration.wakes.clone(),
        found: history.collaboration.findings.clone(),
        judge_failed: history.collaboration.judge_failed.clone(),
        choice: history.collaboration.choice.clone(),
        asked_about: asked.and_then(|asked| filled(&asked.commit)),
        refused: asked.and_then(|asked| asked.refused.as_deref().and_then(filled)),
        shown: history.shown.as_ref().map(|shown| shown.shown.clone()),
        decisions: history.decisions.iter().map(decision).collect(),
        cost: costs.run,
        exhausted: history.exhausted.as_ref().and_then(|(_, exhausted)| {
            LimitReached::from_event(exhausted).map(|exceeded| exceeded.words())
        }),
        conflicts: state.run.conflicts.iter().map(conflict).collect(),
        left: {
            let mut left = unmerged(team, tasks, &state);
            left.extend(state.secrets.iter().filter_map(secret));
            left
        },
        ..history.spec.as_ref().map(asked_for).unwrap_or_default()
    }
}

/// Returns the part of the input that the request determines.
fn asked_for(spec: &RunSpec) -> ReportInput {
    ReportInput {
        task: spec.task.clone(),
        agents: spec.agents.clone(),
        flow: spec.flow.clone(),
        uncommitted: spec.uncommitted as u64,
        base: spec.base.clone().filter(|base| !base.commit.is_empty()),
        budget: spec.budget,
        wanted: spec.verify.clone(),
        review_mode: spec.review,
        ..ReportInput::default()
    }
}

/// Returns the stages. Each lasts until the next begins, the last until the run ends.
fn stages(history: &RunHistory) -> Vec<StageLine> {
    history
        .stage_spans()
        .map(|(record, end)| StageLine {
            name: record.entered.stage.clone(),
            reason: record.entered.reason.clone(),
            round: record.entered.round.into(),
            at: record.at,
            lasted: end.map(|end| end.since(record.at)),
        })
        .collect()
}

/// Returns the phases of the flow. Each lasts until the next begins; the last one has no end.
fn phases(run: &RunState) -> Vec<StageLine> {
    let ends = run.phases.iter().skip(1).map(|next| Some(next.at));
    run.phases
        .iter()
        .zip(ends.chain([None]))
        .map(|(entered, end)| StageLine {
            name: entered.phase.clone(),
            reason: entered.reason.clone(),
            round: entered.round.into(),
            at: entered.at,
            lasted: end.map(|end| end.since(entered.at)),
        })
        .collect()
}

/// Returns the checks of the base, or those of the work. A check that began and has no result counts as stopped; it
/// must not be missing from the list.
fn checks(history: &RunHistory, on_base: bool) -> Vec<CheckRun> {
    let records = history.checks.iter();
    let records = records.filter(|record| (record.result.on == ON_BASE) == on_base);
    let wanted = history.spec.as_ref().map_or(&[][..], |spec| &spec.verify);
    records
        .map(|record| {
            let verdict = record.verdict.unwrap_or(CheckVerdict::Stopped);
            let mut checked = record.result.checked(verdict);
            let mut wanted = wanted.iter();
            if let Some(check) = wanted.find(|check| check.command == checked.command)
                && checked.source.is_empty()
            {
                checked.source.clone_from(&check.source);
            }
            CheckRun {
                checked,
                round: record.result.round.into(),
                commit: record.result.commit.clone(),
                charged: verdict.is_failure() && record.result.charged,
            }
        })
        .collect()
}

fn decision(record: &DecisionRecord) -> DecisionLine {
    let decided = &record.decided;
    let answer = match decided.answer() {
        Some(GateAnswer::Approve) => "approved",
        Some(GateAnswer::Revise { .. }) => "to be revised",
        Some(GateAnswer::Reject { rollback: true, .. }) => "rejected and rolled back",
        Some(GateAnswer::Reject { .. }) => "rejected",
        None => &decided.answer,
    };
    DecisionLine {
        answer: answer.to_owned(),
        by: decided.by.clone().unwrap_or_default(),
        at: record.at,
        commit: decided.commit.clone(),
        text: decided.text.clone().unwrap_or_default(),
    }
}

fn conflict((task, conflict): &(TaskId, MergeConflict)) -> Conflict {
    Conflict {
        task: task.to_string(),
        files: conflict.files.clone(),
        fix_task: conflict.fix_task.as_ref().map(ToString::to_string),
        is_final: conflict.is_final,
    }
}

/// Returns the members of the run, and all other workers that had a task, by name.
fn worker_lines(state: &TeamState) -> Vec<WorkerLine> {
    let spec = state.run.history.spec.as_ref();
    let members = spec.map_or(&[][..], |spec| &spec.members);
    let mut lines: Vec<WorkerLine> = members
        .iter()
        .map(|member| WorkerLine {
            name: member.name.to_string(),
            provider: member.provider.clone(),
            role: member.role.clone().unwrap_or_default(),
            ..WorkerLine::default()
        })
        .collect();
    // Workers that were added by hand have worked as well.
    let others = state.workers.iter().filter(|(name, worker)| {
        worker.attempts > 0 && !members.iter().any(|member| member.name.as_str() == *name)
    });
    lines.extend(others.map(|(name, _)| WorkerLine {
        name: name.clone(),
        ..WorkerLine::default()
    }));
    for line in &mut lines {
        if let (Some(worker), Some(last)) = (state.workers.get(&line.name), state.last) {
            line.done = worker.completed;
            line.failed = worker.failed;
            line.busy = worker.busy(last);
        }
        let costs = &state.run.spent.workers;
        line.cost = costs.get(&line.name).copied().unwrap_or_default();
    }
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    lines
}

fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn task_lines(tasks: &[Task], state: &TeamState) -> Vec<TaskLine> {
    let by_id: BTreeMap<&TaskId, &Task> = tasks.iter().map(|task| (task.id(), task)).collect();
    let nothing = TaskHistory::default();
    by_id
        .values()
        .filter(|task| !task.is_internal())
        .map(|task| {
            let history = state.tasks.get(task.id()).unwrap_or(&nothing);
            let cost = state.run.spent.tasks.get(task.id());
            let result = task.result().unwrap_or_default();
            TaskLine {
                id: task.id().to_string(),
                subject: task.subject().to_owned(),
                state: standing(task, history, state, &by_id),
                worker: history
                    .last_worker
                    .clone()
                    .or_else(|| task.owner().map(str::to_owned)),
                attempts: history.attempts,
                commit: commit_of(task),
                conflicts: history.conflicts,
                error: task.error().map(str::to_owned),
                summary: result.summary,
                handover: result.handover,
                problems: result.problems,
                cost: cost.copied().unwrap_or_default(),
            }
        })
        .collect()
}

fn standing(
    task: &Task,
    history: &TaskHistory,
    state: &TeamState,
    by_id: &BTreeMap<&TaskId, &Task>,
) -> TaskState {
    if task.is_failed() {
        return TaskState::Failed;
    }
    match task.status() {
        Status::Completed if is_not_chosen(task) => TaskState::NotChosen,
        Status::Completed if history.is_merged => TaskState::Merged,
        Status::Completed if history.is_unchanged => TaskState::Unchanged,
        Status::Completed => match state.merged_by(task.id()) {
            Some(fix) => TaskState::MergedBy(fix.to_string()),
            None if history.is_given_up => TaskState::NotMerged,
            None => TaskState::Done,
        },
        Status::InProgress => TaskState::InProgress,
        Status::Pending => {
            let failed = failed_before(task, by_id);
            if failed.is_empty() {
                TaskState::Waiting
            } else {
                TaskState::Behind(failed.iter().map(ToString::to_string).collect())
            }
        }
    }
}

/// Returns whether another result of the same work was chosen.
fn is_not_chosen(task: &Task) -> bool {
    task.merge_mark() == Some(MergeMark::NotChosen)
}

/// Returns the direct and indirect dependencies of a task that failed permanently.
fn failed_before(task: &Task, by_id: &BTreeMap<&TaskId, &Task>) -> BTreeSet<TaskId> {
    let mut failed = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut to_see: Vec<&TaskId> = task.blocked_by().iter().collect();
    while let Some(id) = to_see.pop() {
        // Another program may have written a cycle.
        if !seen.insert(id) {
            continue;
        }
        if let Some(blocker) = by_id.get(id) {
            if blocker.is_failed() {
                failed.insert(id.clone());
            }
            to_see.extend(blocker.blocked_by());
        }
    }
    failed
}

/// Returns finished work that was not merged.
fn unmerged(team: &TeamName, tasks: &[Task], state: &TeamState) -> Vec<LeftBehind> {
    let is_merged = |task: &Task| {
        let history = state.tasks.get(task.id());
        history.is_some_and(|history| history.is_merged) || state.merged_by(task.id()).is_some()
    };
    let mut tasks: Vec<&Task> = tasks
        .iter()
        .filter(|task| commit_of(task).is_some() && !is_merged(task))
        .collect();
    tasks.sort_by_key(|task| task.id());
    tasks
        .into_iter()
        .map(|task| {
            let fate = if is_not_chosen(task) {
                "chosen"
            } else {
                "merged"
            };
            let why = format!("the work of task {}, which was not {fate}", task.id());
            LeftBehind::reference(&pin_ref(team, task.id()), &why)
        })
        .collect()
}

/// Returns a file that is kept because it must not be committed.
fn secret(file: &SecretKept) -> Option<LeftBehind> {
    let kept = file.kept.as_deref()?;
    let why = match (&file.pattern, file.line) {
        (Some(pattern), _) => format!("{} must not be committed ({pattern})", file.path),
        (None, line) => {
            let line = line.unwrap_or_default();
            format!("{} has a key in line {line}", file.path)
        }
    };
    Some(LeftBehind::secret(kept, &why))
}

fn commit_of(task: &Task) -> Option<String> {
    filled(task.commit()?)
}
