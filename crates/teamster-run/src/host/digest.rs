//! Tells the leader what happened, one line for each event that matters to it.

use teamster_journal::{Event, EventActor, EventKind};
use teamster_types::text::{clip, one_line};

use super::Result;
use super::context::RunContext;

/// The number of characters of a digest.
const MOST: usize = 6_000;
/// The number of characters of one line.
const LINE: usize = 300;
/// Events that are read at once.
const PAGE: usize = 1_000;

/// Returns what happened from an event on, the oldest first. Where that is too much, the latest counts more.
pub(super) fn digest(run: &RunContext<'_>, from: u64) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut next = from;
    loop {
        let page = run.store().events(run.team(), next, PAGE)?;
        lines.extend(page.events.iter().filter_map(line));
        match page.events.last() {
            Some(last) if page.events.len() == PAGE => next = last.seq + 1,
            _ => break,
        }
    }
    Ok(shortened(lines))
}

/// Returns the last lines that fit, and how many were left out.
fn shortened(mut lines: Vec<String>) -> Vec<String> {
    let mut room = MOST;
    let mut kept = 0;
    for line in lines.iter().rev() {
        let length = line.chars().count() + 1;
        if length > room {
            break;
        }
        room -= length;
        kept += 1;
    }
    let over = lines.len() - kept;
    lines.drain(..over);
    if over > 0 {
        lines.insert(
            0,
            format!("({over} lines about what happened before are left out)"),
        );
    }
    lines
}

/// Returns what an event tells a leader, or `None` when that is nothing.
fn line(event: &Event) -> Option<String> {
    let who = &event.actor;
    let task = event.task_id.as_ref();
    let task = task.map_or_else(String::new, |id| format!("task {id}"));
    let text = match event.payload() {
        EventKind::TaskCreated(change) => {
            let subject = change.subject.unwrap_or_default();
            format!("{who} added {task}: {subject}")
        }
        EventKind::TaskClaimed(_) => format!("{who} began {task}"),
        EventKind::TaskCompleted(_) => format!("{who} completed {task}"),
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
    Some(clip(&format!("{at} {}", one_line(&text)), LINE))
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
            "(400 lines about what happened before are left out)"
        );
        assert_eq!(short.len(), 601);
        assert_eq!(shortened(vec!["one".to_owned()]), ["one"]);
    }
}
