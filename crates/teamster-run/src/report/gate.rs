//! The plain text that a person sees before approving.

use std::fmt::Write as _;
use std::time::Duration;

use teamster_journal::payload::Shown;
use teamster_types::shell;
use teamster_types::text::fit;
use unicode_width::UnicodeWidthStr;

use super::markdown::{COLUMNS, last_lines, line, plain, short, span, wrapped};
use super::page::{plan_source, tasks_words, uncommitted_words};
use super::sections::{exit_words, state_words, verdict_words};
use super::{CheckRun, ReportInput, collaboration, review, worker_words};

/// The width of lines that may be cut, in columns.
const WIDTH: usize = COLUMNS;
/// The number of lines that are shown of a failed check, of a finding and of the diff stat.
const CHECK_LINES: usize = 10;
const FINDING_LINES: usize = 40;
const STAT_LINES: usize = 60;

/// Returns everything that the decision is about, and the commands to make it.
pub fn gate_text(input: &ReportInput) -> String {
    let shown = input.shown.clone().unwrap_or_else(|| input.gate_content());
    let shown = &shown;
    let mut text = format!("Team {} asks for approval", line(&input.team));
    if let Some(commit) = &input.asked_about {
        let _ = write!(text, " of commit {}", short(commit));
    }
    text.push_str(".\n");
    for (heading, lines) in [
        ("Task", indented(&input.task, usize::MAX)),
        ("It has not landed", refused(input)),
        ("Failed permanently", failed(shown)),
        ("Denied permissions", collaboration::gate_denied(shown)),
        (
            "Left open, in the workers' words",
            worker_words::open_lines(shown),
        ),
        (
            "Questions without an answer",
            collaboration::gate_questions(input),
        ),
        ("Undelivered messages", undelivered(input)),
        ("Assumptions", collaboration::gate_assumptions(input)),
        ("Uncommitted files in the way", in_the_way(shown)),
        ("Flow", flow(input)),
        ("Plan", plan(input)),
        ("Risks named in the plan", collaboration::gate_risks(input)),
        ("Worker reports", worker_words::gate_lines(shown)),
        ("Chosen result", collaboration::gate_choice(input)),
        ("The leader", collaboration::gate_leader(input)),
        ("Found by the team", collaboration::gate_found(input)),
        ("Findings", findings(shown)),
        ("Changes", changes(input)),
        ("Verification", verification(input, shown)),
        ("Review", review::gate_lines(input)),
        ("Conflicts", conflicts(input)),
        ("Changed outside reserved paths", outside(shown)),
        ("Branches that changed meanwhile", references(shown)),
        ("Cost", cost(input)),
        ("Decide", decide(input)),
    ] {
        if !lines.is_empty() {
            let _ = write!(text, "\n{heading}\n{lines}");
        }
    }
    text
}

/// Returns the messages to workers that were never delivered.
fn undelivered(input: &ReportInput) -> String {
    let lines = input
        .untaken
        .iter()
        .map(|message| wrapped("  ", message.as_str()));
    lines.collect()
}

/// Returns the first lines of an untrusted text, indented, at most `most` of them.
fn indented(text: &str, most: usize) -> String {
    let plain = plain(text);
    let lines: Vec<&str> = plain.trim().lines().collect();
    let mut shown = String::new();
    for line in lines.iter().take(most) {
        let _ = writeln!(shown, "{}", format!("  {line}").trim_end());
    }
    if lines.len() > most {
        let _ = writeln!(shown, "  … {} more lines", lines.len() - most);
    }
    shown
}

/// Returns rows with aligned columns; none is longer than `most` columns.
fn rows(rows: &[Vec<String>], most: usize) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .map(|row| row[column].width())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut shown = String::from("  ");
        for (cell, width) in row.iter().zip(&widths) {
            shown.push_str(cell);
            shown.push_str(&" ".repeat(width - cell.width() + 2));
        }
        let _ = writeln!(text, "{}", fit(shown.trim_end(), most));
    }
    text
}

