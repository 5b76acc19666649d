//! Requests that a person has to decide: told to the lead, answered by mail, denied when nobody answers.

use std::time::{Duration, Instant};

use serde_json::json;
use teamster_agents::PermissionReply;
use teamster_journal::EventKind;
use teamster_journal::payload::AgentEventRecorded;
use teamster_types::json::Object;
use teamster_types::message::Message;
use teamster_types::redact::{clean, redact};
use teamster_types::time::say_span;

use super::Bridge;
use super::attempt::Watch;

/// The message that asks,
const REQUEST: &str = "permission_request";
/// and the one that answers.
pub(super) const ANSWER: &str = "permission_answer";

/// The longest text in a request to the lead.
const DETAIL: usize = 4_000;

/// What a person said.
#[derive(Debug)]
pub(super) struct Answered {
    request: String,
    by: String,
    answer: PermissionReply,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    request: String,
    what: String,
    since: Instant,
}

impl Bridge {
    /// Tells the lead that the agent waits for a decision.
    pub(super) fn ask_a_person(
        &mut self,
        watch: &mut Watch<'_>,
        request: &str,
        tool: &str,
        detail: &str,
    ) {
        let detail = redact(detail);
        let detail = clean(&detail, DETAIL);
        watch.waiting.push(Waiting {
            request: request.to_owned(),
            what: format!("{tool} {detail}"),
            // Asking was its last word, so that no silence is counted from before it.
            since: watch.spoke,
        });
        let name = self.who.name.clone();
        self.tell(&format!(
            "asks whether it may use {tool} {detail}: `teamster worker answer {name} {request} allow` or `deny`"
        ));
        let mut extra = Object::new();
        extra.insert("requestId".into(), json!(request));
        extra.insert("tool".into(), json!(tool));
        extra.insert("detail".into(), json!(detail));
        extra.insert("taskId".into(), json!(self.holding));
        self.send(REQUEST, &format!("May I use {tool}? {detail}"), extra);
    }

    /// A person's answer came by mail. One from before we began was for an agent that is gone.
    pub(super) fn take_answer(&mut self, message: &Message) {
        // One worker never decides for another.
        if !matches!(message.from(), "user" | "lead")
            || self.is_from_before(message)
            || !self.known_answers.insert(message.id().to_owned())
        {
            return;
        }
        let is_allowed = message.as_object().get("allow") == Some(&true.into());
        let answer = if is_allowed {
            PermissionReply::Allow
        } else {
            PermissionReply::Deny(match message.content() {
                "" => format!("{} said no", message.from()),
                reason => reason.to_owned(),
            })
        };
        self.answers.push(Answered {
            request: message.text("requestId").to_owned(),
            by: message.from().to_owned(),
            answer,
        });
    }

    /// Passes on what people said.
    pub(super) fn pass_answers_on(&mut self, watch: &mut Watch<'_>) {
        for answered in std::mem::take(&mut self.answers) {
            let Answered {
                request,
                by,
                answer,
            } = answered;
            let words = match &answer {
                PermissionReply::Allow => format!("{by} allows it"),
                PermissionReply::Deny(reason) => format!("{by} denies it: {reason}"),
            };
            if !self.answer(watch, &request, answer, &words) {
                self.tell(&format!("{by} answers {request}, which does not wait"));
            }
        }
    }

    /// Denies what nobody answered in time. The agent is not to blame for that silence.
    pub(super) fn deny_the_forgotten(&mut self, watch: &mut Watch<'_>) {
        let limit = self.limits.idle;
        while let Some(waiting) = watch.waiting.first()
            && waiting.since.elapsed() >= limit
        {
            let reason = format!("nobody answered within {}", say_span(limit));
            let request = waiting.request.clone();
            let words = format!("denied: {reason}");
            if !self.answer(watch, &request, PermissionReply::Deny(reason), &words) {
                // The client took it back meanwhile.
                watch.waiting.retain(|other| other.request != request);
            }
        }
    }

    /// Gives the agent an answer; false when it does not wait for one.
    fn answer(
        &mut self,
        watch: &mut Watch<'_>,
        request: &str,
        answer: PermissionReply,
        words: &str,
    ) -> bool {
        let is_allowed = answer == PermissionReply::Allow;
        let Some(line) = watch.reader.answer(request, answer) else {
            return false;
        };
        if let Some(input) = &watch.input {
            let _ = input.send(line);
        }
        let what = watch
            .waiting
            .iter()
            .find(|waiting| waiting.request == request)
            .map_or(String::new(), |waiting| waiting.what.clone());
        watch.waiting.retain(|waiting| waiting.request != request);
        watch.spoke = Instant::now();
        self.tell(&format!("{what}: {words}"));
        self.log_line(watch.log, &format!("request {request}: {words}"));
        let event = self.event_of_task(EventKind::AgentEvent(AgentEventRecorded {
            what: "answered".to_owned(),
            request: Some(request.to_owned()),
            allowed: Some(is_allowed),
            text: clean(&redact(&format!("{what}: {words}")), 200).into_owned(),
        }));
        self.record(event);
        true
    }
}

impl Watch<'_> {
    /// When the oldest request will have waited for too long.
    pub(super) fn patience_ends(&self, limit: Duration) -> Option<Instant> {
        self.waiting.first().map(|waiting| waiting.since + limit)
    }
}
