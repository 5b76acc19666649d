//! A report's input from the journal, so that it can be made again whenever somebody wants it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use teamster_isolate::git::pin_ref;
use teamster_journal::Event;
use teamster_types::json::Object;
use teamster_types::task::{Status, Task};
use teamster_types::{TaskId, TeamName};

use super::fold::{Stories, TaskStory, word};
use super::{
    Base, CheckRun, Decision, Left, Outcome, ReportInput, Stage, TaskLine, TaskState, WorkerLine,
};
use crate::cost::{Budget, Costs, Exceeded, Limit};
use crate::verify::{Check, Checked, Verdict};

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
    for event in events {
        take(&mut input, event);
    }
    take_checks(&mut input, events);
    end_stages(&mut input);
    let costs = Costs::of(events);
    let stories = Stories::of(events);
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
fn take(input: &mut ReportInput, event: &Event) {
    let data = &event.data;
    match event.kind.as_str() {
        "run.started" => begin(input, event),
        "run.resumed" => input.resumed += 1,
        "run.stage" => input.stages.push(Stage {
            name: text(data, "stage"),
            reason: text(data, "reason"),
            round: number(data, "round"),
            at: event.ts,
            lasted: None,
        }),
        "run.plan" => {
            input.plan_source = word(data.get("source"));
            input.plan_path = word(data.get("path"));
        }
        "run.finished" => {
            input.ended = Some(event.ts);
            input.outcome = Some(Outcome {
                word: text(data, "outcome"),
                exit_code: data.get("exitCode").and_then(Value::as_i64),
                reason: text(data, "reason"),
                commit: word(data.get("commit")),
            });
        }
        "approval.shown" => {
            input.shown = serde_json::from_value(Value::Object(data.clone())).ok();
        }
        "approval.requested" => {
            input.asked_about = word(data.get("commit"));
            input.refused = word(data.get("refused"));
        }
        "approval.given" | "approval.refused" | "approval.revised" => {
            input.decisions.push(decision(event));
        }
        "budget.exhausted" => {
            let limit = [Limit::Tokens, Limit::Usd, Limit::Minutes]
                .into_iter()
                .find(|limit| data.get("what").and_then(Value::as_str) == Some(limit.as_str()));
            let figure = |key| data.get(key).and_then(Value::as_f64);
            if let (Some(what), Some(limit), Some(used)) = (limit, figure("limit"), figure("used"))
            {
                input.exhausted = Some(Exceeded { what, limit, used }.words());
            }
        }
        _ => {}
    }
}

fn begin(input: &mut ReportInput, event: &Event) {
    let data = &event.data;
    input.started = Some(event.ts);
    input.task = text(data, "task");
    input.agents = text(data, "agents");
    input.uncommitted = number(data, "uncommitted");
    input.base = data.get("base").and_then(|base| {
        Some(Base {
            commit: word(base.get("commit"))?,
            branch: word(base.get("branch")),
        })
    });
    if let Some(budget) = data.get("budget") {
        input.budget = Budget::from_json(budget);
    }
    for check in items(data.get("verify")) {
        if let Some(command) = word(check.get("command")) {
            let source = word(check.get("source")).unwrap_or_default();
            input.wanted.push(Check::new(command, source));
        }
    }
    for member in items(data.get("members")) {
        if let Some(name) = word(member.get("name")) {
            input.workers.push(WorkerLine {
                name,
                provider: word(member.get("provider")).unwrap_or_default(),
                role: word(member.get("role")).unwrap_or_default(),
                ..WorkerLine::default()
            });
        }
    }
}

/// Takes the checks. One that was begun and has no end was cut short, and that must not look like one less.
fn take_checks(input: &mut ReportInput, events: &[Event]) {
    let mut runs: Vec<(bool, CheckRun)> = Vec::new();
    for event in events {
        if !matches!(
            event.kind.as_str(),
            "verify.started" | "verify.passed" | "verify.failed" | "verify.flaky"
        ) {
            continue;
        }
        let is_base = event.data.get("on").and_then(Value::as_str) == Some("base");
        let run = check_run(event);
        // Its end, or another beginning after its host was gone.
        runs.retain(|(base, other)| {
            let is_same = other.checked.command == run.checked.command
                && other.round == run.round
                && other.commit == run.commit
                && *base == is_base;
            !(is_same && other.checked.verdict == Verdict::Stopped)
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

fn check_run(event: &Event) -> CheckRun {
    let data = &event.data;
    let is_late = data.get("timedOut") == Some(&Value::Bool(true));
    let verdict = match event.kind.as_str() {
        "verify.passed" => Verdict::Passed,
        "verify.flaky" => Verdict::Flaky,
        "verify.started" => Verdict::Stopped,
        _ if is_late => Verdict::TimedOut,
        _ => Verdict::Failed,
    };
    let code = data.get("exitCode").and_then(Value::as_i64);
    let signal = data.get("signal").and_then(Value::as_i64);
    // An event without the word is charged: nothing is excused because somebody forgot to say so.
    let is_excused = data.get("charged") == Some(&Value::Bool(false));
    CheckRun {
        checked: Checked {
            command: text(data, "command"),
            source: text(data, "source"),
            verdict,
            exit_code: code.and_then(|code| i32::try_from(code).ok()),
            signal: signal.and_then(|signal| i32::try_from(signal).ok()),
            seconds: data.get("seconds").and_then(Value::as_f64).unwrap_or(0.0),
            last: lines(data.get("last")),
            log: text(data, "log"),
            remarks: items(data.get("remarks"))
                .filter_map(|remark| word(Some(remark)))
                .collect(),
        },
        round: number(data, "round"),
        commit: text(data, "commit"),
        charged: verdict.is_failure() && !is_excused,
    }
}

fn decision(event: &Event) -> Decision {
    let data = &event.data;
    let is_rolled_back = data.get("rollback") == Some(&Value::Bool(true));
    let answer = match event.kind.as_str() {
        "approval.given" => "approved",
        "approval.revised" => "to be revised",
        _ if is_rolled_back => "rejected and rolled back",
        _ => "rejected",
    };
    Decision {
        answer: answer.to_owned(),
        by: text(data, "by"),
        at: event.ts,
        commit: text(data, "commit"),
        text: text(data, "text"),
    }
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
    word(task.ours("result")?.get("commit"))
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// Several lines, as one text or as a list.
fn lines(value: Option<&Value>) -> String {
    match value {
        Some(Value::Array(items)) => {
            let lines: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            lines.join("\n")
        }
        value => word(value).unwrap_or_default(),
    }
}

fn text(data: &Object, key: &str) -> String {
    word(data.get(key)).unwrap_or_default()
}

fn number(data: &Object, key: &str) -> u64 {
    data.get(key).and_then(Value::as_u64).unwrap_or(0)
}
