//! The sections of the report. A section without content is empty.

use std::fmt::Write as _;
use std::time::Duration;
use teamster_journal::cost::{say_usd, with_commas};
use teamster_journal::payload::CheckVerdict;

use super::markdown::{
    MarkdownTable, block, cell, code, code_cell, counted, escaped, inside, last_lines, moment,
    plain, quoted, short, span,
};
use super::{CheckRun, ReportInput, StageLine, TaskLine, TaskState};

/// The number of lines of a failed check in the report; its log has more.
const LAST_LINES: usize = 50;
/// The number of a conflict's files that are listed.
const MOST_FILES: usize = 10;

/// Returns the messages to workers that were never delivered.
pub(super) fn undelivered(input: &ReportInput) -> String {
    let mut page = String::new();
    for message in &input.untaken {
        let _ = writeln!(page, "- {}", inside(message.as_str()));
    }
    page
}

/// Returns the state of a task, in words.
pub(super) fn state_words(state: &TaskState) -> String {
    match state {
        TaskState::Waiting => "waiting".to_owned(),
        TaskState::InProgress => "in progress".to_owned(),
        TaskState::Done => "done".to_owned(),
        TaskState::Merged => "merged".to_owned(),
        TaskState::Unchanged => "completed, no change".to_owned(),
        TaskState::MergedBy(id) => format!("merged by task {id}"),
        TaskState::NotMerged => "done, not merged".to_owned(),
        TaskState::NotChosen => "done, not chosen".to_owned(),
        TaskState::Failed => "failed permanently".to_owned(),
        TaskState::Behind(ids) => match ids.as_slice() {
            [id] => format!("blocked by failed task {id}"),
            ids => format!("blocked by failed tasks {}", ids.join(", ")),
        },
    }
}

pub(super) fn tasks(input: &ReportInput) -> String {
    if input.tasks.is_empty() {
        return String::new();
    }
    let mut table = MarkdownTable::new([
        "Task",
        "Subject",
        "Status",
        "Worker",
        "Attempts",
        "Commit",
        "Conflicts",
        "Tokens",
        "Cost",
    ]);
    for task in &input.tasks {
        table.row([
            cell(&task.id),
            cell(&task.subject),
            cell(&state_words(&task.state)),
            task.worker.as_deref().map(cell).unwrap_or_default(),
            task.attempts.to_string(),
            task.commit
                .as_deref()
                .map(|commit| code_cell(&short(commit)))
                .unwrap_or_default(),
            task.conflicts.to_string(),
            task.cost.say_tokens(),
            task.cost.say_money(),
        ]);
    }
    table.render()
}

/// Returns the changes of the user's branches during the run.
pub(super) fn references(input: &ReportInput) -> String {
    if input.references.is_empty() {
        return String::new();
    }
    let mut page = "teamster did not do this: it was you, or an agent.\n\n".to_owned();
    for sentence in &input.references {
        let _ = writeln!(page, "- {}", inside(sentence));
    }
    page
}

/// Returns the tasks that failed permanently with their reasons, and the tasks that wait for them.
pub(super) fn failed(input: &ReportInput) -> String {
    let mut page = String::new();
    for task in &input.tasks {
        let words = match &task.state {
            TaskState::Failed => failure_words(task),
            TaskState::NotMerged => "It is done, and could not be merged.".to_owned(),
            TaskState::Behind(ids) => format!("It waits for {}.", ids.join(", ")),
            _ => continue,
        };
        let (id, subject) = (cell(&task.id), cell(&task.subject));
        let _ = writeln!(page, "- Task {id}, {subject}: {words}");
    }
    page
}

fn failure_words(task: &TaskLine) -> String {
    let error = task.error.as_deref().map(inside).unwrap_or_default();
    if error.is_empty() {
        "It failed, and no reason was given.".to_owned()
    } else {
        error
    }
}

pub(super) fn workers(input: &ReportInput) -> String {
    if input.workers.is_empty() {
        return String::new();
    }
    let mut table = MarkdownTable::new([
        "Worker",
        "Agent",
        "Role",
        "Done",
        "Failed attempts",
        "Busy",
        "Tokens",
        "Cost",
    ]);
    for worker in &input.workers {
        table.row([
            cell(&worker.name),
            cell(&worker.provider),
            cell(&worker.role),
            worker.done.to_string(),
            worker.failed.to_string(),
            span(worker.busy),
            worker.cost.say_tokens(),
            worker.cost.say_money(),
        ]);
    }
    table.render()
}

