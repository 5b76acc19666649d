//! The reasons for which the leader of a run is woken, and the texts that each of them is about.
//!
//! ```text
//! task    blocked, failed permanently, failed twice for the same cause, conflict not resolved ─┐
//! worker  asks a question, proposes a task ─────────────────────────────────────────────────┼─▶ Wake
//! person  writes a message, wants a revision at the gate ───────────────────────────────────┤
//! run     a phase ends, a review has findings ──────────────────────────────────────────────┘
//! ```
//!
//! Each reason has a key that is the same whenever it is found again ([`WakeReason`]), so that the journal shows which reasons
//! were handled. Everything that others wrote is quoted in the prompt and clipped here.

use teamster_journal::Question;
use teamster_journal::payload::{
    Addressee, QuestionId, QuestionKind, ReviewFinding, WakeKind, WakeReason,
};
use teamster_prompts::facts::QuotedText;
use teamster_types::TaskId;
use teamster_types::task::{MergeMark, Status, Task};
use teamster_types::text::{clip, one_line};

use super::Result;
use super::context::RunContext;

/// The number of characters of one quoted text in the prompt.
const LONGEST_QUOTE: usize = 4_000;
/// The number of characters of one finding in the prompt.
const SHOWN_FINDING: usize = 1_000;
/// The number of characters of a subject.
const LONGEST_SUBJECT: usize = 160;

/// A reason to wake the leader, with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wake {
    pub(super) reason: WakeReason,
    /// Why it is woken, as the rest of a sentence.
    pub(super) why: String,
    /// The quotations that it is about.
    pub(super) said: Vec<QuotedText>,
}

impl Wake {
    fn new(reason: WakeReason, why: String, from: String, text: &str) -> Self {
        let text = clip(text, LONGEST_QUOTE);
        let said = vec![QuotedText { from, text }];
        Self { reason, why, said }
    }
}

/// Returns whether the leader was already woken for a reason.
pub(super) fn is_handled(run: &RunContext<'_>, reason: &WakeReason) -> bool {
    run.state().leader.handled.contains(reason)
}

/// Returns the reasons from tasks: those that wait for an answer, those that failed permanently, and those that fail
/// repeatedly for the same cause.
pub(super) fn task_wakes(run: &RunContext<'_>, tasks: &[Task]) -> Result<Vec<Wake>> {
    let mut wakes = Vec::new();
    for task in tasks {
        let id = task.id();
        if let Some(block) = task.block() {
            wakes.push(Wake::new(
                block_reason(id, block.at.as_millis()),
                format!("{} cannot go on with task {id} without an answer", block.by),
                format!(
                    "Question {} of {} about task {id}",
                    block_question_id(id),
                    block.by
                ),
                &block.reason,
            ));
        }
        // The failure of a resolution is reported with the task that has the conflict.
        let is_of_many = matches!(
            task.merge_mark(),
            Some(MergeMark::Candidate | MergeMark::NotChosen)
        );
        if task.resolves().is_some() || is_of_many {
            continue;
        }
        if task.is_failed() {
            wakes.push(failed_task_wake(run, id)?);
        } else if task.status() != Status::Completed {
            wakes.extend(repeated_failure_wake(run, id));
        }
    }
    Ok(wakes)
}

/// Returns the reason for a task that failed permanently.
fn failed_task_wake(run: &RunContext<'_>, id: &TaskId) -> Result<Wake> {
    let failure = run.store().failure(run.team(), id)?;
    let at = failure
        .as_ref()
        .map_or(0, |failure| failure.last_failed_at.as_millis());
    let error = failure
        .map(|failure| failure.last_error)
        .unwrap_or_default();
    let mut conflicts = run.state().conflicts.iter();
    let (kind, why) = if conflicts.any(|(of, _)| of == id) {
        let why = format!("the conflict of task {id} could not be resolved");
        (WakeKind::Conflict, why)
    } else {
        (WakeKind::Failure, format!("task {id} failed permanently"))
    };
    let reason = WakeReason::new(kind, format!("{id}@{at}"));
    let from = format!("The last error of task {id}");
    Ok(Wake::new(reason, why, from, &error))
}

/// Returns the reason for a task that failed at least twice in a row for the same cause, and will be tried again.
fn repeated_failure_wake(run: &RunContext<'_>, id: &TaskId) -> Option<Wake> {
    let failures = run.state().failures.repeated(id);
    let failure = failures.filter(|failure| failure.times > 1)?;
    let reason = WakeReason::new(WakeKind::Failure, format!("{id}#{}", failure.second));
    let why = format!(
        "task {id} failed {} times in a row for the same reason, and will be tried again",
        failure.times
    );
    let from = format!("The last error of task {id}");
    Some(Wake::new(reason, why, from, &failure.reason))
}

/// Returns the reason for a blocked task.
fn block_reason(id: &TaskId, at: i64) -> WakeReason {
    WakeReason::new(WakeKind::Question, format!("{id}@{at}"))
}

/// Returns the id under which the leader answers the worker of a blocked task.
pub(super) fn block_question_id(id: &TaskId) -> String {
    format!("task-{id}")
}

