//! What the agent of a task learns about earlier attempts at it.
//!
//! An earlier attempt is one by another worker that failed or stopped, an earlier round of fixing the same check or review, or
//! the same attempt before its provider became unavailable. Its reason, its changed files and the remarks about its work are
//! facts of the next prompt, so that the next agent does not begin anew.

use teamster_isolate::OrTrace as _;
use teamster_journal::payload::ReviewFinding;
use teamster_journal::{RunState, SpanEnd, TeamState};
use teamster_prompts::facts::{EarlierAttempt, QuotedText};
use teamster_types::WorkerName;
use teamster_types::task::Task;
use teamster_types::text::clip;
use teamster_types::time::say_span;

use super::{BriefingInput, NAMED_FILES, SOMEBODY, TaskLookup, write_patch};
use crate::mail_text::sender;

/// The most remarks of one kind about an earlier attempt.
const MOST_REMARKS: usize = 10;
/// The most characters of one remark.
const SHOWN_REMARK: usize = 1_000;
/// The file with the changes of an earlier attempt.
const EARLIER_PATCH: &str = "earlier.patch";

/// Returns what is known about the last attempt at a task, or about the last round of fixing the same.
pub(super) fn of_task(
    state: &TeamState,
    tasks: &TaskLookup<'_>,
    input: &BriefingInput<'_>,
) -> Option<EarlierAttempt> {
    earlier_attempt(state, input).or_else(|| earlier_round(input.task, tasks))
}

/// Returns how the last attempt ended, as far as its work is concerned. Why a worker was declared dead does not help the
/// next one.
fn earlier_attempt(state: &TeamState, input: &BriefingInput<'_>) -> Option<EarlierAttempt> {
    let task = input.task;
    if input.is_continued {
        return Some(continued(input));
    }
    let tries = task.fence().saturating_sub(1);
    if tries == 0 {
        return None;
    }
    let mut spans: Vec<_> = (state.workers.iter())
        .flat_map(|(name, worker)| worker.spans.iter().map(move |span| (name, span)))
        .filter(|(_, span)| span.task_id == *task.id() && span.end != SpanEnd::Open)
        .collect();
    spans.sort_by_key(|(_, span)| span.seq);
    let last_failure = spans
        .iter()
        .rev()
        .find(|(_, span)| matches!(span.end, SpanEnd::Failed | SpanEnd::Requeued));
    let is_told = last_failure.is_none_or(|(_, span)| span.end == SpanEnd::Failed);
    let reason = input.failure.filter(|_| is_told);
    let reason = reason.map(|failure| failure.last_error.clone());
    let kept = input
        .workplace
        .last_attempt(task.id())
        .ok_or_trace("look for what an earlier attempt changed")
        .flatten();
    let patch = kept.as_ref().and_then(|kept| {
        let made = input.workplace.patch_of(&kept.commit, &[]);
        let patch = made.ok_or_trace("make the patch of an earlier attempt")?;
        write_patch(input.temp, EARLIER_PATCH, &patch)
    });
    let how = match spans.last() {
        Some((name, span)) => {
            let time = span.to.map_or_else(String::new, |to| {
                format!(" after {}", say_span(to.since(span.from)))
            });
            let name = name.parse::<WorkerName>();
            let name = name.map_or_else(|_| SOMEBODY.to_owned(), |name| name.to_string());
            format!(
                "{} {name} {}{time}.",
                tries_phrase(tries),
                end_phrase(span.end)
            )
        }
        None => tries_phrase(tries),
    };
    Some(EarlierAttempt {
        how,
        reason: reason.unwrap_or_default(),
        files: kept
            .iter()
            .flat_map(|kept| kept.files.iter().take(NAMED_FILES).cloned())
            .collect(),
        kept: kept.map(|kept| kept.name),
        patch,
        is_lost: !input.workplace.is_shared(),
        remarks: remarks(&state.run, task),
    })
}

