//! Who did what when, as the journal tells it.

use std::collections::BTreeMap;

use teamster_journal::{Event, EventKind};
use teamster_types::health::Verdict;
use teamster_types::task::Status;
use teamster_types::{TaskId, Time};

use super::money::Sum;
use crate::model::timeline::{Lane, Mark, Span, SpanEnd};
use crate::requests::Request;

/// Marks of a worker that are kept in mind, the newest.
const MOST_MARKS: usize = 500;
/// The same for stretches of work.
const MOST_SPANS: usize = 5_000;

/// The workers of a team, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Crew {
    /// Members in the order in which they joined.
    pub(super) order: Vec<String>,
    pub(super) workers: BTreeMap<String, Told>,
}

/// What the journal tells of one worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) provider: String,
    pub(super) role: Option<String>,
    pub(super) model: Option<String>,
    /// Its last step: `joined`, `spawning`, `working`, `idle`, `paused`, `stopped`, `dead`, …
    pub(super) status: &'static str,
    pub(super) since: Option<Time>,
    pub(super) last_event_at: Option<Time>,
    pub(super) holds: Option<TaskId>,
    /// What was last said against it, with the evidence; nothing while all is well.
    pub(super) verdict: Option<(Verdict, Vec<String>)>,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) in_a_row: u32,
    pub(super) spent: Sum,
    pub(super) requests: Vec<Request>,
    pub(super) asked_to: Option<&'static str>,
    pub(super) spans: Vec<Span>,
    pub(super) marks: Vec<Mark>,
}

impl Crew {
    pub(super) fn join(&mut self, name: &str, provider: &str, event: &Event) {
        let told = self.workers.entry(name.to_owned()).or_insert_with(|| Told {
            status: "joined",
            since: Some(event.ts),
            ..Told::default()
        });
        if !provider.is_empty() {
            provider.clone_into(&mut told.provider);
        }
        if !self.order.iter().any(|known| known == name) {
            self.order.push(name.to_owned());
        }
    }

    fn worker(&mut self, name: &str) -> &mut Told {
        self.workers.entry(name.to_owned()).or_default()
    }

    /// Somebody who is known did something.
    pub(super) fn is_active(&mut self, name: &str, event: &Event) {
        if let Some(told) = self.workers.get_mut(name) {
            told.last_event_at = Some(event.ts);
        }
    }

    pub(super) fn apply(&mut self, event: &Event, what: &EventKind) {
        match what {
            EventKind::TeamCreated(created) => {
                for name in &created.members {
                    self.join(name, "", event);
                }
            }
            EventKind::RunStarted(started) => {
                for member in &started.spec.members {
                    let name = member.name.as_str();
                    self.join(name, &member.provider, event);
                    let told = self.worker(name);
                    told.role.clone_from(&member.role);
                    told.model.clone_from(&member.model);
                }
            }
            EventKind::Usage(used) => {
                let told = self.worker(&event.actor);
                told.last_event_at = Some(event.ts);
                told.spent.add(used);
                if let Some(model) = &used.model {
                    told.model = Some(model.clone());
                }
            }
            EventKind::MemberJoined(joined) => {
                let name = or_actor(Some(joined.name.as_str()), event);
                let provider = joined.provider.as_deref().unwrap_or_default();
                self.join(name, provider, event);
            }
            EventKind::MemberLeft(left) => {
                let name = or_actor(Some(left.name.as_str()), event);
                self.order.retain(|known| known != name);
                self.worker(name).step("left", event);
            }
            EventKind::SignalShutdown(sent) => {
                self.worker(or_actor(Some(sent.worker.as_str()), event))
                    .asked_to = Some("shutdown");
            }
            EventKind::SignalDrain(sent) => {
                self.worker(or_actor(Some(sent.worker.as_str()), event))
                    .asked_to = Some("drain");
            }
            EventKind::AgentEvent(agent) => {
                let told = self.worker(&event.actor);
                told.last_event_at = Some(event.ts);
                Request::follow(&mut told.requests, event, agent);
            }
            EventKind::HookReceived(_) => self.is_active(&event.actor, event),
            _ => {
                if let Some(step) = Step::of(what) {
                    let about = or_actor(step.worker, event);
                    self.worker(about).happened(event, what, &step);
                }
            }
        }
    }

    pub(super) fn task(&mut self, what: &EventKind, id: &TaskId, subject: &str, event: &Event) {
        self.is_active(&event.actor, event);
        let is_claimed = matches!(what, EventKind::TaskClaimed(_));
        let end = match what {
            EventKind::TaskClaimed(_) | EventKind::TaskReleased(_) | EventKind::TaskDeleted(_) => {
                SpanEnd::Released
            }
            EventKind::TaskCompleted(_) => SpanEnd::Completed,
            EventKind::TaskFailed(_) => SpanEnd::Failed,
            EventKind::TaskRequeued(_) => SpanEnd::Requeued,
            // A foreign program may have ended it without our words for it.
            EventKind::TaskUpdated(change) => match change.to {
                Some(Status::Completed) => SpanEnd::Completed,
                Some(Status::Pending) => SpanEnd::Released,
                Some(Status::InProgress) | None => return,
            },
            _ => return,
        };
        for told in self.workers.values_mut() {
            if told.holds.as_ref() == Some(id) {
                told.let_go(end, event);
            }
        }
        if is_claimed {
            let told = self.worker(&event.actor);
            told.holds = Some(id.clone());
            told.step("working", event);
            told.last_event_at = Some(event.ts);
            told.spans.push(Span {
                task_id: id.clone(),
                subject: subject.to_owned(),
                seq: event.seq,
                from: event.ts,
                to: None,
                end: SpanEnd::Open,
            });
            shorten(&mut told.spans, MOST_SPANS);
        }
        for told in self.workers.values_mut() {
            told.requests
                .retain(|request| is_claimed || request.task_id.as_ref() != Some(id));
        }
    }

