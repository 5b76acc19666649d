//! The questions of agents, the leader's turns, the findings and the choice of a result, for the gate and for the
//! report.

use std::fmt::Write as _;

use teamster_journal::payload::{
    DeniedRequest, JudgeFailed, QuestionKind, Severity, Shown, WakeKind, WakeReason,
};
use teamster_journal::{
    FindingRecord, LeaderActionKind, LeaderActionRecord, Question, QuestionStatus, WakeOutcome,
    WakeRecord,
};

use super::ReportInput;
use super::markdown::{cell, code, code_cell, counted, inside, moment, quoted, short, wrapped};

/// The number of lines in a section of the gate; the report has all of them.
const MOST_LINES: usize = 20;

/// Returns lines for the gate, indented and cut to the width; the last one says how many are left out.
fn lines(all: &[String]) -> String {
    let mut text = String::new();
    for words in all.iter().take(MOST_LINES) {
        text.push_str(&wrapped("  ", words));
    }
    if all.len() > MOST_LINES {
        let _ = writeln!(text, "  … {} more in the report", all.len() - MOST_LINES);
    }
    text
}

/// Returns the planner's assumptions, for the gate.
pub(super) fn gate_assumptions(input: &ReportInput) -> String {
    lines(&input.assumptions)
}

/// Returns the risks that the planner sees, for the gate.
pub(super) fn gate_risks(input: &ReportInput) -> String {
    lines(&input.risks)
}

/// Returns the section of the report about the planning.
pub(super) fn planning(input: &ReportInput) -> String {
    let mut page = quoted(&input.analysis);
    for (heading, list) in [("Assumptions", &input.assumptions), ("Risks", &input.risks)] {
        if list.is_empty() {
            continue;
        }
        let gap = if page.is_empty() { "" } else { "\n" };
        let _ = writeln!(page, "{gap}{heading}:\n");
        for words in list {
            let _ = writeln!(page, "- {}", inside(words));
        }
    }
    page
}

/// Returns a question and its answer, in words.
fn question_words(question: &Question) -> String {
    let who = question.asked_by.as_str();
    let about = match &question.task {
        Some(task) => format!(" about task {task}"),
        None => String::new(),
    };
    let asked = match (&question.proposal, question.kind) {
        (Some(proposal), _) => format!("{who} proposed a task: {}", proposal.subject),
        (None, QuestionKind::Blocked) => {
            format!("{who} could not go on{about}: {}", question.text)
        }
        (None, _) => format!("{who} asked{about}: {}", question.text),
    };
    let fate = match &question.state {
        QuestionStatus::Open => "not answered yet".to_owned(),
        QuestionStatus::Answered { by, answer, .. } => {
            let by = match by.as_str() {
                "user" => "you",
                other => other,
            };
            format!("{by} answered: {answer}")
        }
        QuestionStatus::Expired { reason, .. } if question.kind == QuestionKind::Ask => {
            format!("no answer, so {who} decided by itself ({reason})")
        }
        QuestionStatus::Expired { reason, .. } => format!("no answer ({reason})"),
    };
    format!("{asked} → {fate}")
}

/// Returns the denied permission requests of agents, for the gate.
pub(super) fn gate_denied(shown: &Shown) -> String {
    lines(
        &shown
            .denied
            .iter()
            .map(DeniedRequest::words)
            .collect::<Vec<_>>(),
    )
}

/// Returns the section of the report with the denied permission requests of agents.
pub(super) fn denied(input: &ReportInput) -> String {
    let mut page = String::new();
    for denied in &input.denied {
        let _ = writeln!(page, "- {}", inside(&denied.words()));
    }
    page
}

/// Returns the questions without an answer, for the gate: their agents decided themselves, or still wait.
pub(super) fn gate_questions(input: &ReportInput) -> String {
    let unanswered = input.questions.iter().filter(|it| it.answer().is_none());
    lines(&unanswered.map(question_words).collect::<Vec<_>>())
}

/// Returns the section of the report with every question and its answer.
pub(super) fn questions(input: &ReportInput) -> String {
    let mut page = String::new();
    for question in &input.questions {
        let at = moment(question.asked_at);
        let words = inside(&question_words(question));
        let _ = writeln!(page, "- {at}, {}: {words}", question.id);
    }
    page
}

