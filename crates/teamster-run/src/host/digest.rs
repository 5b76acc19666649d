//! Summarizes the events since its last turn for the leader, one line for each event that matters to it.

use teamster_journal::{Event, EventActor, EventKind};
use teamster_types::TaskId;
use teamster_types::task::Task;
use teamster_types::text::{clip, one_line};

use super::Result;
use super::context::RunContext;

/// The number of characters of a digest, including line ends.
pub(super) const LONGEST_DIGEST: usize = 6_000;
/// The number of characters that are reserved for the note about omitted lines.
const NOTE_ROOM: usize = 80;
/// The number of characters of one line.
const LONGEST_LINE: usize = 300;
/// The number of events that are read at once.
const PAGE: usize = 1_000;

/// Returns the lines for all events from this position on, the oldest first. If they are too many, the latest are kept.
pub(super) fn digest(run: &RunContext<'_>, from: u64) -> Result<Vec<String>> {
    let tasks = run.tasks()?;
    let mut lines = Vec::new();
    let mut next = from;
    loop {
        let page = run.store().events(run.team(), next, PAGE)?;
        lines.extend(
            page.events
                .iter()
                .filter_map(|event| event_line(event, &tasks)),
        );
        match page.events.last() {
            Some(last) if page.events.len() == PAGE => next = last.seq + 1,
            _ => break,
        }
    }
    Ok(shortened(lines))
}

/// Returns the last lines that fit, after a note about how many were left out.
fn shortened(mut lines: Vec<String>) -> Vec<String> {
    let length = |line: &String| line.chars().count() + 1;
    if lines.iter().map(length).sum::<usize>() <= LONGEST_DIGEST {
        return lines;
    }
    let mut room = LONGEST_DIGEST - NOTE_ROOM;
    let mut kept = 0;
    for line in lines.iter().rev() {
        let length = length(line);
        if length > room {
            break;
        }
        room -= length;
        kept += 1;
    }
    let over = lines.len() - kept;
    lines.drain(..over);
    let left_out = format!("({over} lines about what happened before are left out)");
    lines.insert(0, left_out);
    lines
}

/// Returns the line for an event, or `None` when it does not matter to the leader.
fn event_line(event: &Event, tasks: &[Task]) -> Option<String> {
    let who = &event.actor;
    let id = event.task_id.as_ref();
    let task = id.map_or_else(String::new, |id| format!("task {id}"));
    let text = match event.payload() {
        EventKind::TaskCreated(change) => {
            let subject = change.subject.unwrap_or_default();
            format!("{who} added {task}: {subject}")
        }
        EventKind::TaskClaimed(_) => format!("{who} began {task}"),
        EventKind::TaskCompleted(_) => {
            format!("{who} completed {task}{}", task_result(id, tasks))
        }
        EventKind::TaskFailed(change) => {
            format!("{task} failed: {}", change.error.unwrap_or_default())
        }
        EventKind::TaskBlocked(change) => format!(
            "{who} could not go on with {task}: {}",
            change.reason.unwrap_or_default()
        ),
        EventKind::TaskUnblocked(change) => format!(
            "{who} answered about {task}: {}",
            change.reason.unwrap_or_default()
        ),
        EventKind::TaskRetried(_) => format!("{who} let {task} begin anew"),
        EventKind::TaskDeleted(_) => format!("{who} removed {task}"),
        EventKind::TaskUnchanged(_) => format!("{task} changed nothing"),
        EventKind::MergeMerged(_) => format!("{task} was merged"),
        EventKind::MergeConflict(conflict) => format!(
            "the work of {task} conflicts in {}",
            conflict.files.join(", ")
        ),
        EventKind::VerifyPassed(result) => format!("`{}` passed", result.command),
        EventKind::VerifyFailed(result) => format!("`{}` failed", result.command),
        EventKind::ReviewFinished(review) => format!(
            "{} {} and found {} things",
            review.reviewer,
            review.verdict.words(),
            review.findings.len()
        ),
        EventKind::ReviewFailed(failed) => {
            format!("{} made no review: {}", failed.reviewer, failed.reason)
        }
        EventKind::FindingAdded(found) => {
            let severity = found.severity.as_str();
            format!("{who} found, {severity}, {}: {}", found.path, found.claim)
        }
        EventKind::QuestionAsked(asked) => {
            let id = event.seq;
            format!("{who} asked, as q{id}: {}", asked.text)
        }
        EventKind::QuestionAnswered(answered) => {
            format!("{who} answered {}: {}", answered.question, answered.answer)
        }
        EventKind::QuestionExpired(expired) => {
            format!("nobody answered {}: {}", expired.question, expired.reason)
        }
        EventKind::ApprovalRevised(decided) => {
            format!(
                "the person wants it changed: {}",
                decided.text.unwrap_or_default()
            )
        }
        EventKind::MessageSent(sent) if sent.is_to_lead() && event.actor != EventActor::Leader => {
            format!("{who} wrote to you: {}", sent.content)
        }
        EventKind::WorkerDead(told) => {
            format!("{} died", told.worker.unwrap_or_default())
        }
        EventKind::WorkerQuarantined(_) => format!("{who} takes no more tasks"),
        EventKind::RunStage(entered) => {
            format!("the stage {} began: {}", entered.stage, entered.reason)
        }
        _ => return None,
    };
    let at = event.ts.to_string();
    let at = at.get(11..19).unwrap_or_default();
    Some(clip(&format!("{at} {}", one_line(&text)), LONGEST_LINE))
}

/// Returns the result of a completed task, in its worker's words.
fn task_result(id: Option<&TaskId>, tasks: &[Task]) -> String {
    let task = tasks.iter().find(|task| Some(task.id()) == id);
    let result = task.and_then(Task::result).unwrap_or_default();
    let mut words = String::new();
    if let Some(summary) = &result.summary {
        words = format!(": {summary}");
    }
    if !result.problems.is_empty() {
        words = format!("{words} (problems: {})", result.problems.join("; "));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_lines_of_a_long_digest_are_kept() {
        let lines: Vec<String> = (0..1_000)
            .map(|number| format!("line {number:04}"))
            .collect();
        let short = shortened(lines);
        assert_eq!(short.last().unwrap(), "line 0999");
        assert_eq!(
            short[0],
            "(408 lines about what happened before are left out)"
        );
        let length: usize = short.iter().map(|line| line.chars().count() + 1).sum();
        assert!(length <= LONGEST_DIGEST, "{length} characters");
        assert_eq!(shortened(vec!["one".to_owned()]), ["one"]);
        let fits: Vec<String> = (0..600).map(|_| "123456789".to_owned()).collect();
        assert_eq!(shortened(fits.clone()), fits);
    }
}
