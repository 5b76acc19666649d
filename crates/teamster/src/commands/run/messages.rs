//! Describes an event of a run in one line for a person.

use std::collections::HashMap;

use teamster_journal::cost::LimitReached;
use teamster_journal::payload::{
    Addressee, AgentAction, AgentEventRecorded, LeaderWoken, QuestionId, ReviewFinished,
    RunStopRequested, Severity, StopLevel, TaskChange, WakeKind,
};
use teamster_journal::{Event, EventKind, PermissionRequest, Planning, QuestionStatus, Questions};
use teamster_types::TaskId;
use teamster_types::text::clip;

use crate::shown::display_line;

/// The longest handover or finding that a line shows, in characters. The full text is in the task and at the gate.
const LONGEST_WORDS: usize = 200;

/// Knows the subjects of tasks, the addressees of questions, and which answers count.
#[derive(Debug, Default)]
pub struct EventMessages {
    subjects: HashMap<TaskId, String>,
    questions: Questions,
    planning: Planning,
}

impl EventMessages {
    /// Returns the line, or `None` for an event that is not shown.
    pub fn of(&mut self, event: &Event) -> Option<String> {
        let what = event.payload();
        if let (Some(id), Some(subject)) = (&event.task_id, subject_of(&what)) {
            self.subjects.insert(id.clone(), subject.clone());
        }
        self.questions.apply(event, &what);
        self.planning.apply(event, &what);
        let line = self.line(event, &what)?;
        Some(display_line(&line))
    }

    /// Returns how to answer the question in an event; empty when it is not for a person.
    fn how_to_answer(&self, id: QuestionId) -> String {
        match self.questions.get(id) {
            Some(asked) if asked.to == Addressee::Leader => "; the leader is asked".to_owned(),
            Some(asked) if asked.proposal.is_some() => {
                format!("; accept it with `teamster answer {id} --accept`")
            }
            _ => format!("; answer with `teamster answer {id} \"…\"`"),
        }
    }

