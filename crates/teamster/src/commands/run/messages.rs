//! What an event of a run says to a person, in one line.

use std::collections::HashMap;

use teamster_journal::payload::{Addressee, Limit, QuestionId, ReviewFinished, Severity};
use teamster_journal::{Event, EventKind};
use teamster_types::TaskId;

use crate::shown::viewed_line;

/// Knows what tasks are called.
#[derive(Debug, Default)]
pub struct EventMessages {
    subjects: HashMap<TaskId, String>,
}

impl EventMessages {
    /// The line, unless the event is of no interest here.
    pub fn of(&mut self, event: &Event) -> Option<String> {
        let what = event.payload();
        if let (Some(id), Some(subject)) = (&event.task_id, subject_of(&what)) {
            self.subjects.insert(id.clone(), subject.clone());
        }
        let line = self.line(event, &what)?;
        Some(viewed_line(&line))
    }

    fn line(&self, event: &Event, what: &EventKind) -> Option<String> {
        let actor = &event.actor;
        Some(match what {
            EventKind::RunStarted(_) => format!("the run of team {} begins", event.team),
            EventKind::RunResumed(_) => format!("the run of team {} goes on", event.team),
            EventKind::RunStage(entered) => match entered.reason.as_str() {
                "" => format!("stage: {}", entered.to),
                why => format!("stage: {} ({why})", entered.to),
            },
            EventKind::RunPlan(plan) => format!(
                "plan: {} from {}",
                count(plan.tasks.len(), "task"),
                match plan.source.as_str() {
                    "sentence" => "the sentence",
                    "file" => "the plan file",
                    other => other,
                }
            ),
            EventKind::VerifyStarted(started) => {
                format!("checks {}: {}", place(&started.on), started.command)
            }
            EventKind::VerifyPassed(result) => {
                format!("passed {}: {}", place(&result.on), result.command)
            }
            EventKind::VerifyFailed(result) => {
                format!("FAILED {}: {}", place(&result.on), result.command)
            }
            EventKind::VerifyFlaky(result) => {
                format!("flaky {}: {}", place(&result.on), result.command)
            }
            EventKind::ReviewStarted(started) => {
                let since = match &started.since {
                    Some(since) => format!(", what changed since {}", short(since)),
                    None => String::new(),
                };
                format!(
                    "{} reviews {}{since}",
                    started.reviewer,
                    short(&started.commit)
                )
            }
            EventKind::ReviewFinished(finished) => format!(
                "{} {}: {}",
                finished.reviewer,
                finished.verdict.words(),
                found(finished)
            ),
            EventKind::ReviewFailed(failed) => {
                format!(
                    "NOT reviewed: {} was asked, and {}",
                    failed.reviewer, failed.reason
                )
            }
            EventKind::ApprovalRequested(opened) => {
                format!("the gate is open for {}", short(&opened.commit))
            }
            EventKind::ApprovalGiven(decided) => format!("approved: {}", short(&decided.commit)),
            EventKind::ApprovalRefused(decided) => {
                format!("rejected: {}", decided.text.as_deref().unwrap_or_default())
            }
            EventKind::ApprovalRevised(decided) => format!(
                "to be revised: {}",
                decided.text.as_deref().unwrap_or_default()
            ),
            EventKind::BudgetExhausted(exhausted) => format!(
                "the budget of {} is used up",
                exhausted.what.map(Limit::as_str).unwrap_or_default()
            ),
            EventKind::WorkerQuarantined(told) => {
                format!("{actor} takes no more tasks: {}", told.reason)
            }
            EventKind::WorkerPaused(paused) => format!("{actor} waits: {}", paused.reason),
            EventKind::WorkerDead(told) => {
                let worker = told.worker.as_deref().unwrap_or_default();
                format!("{worker} is dead: {}", list(&told.evidence))
            }
            EventKind::WorkerHung(told) => {
                let worker = told.worker.as_deref().unwrap_or_default();
                format!("{worker} hangs: {}", list(&told.evidence))
            }
            EventKind::WorkerRestarted(told) => format!("{} was started anew", told.worker),
            EventKind::RunFinished(finished) => format!(
                "ended: {} ({})",
                finished.outcome.replace('_', " "),
                finished.reason
            ),
            _ => return self.about_task(event, what),
        })
    }