/// Returns the question of the worker of a blocked task, by the id under which the leader answers it.
pub(super) fn blocked_question(run: &RunContext<'_>, word: &str) -> Option<QuestionId> {
    let is_its = |question: &&Question| {
        let task = question.task.as_ref();
        question.kind == QuestionKind::Blocked
            && task.is_some_and(|id| block_question_id(id) == word)
    };
    run.state().questions.open().find(is_its).map(|it| it.id)
}

/// Returns the reasons from the workers' questions to the leader.
pub(super) fn question_wakes(run: &RunContext<'_>) -> Vec<Wake> {
    questions_besides_blocks(run)
        .map(|question| {
            let (id, asker) = (question.id, &question.asked_by);
            let reason = WakeReason::new(WakeKind::Question, id.to_string());
            let about = match &question.task {
                Some(task) => format!(" about task {task}"),
                None => String::new(),
            };
            let (why, text) = match &question.proposal {
                Some(proposal) => (
                    format!(
                        "{asker} proposes a task: create it if it is needed, and answer either way"
                    ),
                    format!("{}\n\n{}", proposal.subject, proposal.description),
                ),
                None => (
                    format!("{asker} asks a question and waits for the answer"),
                    question.text.clone(),
                ),
            };
            let from = format!("Question {id} of {asker}{about}");
            Wake::new(reason, why, from, &text)
        })
        .collect()
}

/// Returns the open questions to the leader.
pub(super) fn questions_to_leader<'a>(
    run: &'a RunContext<'_>,
) -> impl Iterator<Item = &'a Question> {
    let open = run.state().questions.open();
    open.filter(|question| question.to == Addressee::Leader && question.kind != QuestionKind::Plan)
}

/// Returns the open questions to the leader except those of blocked tasks, which are reported with the tasks.
pub(super) fn questions_besides_blocks<'a>(
    run: &'a RunContext<'_>,
) -> impl Iterator<Item = &'a Question> {
    questions_to_leader(run).filter(|question| question.kind != QuestionKind::Blocked)
}

/// Returns the reasons from people's messages to the leader.
pub(super) fn message_wakes(run: &RunContext<'_>) -> Vec<Wake> {
    let messages = run.state().leader.messages.iter();
    messages
        .map(|(seq, text)| {
            let reason = WakeReason::new(WakeKind::Message, seq.to_string());
            let why = "the person wrote to you".to_owned();
            Wake::new(reason, why, "The person".to_owned(), text)
        })
        .collect()
}

/// Returns the reason for a revision that a person asks for at a gate.
pub(super) fn revision_wake(reason: WakeReason, words: &str) -> Wake {
    let why = "the person at the gate wants something changed".to_owned();
    Wake::new(reason, why, "The person".to_owned(), words)
}

/// Returns the reason for a phase whose work is done.
pub(super) fn phase_wake(reason: WakeReason, phase: &str, tasks: &[Task]) -> Wake {
    let why = format!(
        "the phase {phase} ends: everything in it is done or given up. Say in one `note` what was done, what is open, and what \
         whoever checks and reviews it must know: that becomes the finding of the phase. If something is missing, create the \
         tasks for it, and the phase goes on"
    );
    let from = "What the tasks came to".to_owned();
    Wake::new(reason, why, from, &task_results(tasks))
}

/// Returns the result of each task, in its worker's words.
fn task_results(tasks: &[Task]) -> String {
    let lines = tasks.iter().map(|task| {
        let result = task.result().unwrap_or_default();
        let summary = result.summary.unwrap_or_default();
        let state = if task.is_failed() { "failed" } else { "done" };
        format!(
            "{} ({state}): {}: {}",
            task.id(),
            clip(task.subject(), LONGEST_SUBJECT),
            one_line(&summary)
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the reason for findings of a review that the leader decides about.
pub(super) fn findings_wake(
    reason: WakeReason,
    reviewer: &str,
    findings: &[ReviewFinding],
) -> Wake {
    let said = (1..).zip(findings).map(|(place, finding)| QuotedText {
        from: finding_words(place, finding, reviewer),
        text: clip(&finding_text(finding), SHOWN_FINDING),
    });
    Wake {
        reason,
        why: format!(
            "{reviewer} found something in the merged work that should be fixed, and you decide what becomes of each finding"
        ),
        said: said.collect(),
    }
}

/// Returns the id under which the leader decides about a finding.
pub(super) fn finding_id(place: usize) -> String {
    format!("f{place}")
}

fn finding_words(place: usize, finding: &ReviewFinding, reviewer: &str) -> String {
    let (id, severity) = (finding_id(place), finding.severity.as_str());
    match finding.place().as_str() {
        "" => format!("Finding {id} of {reviewer}, {severity}"),
        at => format!(
            "Finding {id} of {reviewer}, {severity}, in {}",
            one_line(at)
        ),
    }
}

fn finding_text(finding: &ReviewFinding) -> String {
    let parts = [&finding.claim, &finding.evidence, &finding.suggestion];
    let parts: Vec<&str> = parts.into_iter().map(|part| part.trim()).collect();
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}