pub(super) fn timeline(input: &ReportInput) -> String {
    let mut page = String::new();
    if !input.stages.is_empty() {
        page.push_str(&entered("Stage", &input.stages, "goes on"));
    }
    if !input.phases.is_empty() {
        let flow = cell(&input.flow);
        let _ = write!(page, "\nThe phases of the flow {flow}:\n\n");
        page.push_str(&entered("Phase", &input.phases, ""));
    }
    page
}

/// Returns stages or phases with their durations; `last` is shown for one without an end.
fn entered(what: &str, lines: &[StageLine], last: &str) -> String {
    let mut table = MarkdownTable::new(["Entered", what, "Round", "Took", "Why"]);
    for line in lines {
        table.row([
            moment(line.at),
            cell(&line.name),
            line.round.to_string(),
            line.lasted.map_or_else(|| last.to_owned(), span),
            cell(&line.reason),
        ]);
    }
    table.render()
}

pub(super) fn cost(input: &ReportInput) -> String {
    let mut table = MarkdownTable::new(["What", "Used", "Budget"]);
    let cost = &input.cost;
    // If the total is a lower bound, so is every part of it.
    let part = |count: u64| {
        let count = with_commas(count);
        if cost.tokens_at_least {
            format!("at least {count}")
        } else {
            count
        }
    };
    if let Some(tokens) = cost.tokens {
        for (what, count) in [
            ("Input", tokens.input),
            ("Cached input", tokens.cached_input),
            ("Cache writes", tokens.cache_write),
            ("Output", tokens.output),
        ] {
            table.row([what.to_owned(), part(count), String::new()]);
        }
    }
    let budget = |limit: Option<String>| limit.unwrap_or_else(|| "no limit".to_owned());
    table.row([
        "All tokens".to_owned(),
        cost.say_tokens(),
        budget(input.budget.tokens.map(with_commas)),
    ]);
    table.row([
        "Cost".to_owned(),
        cost.say_money(),
        budget(input.budget.usd.map(say_usd)),
    ]);
    table.row([
        "Time".to_owned(),
        input.took().map_or_else(|| "goes on".to_owned(), span),
        budget(input.budget.minutes.map(|minutes| format!("{minutes} min"))),
    ]);
    let mut page = table.render();
    if cost.tokens_at_least || cost.money_at_least {
        page.push_str("\nSome agents did not tell all that they used.\n");
    }
    if let Some(words) = &input.exhausted {
        let _ = writeln!(page, "\nThe budget ended the run: {}.", inside(words));
    }
    page
}

pub(super) fn verification(input: &ReportInput) -> String {
    let mut page = format!("{}\n", input.verified_words());
    if !input.checks.is_empty() {
        let _ = write!(page, "\n{}", checks(&input.checks, verdict_words));
    }
    if input.base_checks.is_empty() {
        page.push_str("\nNothing was run on the base.\n");
    } else {
        let _ = write!(
            page,
            "\nOn the base, before the work began:\n\n{}",
            checks(&input.base_checks, |run| run.checked.verdict.words())
        );
    }
    page.push_str(&remarked(input));
    let failed = input
        .last_checks()
        .into_iter()
        .filter(|run| !run.checked.last.trim().is_empty())
        .filter(|run| run.checked.verdict != CheckVerdict::Passed);
    for run in failed {
        let words = run.checked.verdict.words();
        let command = code(&run.checked.command);
        let last = last_lines(&plain(&run.checked.last), LAST_LINES);
        let _ = write!(
            page,
            "\nWhat {command} ({words}) said last:\n\n{}",
            block(&last)
        );
        if !run.checked.log.is_empty() {
            let _ = writeln!(page, "\nMore is in {}.", code(&run.checked.log));
        }
    }
    page
}

/// Returns remarks about checks that are easily overlooked in a table.
fn remarked(input: &ReportInput) -> String {
    let mut points = Vec::new();
    let commands = |runs: &mut dyn Iterator<Item = &CheckRun>| {
        let commands: Vec<String> = runs.map(|run| code(&run.checked.command)).collect();
        commands.join(", ")
    };
    let before = &mut input
        .base_checks
        .iter()
        .filter(|run| run.checked.verdict.is_failure());
    let last = input.last_checks();
    let flaky = &mut last
        .iter()
        .copied()
        .filter(|run| run.checked.verdict == CheckVerdict::Flaky);
    for (what, commands) in [
        ("Failed before the work began", commands(before)),
        ("Flaky, so not to be relied on", commands(flaky)),
    ] {
        if !commands.is_empty() {
            points.push(format!("{what}: {commands}."));
        }
    }
    for run in &last {
        for remark in &run.checked.remarks {
            let command = code(&run.checked.command);
            points.push(format!("{command}: {}.", inside(remark)));
        }
    }
    let mut page = String::new();
    for (number, point) in points.iter().enumerate() {
        let gap = if number == 0 { "\n" } else { "" };
        let _ = writeln!(page, "{gap}- {point}");
    }
    page
}