    fn line(&self, event: &Event, what: &EventKind) -> Option<String> {
        Some(match what {
            EventKind::RunStarted(_) => format!("the run of team {} begins", event.team),
            EventKind::RunResumed(_) => format!("the run of team {} is resumed", event.team),
            EventKind::RunStage(entered) => match entered.reason.as_str() {
                "" => format!("stage: {}", entered.to),
                why => format!("stage: {} ({why})", entered.to),
            },
            EventKind::FlowPhase(entered) => match entered.reason.as_str() {
                "" => format!("phase: {}", entered.to),
                why => format!("phase: {} ({why})", entered.to),
            },
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
                format!("ready for your review: {}", short(&opened.commit))
            }
            EventKind::ApprovalGiven(decided) => format!("approved: {}", short(&decided.commit)),
            EventKind::ApprovalRefused(decided) => {
                format!("rejected: {}", decided.text.as_deref().unwrap_or_default())
            }
            EventKind::ApprovalRevised(decided) => format!(
                "to be revised: {}",
                decided.text.as_deref().unwrap_or_default()
            ),
            EventKind::BudgetExhausted(exhausted) => match LimitReached::from_event(exhausted) {
                Some(exceeded) => exceeded.sentence().to_string(),
                None => "the budget is used up".to_owned(),
            },
            EventKind::RunStopRequested(request) => stop_requested(request),
            EventKind::RunFinished(finished) => format!(
                "ended: {} ({})",
                finished.outcome.replace('_', " "),
                finished.reason
            ),
            _ => return about_worker(event, what).or_else(|| self.about_task(event, what)),
        })
    }

    /// Returns the line for an event about a task and its work, or about an agent.
    fn about_task(&self, event: &Event, what: &EventKind) -> Option<String> {
        let task = || self.task(event);
        let actor = &event.actor;
        Some(match what {
            EventKind::TaskClaimed(_) => format!("{actor} begins task {}", task()),
            EventKind::TaskCompleted(change) => {
                format!("{actor} completed task {}{}", task(), handed_over(change))
            }
            EventKind::TaskFailed(change) => {
                let error = change.error.as_deref().unwrap_or_default();
                format!("task {} failed: {error}", task())
            }
            EventKind::TaskBlocked(change) => {
                let reason = change.reason.as_deref().unwrap_or_default();
                let id = QuestionId::at(event.seq);
                let how = self.how_to_answer(id);
                format!(
                    "{id}: {actor} cannot go on with task {}: {reason}{how}",
                    task()
                )
            }
            EventKind::TaskUnblocked(change) => {
                let answer = change.reason.as_deref().unwrap_or_default();
                format!("{actor} answers about task {}: {answer}", task())
            }
            EventKind::TaskRequeued(_) => format!("task {} goes back to the queue", task()),
            EventKind::TaskUnchanged(_) => {
                format!("task {} is completed without a change", task())
            }
            EventKind::CandidateChosen(chosen) => {
                format!("the result of task {} is taken: {}", task(), chosen.reason)
            }
            EventKind::MergeMerged(_) => format!("task {} is merged", task()),
            EventKind::MergeLost(_) => format!(
                "task {} was recorded as merged but is not; it is merged again",
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
            _ => return self.about_agents(event, what),
        })
    }

    /// Returns the line for what agents say, ask and decide.
    fn about_agents(&self, event: &Event, what: &EventKind) -> Option<String> {
        let actor = &event.actor;
        Some(match what {
            EventKind::QuestionAsked(asked) => {
                let id = QuestionId::at(event.seq);
                let asks = match &asked.proposal {
                    Some(proposal) => format!("{actor} proposes a task: {}", proposal.subject),
                    None => format!("{actor} asks: {}", asked.text),
                };
                format!("{id}: {asks}{}", self.how_to_answer(id))
            }
            EventKind::QuestionForwarded(forwarded) => {
                let id = forwarded.question;
                let why = &forwarded.reason;
                format!("{id} is for you ({why}): answer with `teamster answer {id} \"…\"`")
            }
            EventKind::QuestionAnswered(answered) => {
                let question = self.questions.get(answered.question);
                if question.is_some_and(|it| !is_answered_by(&it.state, event)) {
                    return None;
                }
                format!("{actor} answers {}: {}", answered.question, answered.answer)
            }
            EventKind::QuestionExpired(expired) => {
                format!("{} got no answer: {}", expired.question, expired.reason)
            }
            EventKind::LeaderWoken(woken) => match &woken.refused {
                Some(why) => {
                    format!("the leader is asked again, because its answer was refused: {why}")
                }
                None => format!("the leader is asked: {}", reasons(woken)),
            },
            EventKind::JudgeAsked(asked) => format!(
                "{} chooses one of {}",
                asked.judge,
                count(asked.candidates.len(), "result")
            ),
            EventKind::JudgeFailed(failed) => {
                format!("{} chose none: {}", failed.judge, failed.reason)
            }
            EventKind::LeaderActed(acted) if acted.actions > 0 => {
                let notes = match acted.notes.as_slice() {
                    [] => String::new(),
                    notes => format!(": {}", list(notes)),
                };
                format!("the leader takes {}{notes}", count(acted.actions, "action"))
            }
            EventKind::LeaderActed(_) => "the leader changes nothing".to_owned(),
            EventKind::FindingAdded(finding) => {
                let place = match finding.place().as_str() {
                    "" => String::new(),
                    place => format!(" in {place}"),
                };
                let severity = finding.severity.as_str();
                format!("{actor} found ({severity}){place}: {}", finding.claim)
            }
            EventKind::AgentEvent(agent) => return about_request(event, agent),
            // A message from an agent to its lead is for the person at this terminal.
            EventKind::MessageSent(sent)
                if sent.message_type == "message"
                    && matches!(sent.to.as_deref(), Some("lead" | "user")) =>
            {
                format!("{actor} says: {}", sent.content)
            }
            EventKind::PlanAnswered(answered) => {
                let counts = self.planning.reply_to(answered.revision);
                if counts.is_none_or(|counts| counts.seq != event.seq) {
                    return None;
                }
                let answer = answered.answer()?;
                let words = match &answered.words {
                    Some(words) => format!(": {words}"),
                    None => String::new(),
                };
                format!(
                    "revision {} of the plan is {}{words}",
                    answered.revision,
                    answer.words()
                )
            }
            _ => return about_plan(what),
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

/// Returns the line for the state of a worker.
fn about_worker(event: &Event, what: &EventKind) -> Option<String> {
    let actor = &event.actor;
    Some(match what {
        EventKind::WorkerQuarantined(told) => {
            format!("{actor} takes no more tasks: {}", told.reason)
        }
        EventKind::WorkerSecretsKept(found) => {
            let paths: Vec<String> = found.files.iter().map(|file| file.path.clone()).collect();
            let kept = if found.files.iter().any(|file| file.kept.is_some()) {
                "; kept in the team's private folder"
            } else {
                ""
            };
            format!(
                "{actor}: not committed, because of secrets: {}{kept}",
                list(&paths)
            )
        }
        EventKind::WorkerPaused(paused) => match &paused.limit {
            Some(limit) => format!("{actor} waits: {}; {}", limit.phrase(), paused.reason),
            None => format!("{actor} waits: {}", paused.reason),
        },
        EventKind::WorkerDead(told) => {
            let worker = told.worker.as_deref().unwrap_or_default();
            format!("{worker} is dead: {}", list(&told.evidence))
        }
        EventKind::WorkerHung(told) => {
            let worker = told.worker.as_deref().unwrap_or_default();
            format!("{worker} hangs: {}", list(&told.evidence))
        }
        EventKind::WorkerSilent(told) => {
            let worker = told.worker.as_deref().unwrap_or_default();
            format!("{worker} is silent: {}", list(&told.evidence))
        }
        EventKind::WorkerRestarted(told) => {
            format!(
                "{} is restarted (restart {} in a row)",
                told.worker, told.times
            )
        }
        _ => return None,
    })
}

/// Returns the line for a person's request to stop a run.
fn stop_requested(request: &RunStopRequested) -> String {
    let what = if request.cancel {
        "a person cancels the run"
    } else {
        "a person stops the team"
    };
    let how = match request.level {
        StopLevel::GoOn => "",
        StopLevel::Drain => ": current tasks are finished first",
        StopLevel::Stop => ": current tasks are interrupted, and their work is kept",
        StopLevel::Kill => ": every process of the team is ended at once",
    };
    format!("{what}{how}")
}

/// Returns the line for an agent's permission request or the decision about it.
fn about_request(event: &Event, agent: &AgentEventRecorded) -> Option<String> {
    let actor = &event.actor;
    if let Some(asked) = PermissionRequest::made_by(event, agent) {
        return Some(format!(
            "{actor} asks for permission: {}; `{}`, or deny",
            asked.what, asked.command
        ));
    }
    (agent.what == AgentAction::Answered)
        .then(|| format!("permission request of {actor} answered: {}", agent.text))
}

/// Returns the handover of a task to its dependents, as the rest of a line.
fn handed_over(change: &TaskChange) -> String {
    let handover = change
        .result()
        .and_then(|result| result.handover.as_deref());
    match handover.map(str::trim) {
        None | Some("") => String::new(),
        Some(handover) => format!(" and hands over: {}", clip(handover, LONGEST_WORDS)),
    }
}

/// Returns whether this event is the one that answered a question.
fn is_answered_by(state: &QuestionStatus, event: &Event) -> bool {
    matches!(state, QuestionStatus::Answered { seq, .. } if *seq == event.seq)
}

/// Returns the line for an event about the plan.
fn about_plan(what: &EventKind) -> Option<String> {
    Some(match what {
        EventKind::PlanProposed(proposed) => {
            let tasks = count(proposed.plan.tasks.len(), "task");
            let revision = proposed.revision;
            let what = match proposed.plan.questions.len() {
                0 => format!("revision {revision} of the plan has {tasks}"),
                some => format!("the leader has {} before it plans", count(some, "question")),
            };
            let is_open = proposed.ask && proposed.plan.questions.is_empty();
            let to_decide = if is_open {
                "; it waits for you: `teamster plan show`"
            } else {
                ""
            };
            let not_taken = match proposed.left_out.as_slice() {
                [] => String::new(),
                commands => format!(
                    "; its checks will not run, because you have not allowed them: {}",
                    list(commands)
                ),
            };
            format!("{what}{not_taken}{to_decide}")
        }
        EventKind::PlanFailed(failed) => format!("no plan: {}", failed.reason),
        EventKind::RunPlan(plan) => format!(
            "plan: {}{}",
            count(plan.tasks.len(), "task"),
            match plan.source.as_str() {
                "sentence" => ", the task as given".to_owned(),
                "file" => " from the plan file".to_owned(),
                "preset" => " from the preset".to_owned(),
                "session" => " from the session that started the run".to_owned(),
                other => format!(" from {other}"),
            }
        ),
        _ => return None,
    })
}

/// Returns why the leader is woken.
fn reasons(woken: &LeaderWoken) -> String {
    let mut words: Vec<&str> = woken
        .reasons
        .iter()
        .map(|reason| match reason.kind {
            WakeKind::Question => "a question of a worker",
            WakeKind::Failure => "a task that failed",
            WakeKind::Conflict => "an unresolved conflict",
            WakeKind::Findings => "findings of a review",
            WakeKind::Message => "a message of yours",
            WakeKind::Revision => "what you want changed",
            WakeKind::Phase => "the end of a phase",
        })
        .collect();
    words.dedup();
    words.join(", ")
}

/// Returns how many findings a reviewer has, by severity.
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
    let parts = parts.join(", ");
    // They are sorted: the worst comes first.
    match finished.findings.first() {
        Some(worst) => {
            let claim = clip(&worst.claim, LONGEST_WORDS);
            match worst.place().as_str() {
                "" => format!("{parts}: {claim}"),
                place => format!("{parts}: {place}: {claim}"),
            }
        }
        None => parts,
    }
}

/// Returns the new subject of a task, if the event contains it.
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