/// Returns where the run is in its flow, if the flow has phases of its own.
fn flow(input: &ReportInput) -> String {
    let Some(phase) = input.phases.last() else {
        return String::new();
    };
    let passed: Vec<String> = input.phases.iter().map(|phase| line(&phase.name)).collect();
    format!(
        "  {}: {}\n  {}, round {}\n",
        line(&input.flow),
        fit(&passed.join(" → "), WIDTH),
        line(&phase.name),
        phase.round
    )
}

fn plan(input: &ReportInput) -> String {
    let mut text = format!("  {}\n", tasks_words(input));
    if let Some(source) = &input.plan_source {
        let _ = write!(text, "  It is {}", line(&plan_source(source)));
        if let Some(path) = &input.plan_path {
            let _ = write!(text, ", {}", line(path));
        }
        text.push_str(".\n");
    }
    let tasks: Vec<Vec<String>> = input
        .tasks
        .iter()
        .map(|task| {
            vec![
                line(&task.id),
                line(&state_words(&task.state)),
                task.worker.as_deref().map(line).unwrap_or_default(),
                line(&task.subject),
            ]
        })
        .collect();
    text.push_str(&rows(&tasks, WIDTH));
    text
}

/// Returns every finding once. A phase that is entered again writes its whole finding again, longer than before: a
/// finding that a later one of the same phase contains is named, but not repeated.
fn findings(shown: &Shown) -> String {
    let texts: Vec<String> = shown
        .findings
        .iter()
        .map(|finding| indented(&finding.text, FINDING_LINES))
        .collect();
    let mut text = String::new();
    for (at, finding) in shown.findings.iter().enumerate() {
        let name = line(&finding.name);
        let later = (at + 1..texts.len()).rev().find(|&later| {
            is_same_phase(&finding.name, &shown.findings[later].name)
                && texts[at]
                    .lines()
                    .all(|line| texts[later].lines().any(|other| other == line))
        });
        if let Some(later) = later {
            let later = line(&shown.findings[later].name);
            let _ = writeln!(text, "  {name}: all of it is in {later}");
            continue;
        }
        let _ = writeln!(text, "  {name}");
        for line in texts[at].lines() {
            let _ = writeln!(text, "{}", format!("  {line}").trim_end());
        }
    }
    text
}

/// Returns whether two findings are named `PHASE-NUMBER.md` with the same phase.
fn is_same_phase(one: &str, other: &str) -> bool {
    let phase = |name: &str| name.rsplit_once('-').map(|(phase, _)| phase.to_owned());
    phase(one).is_some_and(|one| phase(other) == Some(one))
}

fn changes(input: &ReportInput) -> String {
    let mut text = String::new();
    if let Some(base) = &input.base {
        let branch = base.branch.as_deref().map(line);
        let branch = branch.map_or_else(String::new, |branch| format!(" of {branch}"));
        let _ = writeln!(text, "  since commit {}{branch}:", short(&base.commit));
    }
    if input.is_diff_unknown {
        text.push_str("  It is not known what changed: the team worked in a folder that is not in a git repository with a commit.\n");
    } else if input.diff_stat.trim().is_empty() {
        text.push_str("  Nothing has changed.\n");
    } else {
        let plain = plain(&input.diff_stat);
        let lines: Vec<&str> = plain.trim_matches('\n').lines().collect();
        // The last line is the total, and is shown however long the list is.
        let cut = lines.len().saturating_sub(STAT_LINES);
        let shown = lines.len() - cut;
        for line in &lines[..shown.saturating_sub(1)] {
            let _ = writeln!(text, "  {}", line.trim_end());
        }
        if cut > 0 {
            let _ = writeln!(text, "  … {cut} more files");
        }
        if let Some(sum) = lines.last() {
            let _ = writeln!(text, "  {}", sum.trim_end());
        }
    }
    if input.uncommitted > 0 {
        let _ = writeln!(text, "  {}", uncommitted_words(input.uncommitted));
    }
    text
}

