//! Who did what when, as the journal tells it.

use std::collections::BTreeMap;

use serde_json::Value;
use teamster_journal::Event;
use teamster_types::health::Verdict;
use teamster_types::{TaskId, Time};

use super::{money, text, texts};
use crate::model::cost::Spent;
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
    pub(super) spent: Spent,
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

    /// Members of a run are told with their roles and models.
    pub(super) fn planned(&mut self, event: &Event) {
        if event.kind != "run.started" {
            return;
        }
        let members = event.data.get("members").and_then(Value::as_array);
        for member in members.into_iter().flatten() {
            let word = |key: &str| member.get(key).and_then(Value::as_str);
            if let Some(name) = word("name") {
                self.join(name, word("provider").unwrap_or_default(), event);
                let told = self.worker(name);
                told.role = word("role").map(str::to_owned);
                told.model = word("model").map(str::to_owned);
            }
        }
    }

    pub(super) fn used(&mut self, event: &Event) {
        let told = self.worker(&event.actor);
        told.last_event_at = Some(event.ts);
        money::add(&mut told.spent, event);
        if let Some(model) = text(event, "model") {
            told.model = Some(model.to_owned());
        }
    }

    pub(super) fn task(&mut self, what: &str, id: &TaskId, subject: &str, event: &Event) {
        self.is_active(&event.actor, event);
        let end = match what {
            "claimed" | "released" | "deleted" => SpanEnd::Released,
            "completed" => SpanEnd::Completed,
            "failed" => SpanEnd::Failed,
            "requeued" => SpanEnd::Requeued,
            // A foreign program may have ended it without our words for it.
            "updated" if text(event, "to").is_some_and(|to| to != "in_progress") => {
                match text(event, "to") {
                    Some("completed") => SpanEnd::Completed,
                    _ => SpanEnd::Released,
                }
            }
            _ => return,
        };
        for told in self.workers.values_mut() {
            if told.holds.as_ref() == Some(id) {
                told.let_go(end, event);
            }
        }
        if what == "claimed" {
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
                .retain(|request| what == "claimed" || request.task_id.as_ref() != Some(id));
        }
    }

    pub(super) fn tell(&mut self, event: &Event) {
        let about = text(event, "worker").unwrap_or(&event.actor);
        match event.kind.as_str() {
            "member.joined" => {
                let name = text(event, "name").unwrap_or(&event.actor);
                self.join(name, text(event, "provider").unwrap_or_default(), event);
            }
            "member.left" => {
                let name = text(event, "name").unwrap_or(about);
                self.order.retain(|known| known != name);
                self.worker(name).step("left", event);
            }
            "signal.shutdown" => self.worker(about).asked_to = Some("shutdown"),
            "signal.drain" => self.worker(about).asked_to = Some("drain"),
            "agent.event" => self.agent(event),
            "hook.received" => self.is_active(&event.actor, event),
            kind if kind.starts_with("worker.") => self.worker(about).happened(event),
            _ => {}
        }
    }

    fn agent(&mut self, event: &Event) {
        let told = self.worker(&event.actor);
        told.last_event_at = Some(event.ts);
        let Some(request) = text(event, "request") else {
            return;
        };
        match text(event, "what") {
            Some("asked") => told.requests.push(Request {
                request: request.to_owned(),
                what: text(event, "text").unwrap_or_default().to_owned(),
                task_id: event.task_id.clone(),
                asked_at: event.ts,
            }),
            Some("answered") => told.requests.retain(|open| open.request != request),
            _ => {}
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

    /// An event about the worker itself.
    fn happened(&mut self, event: &Event) {
        let evidence: Vec<String> = texts(event, "evidence").map(str::to_owned).collect();
        let reason = text(event, "reason").unwrap_or_default();
        let said = |verdict: Verdict| {
            let mut words = evidence.clone();
            if words.is_empty() {
                words.push(if reason.is_empty() {
                    event.kind.clone()
                } else {
                    reason.to_owned()
                });
            }
            Some((verdict, words))
        };
        match event.kind.as_str() {
            "worker.spawned" => {
                self.requests.clear();
                self.verdict = None;
                self.asked_to = None;
                self.in_a_row = 0;
                self.step("spawning", event);
            }
            "worker.started" => {
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
            "worker.stopped" => {
                self.requests.clear();
                self.verdict = None;
                self.asked_to = None;
                self.step("stopped", event);
            }
            "worker.dead" => {
                self.requests.clear();
                self.verdict = said(Verdict::Dead);
                self.step("dead", event);
            }
            "worker.hung" | "worker.beat_lost" => self.verdict = said(Verdict::Hung),
            "worker.silent" => self.verdict = said(Verdict::Silent),
            "worker.quarantined" => {
                self.verdict = said(Verdict::Quarantined);
                self.step("quarantined", event);
            }
            "worker.resumed" => {
                self.verdict = None;
                self.in_a_row = 0;
                self.step("idle", event);
            }
            "worker.paused" => self.step("paused", event),
            "worker.restarted" => self.step("spawning", event),
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

fn shorten<T>(list: &mut Vec<T>, most: usize) {
    if list.len() > most {
        list.drain(..list.len() - most);
    }
}