/// Returns the findings of the last review and the failed checks that concern this task's merged work.
fn remarks(run: &RunState, task: &Task) -> Vec<QuotedText> {
    let result = task.result().unwrap_or_default();
    if result.commit.is_none() {
        return Vec::new();
    }
    let mut remarks = Vec::new();
    if let Some(review) = run.last_review() {
        let is_in_it = |finding: &&ReviewFinding| {
            let path = finding.path.as_ref();
            path.is_some_and(|path| result.files.contains(path))
        };
        let findings = review.findings.iter().filter(is_in_it);
        remarks.extend(findings.take(MOST_REMARKS).map(|finding| QuotedText {
            from: sender(&review.reviewer).to_owned(),
            text: format!(
                "{}, {}: {}",
                finding.severity.as_str(),
                finding.place(),
                clip(&finding.claim, SHOWN_REMARK)
            ),
        }));
    }
    let fails = run.checks.iter().filter(|checked| {
        let before = run.base.iter().find(|it| it.command == checked.command);
        checked.verdict.is_failure() && !before.is_some_and(|it| it.verdict.is_failure())
    });
    remarks.extend(fails.take(MOST_REMARKS).map(|checked| QuotedText {
        from: "A check of the merged work".to_owned(),
        text: format!("{}\n\n{}", checked.command, last_part(&checked.last)),
    }));
    remarks
}

/// Returns the end of a check's output, which is its most informative part.
fn last_part(text: &str) -> String {
    let length = text.chars().count();
    let from = length.saturating_sub(SHOWN_REMARK);
    text.chars().skip(from).collect()
}

/// Returns the note for an agent that continues after its provider was unavailable: its changes are still in its folder.
fn continued(input: &BriefingInput<'_>) -> EarlierAttempt {
    let changes = input.workplace.changes();
    let changes = changes.ok_or_trace("look for what was changed before the wait");
    let changes: Vec<String> = (changes.unwrap_or_default().iter())
        .map(|path| path.display().to_string())
        .collect();
    let files = match changes.as_slice() {
        [] => "Nothing was changed by then.".to_owned(),
        first if first.len() > NAMED_FILES => format!(
            "What was changed by then is in this folder: {} and {} more files.",
            first[..NAMED_FILES].join(", "),
            first.len() - NAMED_FILES
        ),
        all => format!(
            "What was changed by then is in this folder: {}.",
            all.join(", ")
        ),
    };
    EarlierAttempt {
        how: format!(
            "You were at work on this task until your model could not be reached any more. Go on from there. {files}"
        ),
        ..EarlierAttempt::default()
    }
}

/// Returns the earlier fix rounds with the same goal: the same failing check, or another round of review findings.
fn earlier_round(task: &Task, tasks: &TaskLookup<'_>) -> Option<EarlierAttempt> {
    let (round, revision) = match (task.fix(), task.review()) {
        (Some(fix), _) => (fix.round, fix.revision),
        (None, Some(review)) => (review.round, review.revision),
        (None, None) => return None,
    };
    if round <= 1 {
        return None;
    }
    let all = tasks.store.tasks(tasks.team);
    let all = all.ok_or_trace("read the tasks of an earlier round")?.tasks;
    let is_before = |other: &&Task| match (task.fix(), other.fix(), other.review()) {
        (Some(fix), Some(other), _) => {
            other.command == fix.command && other.revision == revision && other.round < round
        }
        (None, None, Some(other)) => other.revision == revision && other.round < round,
        _ => false,
    };
    let mut before: Vec<&Task> = all.iter().filter(is_before).collect();
    let over = before.len().saturating_sub(MOST_REMARKS);
    before.drain(..over);
    let last = before.last()?;
    let names: Vec<&str> = before.iter().map(|task| task.id().as_str()).collect();
    let what = if task.fix().is_some() {
        "was to fix this"
    } else {
        "was to settle what a review found"
    };
    let came = if last.is_failed() {
        "and failed"
    } else {
        "and what came of it is in this folder"
    };
    let how = match names.as_slice() {
        [one] => format!("Task {one} {what} before, {came}."),
        more => format!(
            "Tasks {} were made before for the same; the last one {what}, {came}.",
            more.join(", ")
        ),
    };
    let remarks = before.iter().filter_map(|task| {
        let summary = task.result()?.summary?;
        let from = task.owner().map_or(SOMEBODY, sender);
        Some(QuotedText {
            from: format!("{from}, who had task {},", task.id()),
            text: clip(&summary, SHOWN_REMARK),
        })
    });
    Some(EarlierAttempt {
        how,
        reason: last.error().unwrap_or_default().to_owned(),
        remarks: remarks.collect(),
        ..EarlierAttempt::default()
    })
}