/// Returns why the leader was woken, in words.
fn reason_words(reason: &WakeReason) -> String {
    let about = reason.about.split('@').next().unwrap_or_default();
    match reason.kind {
        WakeKind::Question if about.starts_with('q') => format!("question {about}"),
        WakeKind::Question => format!("task {about} could not go on"),
        WakeKind::Failure => format!("task {about} failed"),
        WakeKind::Conflict => format!("the conflict of task {about} could not be resolved"),
        WakeKind::Findings => "findings of a review".to_owned(),
        WakeKind::Message => "a message of yours".to_owned(),
        WakeKind::Revision => "changes you asked for at the gate".to_owned(),
        WakeKind::Phase => "the end of a phase".to_owned(),
    }
}

fn reasons(wake: &WakeRecord) -> String {
    let mut words: Vec<String> = wake.reasons.iter().map(reason_words).collect();
    words.dedup();
    words.join(", ")
}

/// Returns one action of the leader, in words.
fn action_words(action: &LeaderActionRecord) -> String {
    let task = match &action.task {
        Some(task) => format!("task {task}"),
        None => "a task".to_owned(),
    };
    let text = &action.text;
    let with_text = |what: String| match text.as_str() {
        "" => what,
        text => format!("{what}: {text}"),
    };
    match action.kind {
        LeaderActionKind::Create => with_text(format!("made {task}")),
        LeaderActionKind::Update => with_text(format!("changed {task}")),
        LeaderActionKind::Cancel => with_text(format!("cancelled {task}")),
        LeaderActionKind::Answer => match action.question {
            Some(question) => with_text(format!("answered {question}")),
            None => with_text(format!("answered the worker of {task}")),
        },
        LeaderActionKind::AskPerson => match action.question {
            Some(question) => with_text(format!("left {question} to you")),
            None => with_text("left a question to you".to_owned()),
        },
        LeaderActionKind::Message => {
            let to = action.to.as_deref().unwrap_or("somebody");
            with_text(format!("wrote to {to}"))
        }
        LeaderActionKind::Finding => with_text("found".to_owned()),
    }
}

/// Returns the outcome of a turn in one line.
fn outcome_words(wake: &WakeRecord) -> String {
    match &wake.outcome {
        WakeOutcome::UnderWay => "it did not end".to_owned(),
        WakeOutcome::Acted { actions: 0, .. } => "it changed nothing".to_owned(),
        WakeOutcome::Acted { actions, .. } => counted(*actions, "action"),
        WakeOutcome::Failed { reason, .. } => format!("it decided nothing: {reason}"),
        WakeOutcome::Refused { reason, .. } if reason.is_empty() => {
            "it did not end, and was asked again".to_owned()
        }
        WakeOutcome::Refused { reason, .. } => {
            format!("what it decided was refused, and it was asked again: {reason}")
        }
    }
}

/// Returns the turns of the leader, for the gate: a line for each turn, and its notes.
pub(super) fn gate_leader(input: &ReportInput) -> String {
    let mut all = Vec::new();
    for wake in &input.wakes {
        all.push(format!("{}: {}", reasons(wake), outcome_words(wake)));
        if let WakeOutcome::Acted {
            notes, dismissed, ..
        } = &wake.outcome
        {
            all.extend(notes.iter().map(|note| format!("it noted: {note}")));
            let left = dismissed.iter();
            all.extend(
                left.map(|left| format!("it left finding {}: {}", left.finding, left.reason)),
            );
        }
    }
    lines(&all)
}

/// Returns the section of the report with every turn of the leader, its reasons and its actions.
pub(super) fn leader(input: &ReportInput) -> String {
    let mut page = String::new();
    for wake in &input.wakes {
        let _ = writeln!(
            page,
            "- Wake {} at {}, {}: {}.",
            wake.number,
            moment(wake.at),
            inside(&reasons(wake)),
            inside(&outcome_words(wake))
        );
        for action in &wake.actions {
            let _ = writeln!(page, "  - {}", inside(&action_words(action)));
        }
        if let WakeOutcome::Acted {
            cancelled,
            notes,
            dismissed,
            ..
        } = &wake.outcome
        {
            for left in dismissed {
                let reason = inside(&left.reason);
                let _ = writeln!(page, "  - left finding {}: {reason}", left.finding);
            }
            for task in cancelled {
                let (id, reason) = (&task.task, inside(&task.reason));
                let _ = writeln!(page, "  - cancelled task {id}: {reason}");
            }
            for note in notes {
                let _ = writeln!(page, "  - note: {}", inside(note));
            }
        }
    }
    page
}