    pub(super) fn lanes(&self) -> Vec<Lane> {
        let has_lane = |(_, told): &(&String, &Told)| {
            !told.spans.is_empty() || !told.marks.is_empty() || told.status == "joined"
        };
        self.workers
            .iter()
            .filter(has_lane)
            .map(|(worker, told)| Lane {
                worker: worker.clone(),
                spans: told.spans.clone(),
                marks: told.marks.clone(),
            })
            .collect()
    }
}

impl Told {
    fn step(&mut self, status: &'static str, event: &Event) {
        if self.status != status || status == "working" {
            self.since = Some(event.ts);
        }
        self.status = status;
    }

    fn let_go(&mut self, end: SpanEnd, event: &Event) {
        if let Some(span) = self.spans.iter_mut().rev().find(|span| span.to.is_none()) {
            span.to = Some(event.ts);
            span.end = end;
        }
        self.holds = None;
        if self.status == "working" {
            self.step("idle", event);
        }
        match end {
            SpanEnd::Completed => {
                self.completed += 1;
                self.in_a_row = 0;
                self.verdict = None;
            }
            SpanEnd::Failed => {
                self.failed += 1;
                self.in_a_row += 1;
            }
            _ => {}
        }
    }

    /// Takes in an event about the worker itself.
    fn happened(&mut self, event: &Event, what: &EventKind, step: &Step<'_>) {
        let Step {
            evidence, reason, ..
        } = *step;
        let said = |verdict: Verdict| {
            let mut words = evidence.to_vec();
            if words.is_empty() {
                words.push(if reason.is_empty() {
                    event.kind.clone()
                } else {
                    reason.to_owned()
                });
            }
            Some((verdict, words))
        };
        match what {
            EventKind::WorkerSpawned(_) => {
                self.requests.clear();
                self.verdict = None;
                self.asked_to = None;
                self.in_a_row = 0;
                self.step("spawning", event);
            }
            EventKind::WorkerStarted(_) => {
                self.requests.clear();
                self.verdict = None;
                self.last_event_at = Some(event.ts);
                self.step(
                    if self.holds.is_some() {
                        "working"
                    } else {
                        "idle"
                    },
                    event,
                );
            }
            EventKind::WorkerStopped(_) => {
                self.requests.clear();
                self.verdict = None;
                self.asked_to = None;
                self.step("stopped", event);
            }
            EventKind::WorkerDead(_) => {
                self.requests.clear();
                self.verdict = said(Verdict::Dead);
                self.step("dead", event);
            }
            EventKind::WorkerHung(_) | EventKind::WorkerBeatLost(_) => {
                self.verdict = said(Verdict::Hung);
            }
            EventKind::WorkerSilent(_) => self.verdict = said(Verdict::Silent),
            EventKind::WorkerQuarantined(_) => {
                self.verdict = said(Verdict::Quarantined);
                self.step("quarantined", event);
            }
            EventKind::WorkerResumed(_) => {
                self.verdict = None;
                self.in_a_row = 0;
                self.step("idle", event);
            }
            EventKind::WorkerPaused(_) => self.step("paused", event),
            EventKind::WorkerRestarted(_) => self.step("spawning", event),
            _ => {}
        }
        let words = if reason.is_empty() {
            evidence.join(", ")
        } else {
            reason.to_owned()
        };
        self.marks.push(Mark {
            seq: event.seq,
            at: event.ts,
            what: event.kind.clone(),
            words,
        });
        shorten(&mut self.marks, MOST_MARKS);
    }
}

/// What an event about a worker tells.
struct Step<'a> {
    /// The worker, where it is named; else it is the event's actor.
    worker: Option<&'a str>,
    evidence: &'a [String],
    reason: &'a str,
}

impl<'a> Step<'a> {
    /// Returns what an event tells about a worker, or `None` when it is about something else.
    fn of(what: &'a EventKind) -> Option<Self> {
        let step = |worker: Option<&'a str>, evidence: &'a [String], reason: &'a str| Self {
            worker,
            evidence,
            reason,
        };
        Some(match what {
            EventKind::WorkerSpawned(_)
            | EventKind::WorkerStarted(_)
            | EventKind::WorkerResumed(_) => step(None, &[], ""),
            EventKind::WorkerLaunchFailed(failed) => step(None, &[], &failed.reason),
            EventKind::WorkerPaused(paused) => step(None, &[], &paused.reason),
            EventKind::WorkerQuarantined(told) => {
                step(told.worker.as_deref(), &told.evidence, &told.reason)
            }
            EventKind::WorkerStopped(told) => step(told.worker.as_deref(), &[], &told.reason),
            EventKind::WorkerDead(told)
            | EventKind::WorkerHung(told)
            | EventKind::WorkerSilent(told)
            | EventKind::WorkerBeatLost(told) => {
                let reason = told.reason.as_deref().unwrap_or_default();
                step(told.worker.as_deref(), &told.evidence, reason)
            }
            EventKind::WorkerRestarted(told) => step(Some(&told.worker), &[], ""),
            _ => return None,
        })
    }
}

/// Returns the name that an event gives, else that of its actor.
fn or_actor<'a>(name: Option<&'a str>, event: &'a Event) -> &'a str {
    match name {
        Some(name) if !name.is_empty() => name,
        _ => &event.actor,
    }
}

fn shorten<T>(list: &mut Vec<T>, most: usize) {
    if list.len() > most {
        list.drain(..list.len() - most);
    }
}