/// Returns how often a task was tried, as a sentence.
fn tries_phrase(tries: u64) -> String {
    match tries {
        1 => "This task was tried once before.".to_owned(),
        more => format!("This task was tried {more} times before."),
    }
}

/// Returns how an attempt ended, as a phrase that continues a sentence about its worker.
fn end_phrase(end: SpanEnd) -> &'static str {
    match end {
        SpanEnd::Open | SpanEnd::Released => "did not finish it and gave it back",
        SpanEnd::Completed => "completed it, and it was opened again,",
        SpanEnd::Failed => "failed",
        SpanEnd::Requeued => "stopped in the middle of it",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use teamster_journal::payload::{CheckVerdict, Checked};
    use teamster_journal::{EventKind, NewEvent};
    use teamster_types::task::NewTask;
    use teamster_types::{TaskId, Time};

    use super::super::tests::checked;
    use super::*;

    #[test]
    fn attempt_that_ended_is_told_without_our_internals() {
        for end in [
            SpanEnd::Released,
            SpanEnd::Completed,
            SpanEnd::Failed,
            SpanEnd::Requeued,
        ] {
            let said = format!("{} ann {} after 12 min.", tries_phrase(2), end_phrase(end));
            assert!(
                !said.contains("pid") && !said.contains("heartbeat"),
                "{said}"
            );
        }
        assert_eq!(tries_phrase(1), "This task was tried once before.");
    }

    #[test]
    fn work_that_is_done_again_comes_with_what_review_and_checks_said_about_it() {
        let new = NewTask::default();
        let id: TaskId = "1".parse().unwrap();
        let made = Task::new(id.clone(), &new, Time::from_millis(0));
        let mut raw = made.as_object().clone();
        raw["metadata"]["teamster"]["result"] = json!({ "commit": "c0ffee", "files": ["a.rs"] });
        let task = Task::from_object(&id, raw).unwrap();
        let mut run = RunState::default();
        assert_eq!(remarks(&run, &task), []);
        let finding = |path: &str| json!({ "severity": "major", "path": path, "line": 3, "claim": "It panics." });
        let review = json!({ "commit": "d", "reviewer": "ann", "findings": [finding("a.rs"), finding("b.rs")] });
        let what = EventKind::parse("review.finished", review.as_object().unwrap());
        let event = NewEvent::new("lead", what);
        let at = Time::from_millis(0);
        run.apply(&event.placed(1, String::new(), at, "crew".to_owned()));
        run.base = vec![checked("before", CheckVerdict::Failed)];
        run.checks = vec![
            checked("before", CheckVerdict::Failed),
            Checked {
                last: "2 tests failed".to_owned(),
                ..checked("make test", CheckVerdict::Failed)
            },
        ];
        let said = remarks(&run, &task);
        let texts: Vec<(&str, &str)> = said
            .iter()
            .map(|said| (said.from.as_str(), said.text.as_str()))
            .collect();
        assert_eq!(
            texts,
            [
                ("ann", "major, a.rs:3: It panics."),
                ("A check of the merged work", "make test\n\n2 tests failed"),
            ]
        );
        assert_eq!(remarks(&run, &made), [], "nothing of it was ever merged");
    }
}