fn verification(input: &ReportInput, shown: &Shown) -> String {
    let mut text = format!("  {}\n", line(&shown.verification));
    let checks = input.last_checks();
    let table: Vec<Vec<String>> = checks
        .iter()
        .map(|run| {
            let checked = &run.checked;
            let took = Duration::try_from_secs_f64(checked.seconds).unwrap_or_default();
            vec![
                verdict_words(run).to_owned(),
                exit_words(checked.exit_code, checked.signal),
                span(took),
                line(&checked.command),
            ]
        })
        .collect();
    text.push_str(&rows(&table, WIDTH));
    let is_listed = |command: &str| checks.iter().any(|run| run.checked.command == command);
    for check in &shown.unverified {
        if !is_listed(&check.command) {
            let said = format!("  {}: {}", line(&check.why), line(&check.command));
            let _ = writeln!(text, "{}", fit(&said, WIDTH));
        }
    }
    for run in checks.iter().filter(|run| run.charged) {
        text.push_str(&last_words(run));
    }
    for run in &input.base_checks {
        if run.checked.verdict.is_failure() {
            let command = line(&run.checked.command);
            let _ = writeln!(text, "  It failed before the work began: {command}");
        }
    }
    text
}

fn last_words(run: &CheckRun) -> String {
    let mut text = String::new();
    let last = last_lines(plain(&run.checked.last).trim_end(), CHECK_LINES);
    if !last.trim().is_empty() {
        let _ = writeln!(text, "  {} said last:", line(&run.checked.command));
        for line in last.lines() {
            let _ = writeln!(text, "    {}", fit(line, WIDTH));
        }
    }
    if !run.checked.log.is_empty() {
        let _ = writeln!(text, "    more in {}", line(&run.checked.log));
    }
    text
}

fn conflicts(input: &ReportInput) -> String {
    let mut text = String::new();
    for conflict in &input.conflicts {
        let files: Vec<String> = conflict.files.iter().map(|file| line(file)).collect();
        let end = if conflict.is_final {
            " (it was the last try)"
        } else {
            ""
        };
        let shown = format!("  task {}{end}: {}", line(&conflict.task), files.join(", "));
        let _ = writeln!(text, "{}", fit(&shown, WIDTH));
    }
    text
}

fn failed(shown: &Shown) -> String {
    let mut text = String::new();
    for task in &shown.failed {
        let said = format!("{}: {}", fit(&line(&task.subject), 50), line(&task.why));
        text.push_str(&wrapped(&format!("  {} ", task.task_id), &said));
    }
    text
}

fn outside(shown: &Shown) -> String {
    let mut text = String::new();
    for task in &shown.outside {
        let files: Vec<String> = task.files.iter().map(|file| line(file)).collect();
        let said = format!("  task {}: {}", task.task_id, files.join(", "));
        let _ = writeln!(text, "{}", fit(&said, WIDTH));
    }
    text
}

fn in_the_way(shown: &Shown) -> String {
    if shown.in_the_way.is_empty() {
        return String::new();
    }
    let mut text = wrapped(
        "  ",
        "These uncommitted files of yours must be committed or moved away before the work can land:",
    );
    for file in shown.in_the_way.iter().take(STAT_LINES) {
        let _ = writeln!(text, "  {}", fit(&line(file), WIDTH));
    }
    if shown.in_the_way.len() > STAT_LINES {
        let _ = writeln!(text, "  … {} more", shown.in_the_way.len() - STAT_LINES);
    }
    text
}

fn references(shown: &Shown) -> String {
    if shown.references.is_empty() {
        return String::new();
    }
    let mut text = String::from("  teamster did not do this: it was you, or an agent.\n");
    for sentence in &shown.references {
        text.push_str(&wrapped("  ", sentence));
    }
    text
}

fn refused(input: &ReportInput) -> String {
    indented(input.refused.as_deref().unwrap_or_default(), CHECK_LINES)
}

fn cost(input: &ReportInput) -> String {
    format!("  {}\n", input.cost.words())
}

fn decide(input: &ReportInput) -> String {
    let commit = input.asked_about.as_deref().map(short);
    let commit = commit.map_or_else(String::new, |commit| {
        format!(" --commit {}", shell::word(&commit))
    });
    // The commands are meant to be copied, so they are never cut.
    rows(
        &[
            ("approve and land:", "approve", ""),
            ("reject, keep the branch:", "reject", " [--rollback]"),
            ("request changes:", "revise", " \"…\""),
        ]
        .map(|(why, command, more)| {
            vec![why.to_owned(), format!("teamster {command}{commit}{more}")]
        }),
        usize::MAX,
    )
}
