//! A report's input from the journal, so that it can be made again whenever somebody wants it.

use std::collections::{BTreeMap, BTreeSet};

use teamster_isolate::git::pin_ref;
use teamster_journal::cost::{Costs, Exceeded};
use teamster_journal::payload::{CheckResult, CheckVerdict, GateDecided, RunSpec};
use teamster_journal::{Event, EventKind, ON_BASE};
use teamster_types::task::{Status, Task};
use teamster_types::{TaskId, TeamName};

use super::fold::{Stories, TaskStory};
use super::{
    CheckRun, Decision, Left, Outcome, ReportInput, Stage, TaskLine, TaskState, WorkerLine,
};

/// Makes as much of the input as the journal knows. `tasks` are the team's tasks as they stand, or as
/// `teamster_store::rebuild` makes them from the same events.
///
/// What git and the folders know is for the caller to add: `diff_stat`, `findings`, and to `left` the worktrees and
/// branches that are really there. Commits of finished tasks that were not merged are in `left` already.
pub fn input_from(team: &TeamName, events: &[Event], tasks: &[Task]) -> ReportInput {
    let mut input = ReportInput {
        team: team.to_string(),
        ..ReportInput::default()
    };
    let events: Vec<(&Event, EventKind)> = events
        .iter()
        .map(|event| (event, event.payload()))
        .collect();
    let mut costs = Costs::default();
    for (event, what) in &events {
        take(&mut input, event, what);
        costs.apply(event, what);
    }
    take_checks(&mut input, &events);
    end_stages(&mut input);
    let stories = Stories::of(&events);
    input.cost = costs.run;
    input.tasks = task_lines(tasks, &stories, &costs);
    for line in &mut input.workers {
        if let Some(story) = stories.workers.get(&line.name) {
            (line.done, line.failed, line.busy) = (story.done, story.failed, story.busy);
        }
        line.cost = costs.workers.get(&line.name).copied().unwrap_or_default();
    }
    // Whoever came later, by hand, worked as well.
    for (name, story) in &stories.workers {
        if !input.workers.iter().any(|line| line.name == *name) {
            input.workers.push(WorkerLine {
                name: name.clone(),
                done: story.done,
                failed: story.failed,
                busy: story.busy,
                cost: costs.workers.get(name).copied().unwrap_or_default(),
                ..WorkerLine::default()
            });
        }
    }
    input.workers.sort_by(|a, b| a.name.cmp(&b.name));
    input.left = unmerged(team, tasks, &stories);
    input.conflicts = stories.conflicts;
    input
}

/// Takes what one event tells about the run as a whole.
fn take(input: &mut ReportInput, event: &Event, what: &EventKind) {
    match what {
        EventKind::RunStarted(started) => begin(input, event, &started.spec),
        EventKind::RunResumed(_) => input.resumed += 1,
        EventKind::RunStage(entered) => input.stages.push(Stage {
            name: entered.stage.clone(),
            reason: entered.reason.clone(),
            round: entered.round.into(),
            at: event.ts,
            lasted: None,
        }),
        EventKind::RunPlan(plan) => {
            input.plan_source = filled(&plan.source);
            input.plan_path = plan.path.as_deref().and_then(filled);
        }
        EventKind::RunFinished(finished) => {
            input.ended = Some(event.ts);
            input.outcome = Some(Outcome {
                word: finished.outcome.clone(),
                exit_code: finished.exit_code,
                reason: finished.reason.clone(),
                commit: finished.commit.as_deref().and_then(filled),
            });
        }
        EventKind::ApprovalShown(shown) => input.shown = Some(shown.shown.clone()),
        EventKind::ApprovalRequested(opened) => {
            input.asked_about = filled(&opened.commit);
            input.refused = opened.refused.as_deref().and_then(filled);
        }
        EventKind::ApprovalGiven(decided) => {
            input.decisions.push(decision("approved", event, decided));
        }
        EventKind::ApprovalRevised(decided) => {
            input
                .decisions
                .push(decision("to be revised", event, decided));
        }
        EventKind::ApprovalRefused(decided) => {
            let answer = if decided.rollback == Some(true) {
                "rejected and rolled back"
            } else {
                "rejected"
            };
            input.decisions.push(decision(answer, event, decided));
        }
        EventKind::BudgetExhausted(exhausted) => {
            if let Some(exceeded) = Exceeded::told(exhausted) {
                input.exhausted = Some(exceeded.words());
            }
        }
        _ => {}
    }
}

fn begin(input: &mut ReportInput, event: &Event, spec: &RunSpec) {
    input.started = Some(event.ts);
    input.task.clone_from(&spec.task);
    input.agents.clone_from(&spec.agents);
    input.uncommitted = spec.uncommitted as u64;
    input.base = spec.base.clone().filter(|base| !base.commit.is_empty());
    input.budget = spec.budget;
    input.wanted.extend(spec.verify.iter().cloned());
    input
        .workers
        .extend(spec.members.iter().map(|member| WorkerLine {
            name: member.name.to_string(),
            provider: member.provider.clone(),
            role: member.role.clone().unwrap_or_default(),
            ..WorkerLine::default()
        }));
}

