//! Applies the decisions of the leader: one transaction with the event that records them.
//!
//! A host that is killed before the transaction leaves everything as it was, and the next one asks again. After the
//! transaction nothing is left to do. New tasks get the notes that the host adds to each of its tasks: that their work has to
//! be merged, and which findings of a review they fix.

use teamster_journal::payload::{
    Addressee, CancelledTask, DismissedFinding, FindingAdded, LeaderActed, QuestionAnswered,
    QuestionForwarded, QuestionId, ReviewFinding,
};
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_store::StoreError;
use teamster_types::phrase::{Phrase, Wording};
use teamster_types::task::TaskReview;
use teamster_types::text::clip;

use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::planner::with_merge_note;
use super::reviewer::describe_findings;
use super::wake_reasons::blocked_question;
use super::wake_turn::Triage;
use crate::leader::actions::{LeaderActions, LeaderReply};

/// The longest description of a task that fixes findings, in characters.
const LONGEST_DESCRIPTION: usize = 20_000;

/// Applies all decisions of the leader in one transaction with the event that records them.
pub(super) fn apply(
    run: &RunContext<'_>,
    guard: &IntegrationGuard,
    wake: u32,
    triage: Option<&Triage>,
    decided: LeaderActions,
) -> std::result::Result<(), StoreError> {
    let mut changes = decided.changes;
    changes.create = with_merge_note(guard, changes.create);
    let mut dismissed = Vec::new();
    if let Some(triage) = triage {
        for (place, places) in decided.settles {
            if let Some(planned) = changes.create.get_mut(place) {
                let (description, note) =
                    fix_task_text(run, triage, &planned.task.description, places);
                planned.task.description = description;
                planned.task.notes.review = Some(note);
            }
        }
        dismissed.extend(decided.dismissed.into_iter().map(|(place, reason)| {
            let commit = triage.commit.clone();
            DismissedFinding {
                commit,
                finding: place + 1,
                reason,
            }
        }));
    }
    let mut record = |kind: EventKind| {
        let event = NewEvent::new(EventActor::Leader, kind);
        changes.record.push(event);
    };
    for finding in decided.findings {
        record(EventKind::FindingAdded(finding_event(finding)));
    }
    let mut notes = decided.notes;
    for (question, reply) in decided.replies {
        match (question.parse::<QuestionId>(), reply) {
            (Ok(question), LeaderReply::Answer(answer)) => {
                record(EventKind::QuestionAnswered(QuestionAnswered {
                    question,
                    answer,
                }));
            }
            (Ok(question), LeaderReply::AskPerson(why)) => {
                record(forwarding_event(question, Phrase::verbatim(&why)));
            }
            (Err(_), LeaderReply::AskPerson(why)) => {
                if let Some(blocked) = blocked_question(run, &question) {
                    record(forwarding_event(blocked, Phrase::verbatim(&why)));
                }
                notes.push(format!("{question} goes to the person: {why}"));
            }
            // The answer to the worker of a blocked task is one of the changes.
            (Err(_), LeaderReply::Answer(_)) => {}
        }
    }
    let cancelled = decided.cancelled.into_iter();
    record(EventKind::LeaderActed(LeaderActed {
        wake,
        actions: decided.count,
        cancelled: cancelled
            .map(|(task, reason)| CancelledTask { task, reason })
            .collect(),
        notes,
        dismissed,
    }));
    let actor = EventActor::Leader;
    run.store().apply(run.team(), &actor, &changes)?;
    Ok(())
}

/// Returns the description of a task that fixes findings, and the note that links it to them.
fn fix_task_text(
    run: &RunContext<'_>,
    triage: &Triage,
    description: &str,
    places: Vec<usize>,
) -> (String, TaskReview) {
    let findings: Vec<&ReviewFinding> = places
        .iter()
        .filter_map(|place| triage.findings.get(*place))
        .collect();
    let told = describe_findings(&findings);
    let description = format!("{}\n\n{told}", description.trim());
    let findings: Vec<usize> = places.into_iter().map(|place| place + 1).collect();
    let note = TaskReview {
        round: run.state().round + 1,
        revision: run.state().revisions,
        commit: triage.commit.clone(),
        number: findings.first().copied().unwrap_or_default(),
        findings,
    };
    (clip(description.trim(), LONGEST_DESCRIPTION), note)
}

/// Returns the event of a finding that the leader reports.
fn finding_event(finding: ReviewFinding) -> FindingAdded {
    FindingAdded {
        severity: finding.severity,
        path: finding.path.unwrap_or_default(),
        line: finding.line.and_then(|line| u32::try_from(line).ok()),
        claim: finding.claim,
        evidence: finding.evidence,
        suggestion: finding.suggestion,
        phase: None,
    }
}

/// Returns the event that forwards a question to a person.
pub(super) fn forwarding_event(question: QuestionId, why: impl Into<Wording>) -> EventKind {
    let (reason, reason_codes) = why.into().into_parts();
    EventKind::QuestionForwarded(QuestionForwarded {
        question,
        to: Addressee::Person,
        reason,
        reason_codes,
    })
}