/// Returns the findings of workers and the leader, the worst first.
fn by_severity(input: &ReportInput) -> Vec<&FindingRecord> {
    let mut found: Vec<&FindingRecord> = input.found.iter().collect();
    let rank = |severity: Severity| Severity::ALL.iter().position(|it| *it == severity);
    found.sort_by_key(|record| rank(record.finding.severity));
    found
}

/// Returns the findings of workers and the leader, for the gate.
pub(super) fn gate_found(input: &ReportInput) -> String {
    let all = by_severity(input).into_iter().map(|record| {
        let found = &record.finding;
        let place = match found.place().as_str() {
            "" => String::new(),
            place => format!("{place}: "),
        };
        let by = record.by.as_str();
        format!("{}: {place}{} ({by})", found.severity.as_str(), found.claim)
    });
    lines(&all.collect::<Vec<_>>())
}

/// Returns the section of the report with the findings of workers and the leader.
pub(super) fn found(input: &ReportInput) -> String {
    let mut page = String::new();
    for record in by_severity(input) {
        let found = &record.finding;
        let place = match found.place().as_str() {
            "" => String::new(),
            place => format!(" in {}", code_cell(place)),
        };
        let _ = writeln!(
            page,
            "- {}{place}: {} ({})",
            found.severity.as_str(),
            inside(&found.claim),
            cell(record.by.as_str())
        );
        for (heading, text) in [("shown by", &found.evidence), ("to do", &found.suggestion)] {
            if !text.trim().is_empty() {
                let _ = writeln!(page, "  - {heading}: {}", inside(text));
            }
        }
    }
    page
}

fn judge_words(failed: &JudgeFailed) -> String {
    format!(
        "{} was asked to choose, and {}",
        failed.judge, failed.reason
    )
}

/// Returns which of several results was chosen and why, and where the others are kept, for the gate.
pub(super) fn gate_choice(input: &ReportInput) -> String {
    let Some(choice) = &input.choice else {
        return String::new();
    };
    let task = choice.task.as_ref().map(ToString::to_string);
    let task = task.unwrap_or_default();
    let by = match &choice.chosen.by {
        Some(by) => format!(" by {by}"),
        None => String::new(),
    };
    let mut all = vec![format!(
        "the result of task {task} was taken{by}: {}",
        choice.chosen.reason
    )];
    all.extend(input.judge_failed.as_ref().map(judge_words));
    for other in &choice.chosen.others {
        let kept = match &other.kept_as {
            Some(reference) => format!(" (kept as {reference})"),
            None => String::new(),
        };
        all.push(format!(
            "not that of task {}: {}{kept}",
            other.task, other.why
        ));
    }
    lines(&all)
}

/// Returns the section of the report about several results of the same work.
pub(super) fn choice(input: &ReportInput) -> String {
    let Some(choice) = &input.choice else {
        return String::new();
    };
    let task = choice.task.as_ref().map(ToString::to_string);
    let by = match &choice.chosen.by {
        Some(by) => format!(" by {}", cell(by)),
        None => String::new(),
    };
    let mut page = format!(
        "The result of task {}, commit {}, was taken{by}: {}.\n",
        cell(&task.unwrap_or_default()),
        code(&short(&choice.chosen.commit)),
        inside(choice.chosen.reason.trim_end_matches('.'))
    );
    if let Some(failed) = &input.judge_failed {
        let _ = writeln!(page, "\n{}.", inside(&judge_words(failed)));
    }
    if !choice.chosen.others.is_empty() {
        page.push('\n');
    }
    for other in &choice.chosen.others {
        let kept = match &other.kept_as {
            Some(reference) => format!(" It is kept as {}.", code(reference)),
            None => String::new(),
        };
        let why = inside(other.why.trim_end_matches('.'));
        let _ = writeln!(page, "- Not that of task {}: {why}.{kept}", other.task);
    }
    page
}