fn checks(runs: &[CheckRun], say: fn(&CheckRun) -> &'static str) -> String {
    let mut table = MarkdownTable::new([
        "Command", "From", "Round", "Verdict", "Code", "Took", "Commit",
    ]);
    for run in runs {
        let checked = &run.checked;
        table.row([
            code_cell(&checked.command),
            cell(&checked.source),
            run.round.to_string(),
            say(run).to_owned(),
            exit_words(checked.exit_code, checked.signal),
            span(Duration::try_from_secs_f64(checked.seconds).unwrap_or_default()),
            code_cell(&short(&run.commit)),
        ]);
    }
    table.render()
}

/// Returns the verdict of a check about the team's work.
pub(super) fn verdict_words(run: &CheckRun) -> &'static str {
    match (run.checked.verdict, run.charged) {
        (CheckVerdict::Passed, _) => "passed",
        (CheckVerdict::Flaky, _) => "flaky",
        (CheckVerdict::Stopped, _) => "stopped",
        (CheckVerdict::Failed, true) => "FAILED",
        (CheckVerdict::TimedOut, true) => "TIMED OUT",
        (CheckVerdict::Failed, false) => "failed before as well",
        (CheckVerdict::TimedOut, false) => "timed out, failed before as well",
    }
}

pub(super) fn exit_words(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => String::new(),
    }
}

pub(super) fn approval(input: &ReportInput) -> String {
    let mut page = String::new();
    for decision in &input.decisions {
        let _ = writeln!(
            page,
            "- {}: {} by {}, commit {}",
            moment(decision.at),
            decision.answer,
            cell(&decision.by),
            code(&short(&decision.commit)),
        );
        for line in quoted(&decision.text).lines() {
            let _ = writeln!(page, "  {line}");
        }
    }
    if page.is_empty()
        && let Some(commit) = &input.asked_about
    {
        let commit = code(&short(commit));
        let _ = writeln!(page, "No decision has been made about commit {commit}.");
    }
    page
}

pub(super) fn conflicts(input: &ReportInput) -> String {
    let mut page = String::new();
    for conflict in &input.conflicts {
        let mut files: Vec<String> = conflict
            .files
            .iter()
            .take(MOST_FILES)
            .map(|file| code(file))
            .collect();
        if conflict.files.len() > MOST_FILES {
            files.push(format!("{} more", conflict.files.len() - MOST_FILES));
        }
        let end = match (&conflict.fix_task, conflict.is_final) {
            (_, true) => "it was the last try".to_owned(),
            (Some(task), false) => format!("task {} was made to resolve it", cell(task)),
            (None, false) => "it was to be resolved".to_owned(),
        };
        let _ = writeln!(
            page,
            "- Task {} in {}: {end}.",
            cell(&conflict.task),
            if files.is_empty() {
                counted(0, "file")
            } else {
                files.join(", ")
            }
        );
    }
    page
}

pub(super) fn changes(input: &ReportInput) -> String {
    if input.diff_stat.trim().is_empty() {
        return String::new();
    }
    block(&input.diff_stat)
}

pub(super) fn findings(input: &ReportInput) -> String {
    let mut page = String::new();
    for (number, (name, text)) in input.findings.iter().enumerate() {
        let gap = if number == 0 { "" } else { "\n" };
        let _ = write!(page, "{gap}{}:\n\n{}", escaped(name), quoted(text));
    }
    page
}

pub(super) fn left(input: &ReportInput) -> String {
    if input.left.is_empty() {
        return "Nothing.\n".to_owned();
    }
    let mut table = MarkdownTable::new(["What", "Name", "Why", "Access it with"]);
    for left in &input.left {
        table.row([
            left.what.to_owned(),
            code_cell(&left.name),
            cell(&left.why),
            code_cell(&left.command),
        ]);
    }
    table.render()
}