    /// The line for what happens to a task and its work, or for what an agent says.
    fn about_task(&self, event: &Event, what: &EventKind) -> Option<String> {
        let task = || self.task(event);
        let actor = &event.actor;
        Some(match what {
            EventKind::TaskClaimed(_) => format!("{actor} begins task {}", task()),
            EventKind::TaskCompleted(_) => format!("{actor} has done task {}", task()),
            EventKind::TaskFailed(change) => {
                let error = change.error.as_deref().unwrap_or_default();
                format!("task {} failed: {error}", task())
            }
            EventKind::TaskBlocked(change) => {
                let reason = change.reason.as_deref().unwrap_or_default();
                format!("{actor} cannot go on with task {}: {reason}", task())
            }
            EventKind::QuestionAsked(asked) => {
                let id = QuestionId::at(event.seq);
                let asks = match &asked.proposal {
                    Some(proposal) => format!("{actor} proposes a task: {}", proposal.subject),
                    None => format!("{actor} asks: {}", asked.text),
                };
                let to_answer = match asked.to {
                    Addressee::Person => format!("; answer with `teamster answer {id} \"…\"`"),
                    Addressee::Leader => String::new(),
                };
                format!("{id}: {asks}{to_answer}")
            }
            EventKind::QuestionForwarded(forwarded) => {
                let id = forwarded.question;
                let why = &forwarded.reason;
                format!("{id} is for you ({why}): answer with `teamster answer {id} \"…\"`")
            }
            EventKind::QuestionAnswered(answered) => {
                format!("{actor} answers {}: {}", answered.question, answered.answer)
            }
            EventKind::QuestionExpired(expired) => {
                format!("{} got no answer: {}", expired.question, expired.reason)
            }
            EventKind::LeaderActed(acted) if acted.actions > 0 => {
                format!("the leader takes {}", count(acted.actions, "action"))
            }
            EventKind::TaskUnblocked(change) => {
                let answer = change.reason.as_deref().unwrap_or_default();
                format!("{actor} answers about task {}: {answer}", task())
            }
            EventKind::TaskRequeued(_) => format!("task {} goes back to the others", task()),
            EventKind::TaskUnchanged(_) => {
                format!("task {} is completed without a change", task())
            }
            // What an agent says to whoever leads it is for the person at this terminal.
            EventKind::MessageSent(sent)
                if sent.message_type == "message"
                    && matches!(sent.to.as_deref(), Some("lead" | "user")) =>
            {
                format!("{actor} says: {}", sent.content)
            }
            EventKind::CandidateChosen(chosen) => {
                format!("the result of task {} is taken: {}", task(), chosen.reason)
            }
            EventKind::MergeMerged(_) => format!("task {} is merged", task()),
            EventKind::MergeLost(_) => format!(
                "task {} was called merged and is not; it is merged again",
                task()
            ),
            EventKind::MergeConflict(conflict) => format!(
                "task {} conflicts with what is merged, in {}{}",
                task(),
                list(&conflict.files),
                if conflict.is_final {
                    ", for the last time"
                } else {
                    ""
                }
            ),
            _ => return None,
        })
    }

    fn task(&self, event: &Event) -> String {
        let Some(id) = &event.task_id else {
            return "?".to_owned();
        };
        match self.subjects.get(id) {
            Some(subject) => format!("{id} ({subject})"),
            None => id.to_string(),
        }
    }
}

/// Returns what a task is called now, where an event tells it.
/// Returns how many things a reviewer found, by severity.
fn found(finished: &ReviewFinished) -> String {
    let mut parts: Vec<String> = Severity::ALL
        .into_iter()
        .filter_map(|severity| {
            let findings = finished.findings.iter();
            let number = findings.filter(|it| it.severity == severity).count();
            (number > 0).then(|| format!("{number} {}", severity.as_str()))
        })
        .collect();
    if parts.is_empty() {
        parts.push("nothing found".to_owned());
    }
    if finished.dropped > 0 {
        parts.push(format!("{} dropped", finished.dropped));
    }
    parts.join(", ")
}

fn subject_of(what: &EventKind) -> Option<&String> {
    match what {
        EventKind::TaskCreated(change) | EventKind::TaskUpdated(change) => change.subject.as_ref(),
        _ => None,
    }
}

fn place(on: &str) -> &'static str {
    match on {
        "base" => "before work begins",
        _ => "on the merged work",
    }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn list(texts: &[String]) -> String {
    texts[..texts.len().min(5)].join(", ")
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}
