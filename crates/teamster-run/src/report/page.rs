//! The report as Markdown.

use std::fmt::Write as _;

use super::markdown::{cell, code, counted, escaped, inside, moment, quoted, short, span};
use super::{ReportInput, TaskState, collaboration, review, sections, worker_words};

/// Returns the whole report.
pub fn page(input: &ReportInput) -> String {
    let mut page = format!("# Report of team {}\n\n", inside(&input.team));
    page.push_str(&summary(input));
    for (heading, text) in [
        ("Plan", collaboration::planning(input)),
        ("Tasks", sections::tasks(input)),
        ("Failed permanently", sections::failed(input)),
        ("Worker reports", worker_words::section(input)),
        ("Chosen result", collaboration::choice(input)),
        ("Questions", collaboration::questions(input)),
        ("Denied permissions", collaboration::denied(input)),
        ("Undelivered messages", sections::undelivered(input)),
        ("The leader", collaboration::leader(input)),
        ("Workers", sections::workers(input)),
        ("Timeline", sections::timeline(input)),
        ("Cost", sections::cost(input)),
        ("Verification", sections::verification(input)),
        ("Review", review::section(input)),
        ("Found by the team", collaboration::found(input)),
        ("Approval", sections::approval(input)),
        ("Conflicts", sections::conflicts(input)),
        ("Changes", sections::changes(input)),
        (
            "Branches that changed meanwhile",
            sections::references(input),
        ),
        ("Findings", sections::findings(input)),
        ("Left behind", sections::left(input)),
    ] {
        if !text.is_empty() {
            let _ = write!(page, "\n## {heading}\n\n{text}");
        }
    }
    page
}

fn summary(input: &ReportInput) -> String {
    let mut page = String::new();
    let task = quoted(&input.task);
    if !task.is_empty() {
        let _ = writeln!(page, "{task}");
    }
    let _ = writeln!(page, "**{}**", ending(input));
    if let Some(reason) = input
        .outcome
        .as_ref()
        .map(|outcome| escaped(&outcome.reason))
        .filter(|reason| !reason.is_empty())
    {
        let _ = writeln!(page, "\n{reason}");
    }
    page.push('\n');
    for point in points(input) {
        let _ = writeln!(page, "- {point}");
    }
    page
}

/// Returns how the run ended, in one line.
pub(super) fn ending(input: &ReportInput) -> String {
    let Some(outcome) = &input.outcome else {
        return "The run is not over.".to_owned();
    };
    let words = match outcome.word.as_str() {
        "complete" => "Complete",
        "rejected" => "Rejected",
        "rolled_back" => "Rejected and rolled back",
        "failed" => "Failed",
        "cancelled" => "Cancelled",
        "budget_exhausted" => "Stopped: the budget is used up",
        "tasks_failed" => "Ended: some tasks failed permanently",
        _ => "Ended",
    };
    match outcome.exit_code {
        Some(code) => format!("{words} (exit code {code})."),
        None => format!("{words}."),
    }
}

fn points(input: &ReportInput) -> Vec<String> {
    let mut points = vec![input.verified_words().to_string(), tasks_words(input)];
    match (input.started, input.took()) {
        (Some(started), Some(took)) => {
            points.push(format!("Began {}, took {}.", moment(started), span(took)));
        }
        (Some(started), None) => points.push(format!("Began {}.", moment(started))),
        _ => {}
    }
    if input.resumed > 0 {
        let times = counted(input.resumed, "time");
        points.push(format!("It was taken up again {times}."));
    }
    if let Some(base) = &input.base {
        let branch = base.branch.as_ref();
        let branch = branch.map_or_else(String::new, |branch| format!(" of {}", code(branch)));
        points.push(format!(
            "From commit {}{branch}.",
            code(&short(&base.commit))
        ));
    }
    if input.uncommitted > 0 {
        points.push(uncommitted_words(input.uncommitted));
    }
    let commit = input.outcome.as_ref();
    if let Some(commit) = commit.and_then(|outcome| outcome.commit.as_ref()) {
        points.push(format!("The work is commit {}.", code(&short(commit))));
    }
    if !input.agents.is_empty() {
        points.push(format!("Agents: {}.", cell(&input.agents)));
    }
    if let Some(plan) = plan_words(input) {
        points.push(plan);
    }
    let cost = input.cost.words();
    let cost = cost.strip_prefix("cost ").unwrap_or(&cost);
    points.push(format!("Cost: {cost}."));
    points
}

/// Returns a sentence about uncommitted files of the user that the work does not contain.
pub(super) fn uncommitted_words(count: u64) -> String {
    match count {
        1 => "1 file was not committed when the run began and is no part of it.".to_owned(),
        _ => format!("{count} files were not committed when the run began and are no part of it."),
    }
}

/// Returns how many tasks are in which state.
pub(super) fn tasks_words(input: &ReportInput) -> String {
    let count = |is: fn(&TaskState) -> bool| {
        let tasks = input.tasks.iter();
        tasks.filter(|task| is(&task.state)).count()
    };
    let mut parts = Vec::new();
    for (number, what) in [
        (
            count(|state| matches!(state, TaskState::Merged | TaskState::MergedBy(_))),
            "merged",
        ),
        (count(|state| *state == TaskState::Done), "done"),
        (
            count(|state| *state == TaskState::Unchanged),
            "completed without a change",
        ),
        (count(|state| *state == TaskState::NotMerged), "not merged"),
        (
            count(|state| *state == TaskState::Failed),
            "failed permanently",
        ),
        (
            count(|state| matches!(state, TaskState::Behind(_))),
            "blocked by failed tasks",
        ),
        (
            count(|state| *state == TaskState::InProgress),
            "in progress",
        ),
        (count(|state| *state == TaskState::Waiting), "waiting"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    if parts.is_empty() {
        return "There were no tasks.".to_owned();
    }
    format!(
        "{}: {}.",
        counted(input.tasks.len(), "task"),
        parts.join(", ")
    )
}

fn plan_words(input: &ReportInput) -> Option<String> {
    let by = plan_source(input.plan_source.as_deref()?);
    let file = input.plan_path.as_deref().map(code).unwrap_or_default();
    Some(if file.is_empty() {
        format!("Plan: {by}.")
    } else {
        format!("Plan: {by}, {file}.")
    })
}

/// Returns the source of the plan, in words.
pub(super) fn plan_source(source: &str) -> String {
    match source {
        "file" => "from a file".to_owned(),
        "leader" => "by the leader".to_owned(),
        "preset" => "of the preset".to_owned(),
        "session" => "of the session that started the run".to_owned(),
        "sentence" => "the task as given".to_owned(),
        other => cell(other),
    }
}