/// Takes the checks. One that was begun and has no end was cut short, and that must not look like one less.
fn take_checks(input: &mut ReportInput, events: &[(&Event, EventKind)]) {
    let mut runs: Vec<(bool, CheckRun)> = Vec::new();
    for (_, what) in events {
        let Some((is_base, run)) = check_run(what) else {
            continue;
        };
        // Its end, or another beginning after its host was gone.
        runs.retain(|(base, other)| {
            let is_same = other.checked.command == run.checked.command
                && other.round == run.round
                && other.commit == run.commit
                && *base == is_base;
            !(is_same && other.checked.verdict == CheckVerdict::Stopped)
        });
        runs.push((is_base, run));
    }
    for (is_base, mut run) in runs {
        let mut wanted = input.wanted.iter();
        if let Some(check) = wanted.find(|check| check.command == run.checked.command)
            && run.checked.source.is_empty()
        {
            run.checked.source.clone_from(&check.source);
        }
        if is_base {
            input.base_checks.push(run);
        } else {
            input.checks.push(run);
        }
    }
}

/// Returns the check that an event is about, and whether it was run before the work began.
fn check_run(what: &EventKind) -> Option<(bool, CheckRun)> {
    let (verdict, result) = match what {
        EventKind::VerifyStarted(started) => (
            CheckVerdict::Stopped,
            CheckResult {
                on: started.on.clone(),
                commit: started.commit.clone(),
                command: started.command.clone(),
                round: started.round,
                ..CheckResult::default()
            },
        ),
        EventKind::VerifyPassed(result) => (CheckVerdict::Passed, result.clone()),
        EventKind::VerifyFlaky(result) => (CheckVerdict::Flaky, result.clone()),
        EventKind::VerifyFailed(result) => (result.failure(), result.clone()),
        _ => return None,
    };
    let run = CheckRun {
        checked: result.checked(verdict),
        round: result.round.into(),
        commit: result.commit,
        charged: verdict.is_failure() && result.charged,
    };
    Some((result.on == ON_BASE, run))
}

fn decision(answer: &str, event: &Event, decided: &GateDecided) -> Decision {
    Decision {
        answer: answer.to_owned(),
        by: decided.by.clone().unwrap_or_default(),
        at: event.ts,
        commit: decided.commit.clone(),
        text: decided.text.clone().unwrap_or_default(),
    }
}

fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// A stage lasts until the next one begins, the last until the run ends.
fn end_stages(input: &mut ReportInput) {
    let ends: Vec<_> = input
        .stages
        .iter()
        .skip(1)
        .map(|stage| Some(stage.at))
        .chain([input.ended])
        .collect();
    for (stage, end) in input.stages.iter_mut().zip(ends) {
        stage.lasted = end.map(|end| end.since(stage.at));
    }
}

fn task_lines(tasks: &[Task], stories: &Stories, costs: &Costs) -> Vec<TaskLine> {
    let by_id: BTreeMap<&TaskId, &Task> = tasks.iter().map(|task| (task.id(), task)).collect();
    let nothing = TaskStory::default();
    by_id
        .values()
        .filter(|task| !task.is_internal())
        .map(|task| {
            let story = stories.tasks.get(task.id()).unwrap_or(&nothing);
            TaskLine {
                id: task.id().to_string(),
                subject: task.subject().to_owned(),
                state: state(task, story, &by_id),
                worker: story
                    .last_worker
                    .clone()
                    .or_else(|| task.owner().map(str::to_owned)),
                attempts: story.attempts,
                commit: commit_of(task),
                conflicts: story.conflicts,
                error: task.error().map(str::to_owned),
                cost: costs.tasks.get(task.id()).copied().unwrap_or_default(),
            }
        })
        .collect()
}

fn state(task: &Task, story: &TaskStory, by_id: &BTreeMap<&TaskId, &Task>) -> TaskState {
    if task.is_failed() {
        return TaskState::Failed;
    }
    match task.status() {
        Status::Completed if story.is_merged => TaskState::Merged,
        Status::Completed if story.is_unchanged => TaskState::Unchanged,
        Status::Completed => match &story.merged_by {
            Some(fix) => TaskState::MergedBy(fix.to_string()),
            None if story.is_given_up => TaskState::NotMerged,
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

/// The tasks that failed for good and that this one waits for, however far away.
fn failed_before(task: &Task, by_id: &BTreeMap<&TaskId, &Task>) -> BTreeSet<TaskId> {
    let mut failed = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut to_see: Vec<&TaskId> = task.blocked_by().iter().collect();
    while let Some(id) = to_see.pop() {
        // A foreign writer may have made a circle.
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

/// Finished work that is in nobody's branch.
fn unmerged(team: &TeamName, tasks: &[Task], stories: &Stories) -> Vec<Left> {
    let is_merged = |task: &Task| {
        let story = stories.tasks.get(task.id());
        story.is_some_and(|story| story.is_merged || story.merged_by.is_some())
    };
    let mut tasks: Vec<&Task> = tasks
        .iter()
        .filter(|task| commit_of(task).is_some() && !is_merged(task))
        .collect();
    tasks.sort_by_key(|task| task.id());
    tasks
        .into_iter()
        .map(|task| {
            let why = format!("the work of task {}, which was not merged", task.id());
            Left::reference(&pin_ref(team, task.id()), &why)
        })
        .collect()
}

fn commit_of(task: &Task) -> Option<String> {
    filled(task.ours("result")?.get("commit")?.as_str()?)
}
