//! Permission requests of a worker's agent that a person has to decide.
//!
//! ```text
//! agent asks ──▶ pending, the lead is told ──┬── a person decides ──────▶ the agent gets the decision
//!                                            ├── nobody decides in time ▶ the agent gets a denial
//!                                            └── the attempt ends ──────▶ forgotten
//! ```
//!
//! A decision names the request by an id that the client chose, and a client may use the same id again. If both
//! positions in the journal are known, a decision therefore counts only for a request that it names by its position, or that is
//! older than the decision.

use std::time::{Duration, Instant};

use serde_json::json;
use teamster_agents::PermissionReply;
use teamster_journal::payload::AgentEventRecorded;
use teamster_types::TaskId;
use teamster_types::json::Object;
use teamster_types::redact::redact;
use teamster_types::text::clean;
use teamster_types::time::say_span;

use super::reporter::{DecidedRequest, Reporter};
use super::task_attempt::TaskAttempt;

/// The type of the message that asks the lead for a decision.
const PERMISSION_REQUEST: &str = "permission_request";
/// The longest detail in a request to the lead, in characters.
const REQUEST_DETAIL: usize = 4_000;

/// A request of an agent to a person.
pub(super) struct PersonRequest<'a> {
    /// The id of the request.
    pub(super) request: &'a str,
    /// The tool that the agent wants to use.
    pub(super) tool: &'a str,
    /// The purpose for which the agent wants to use the tool.
    pub(super) detail: &'a str,
    /// The position of the event with the request, if it could be recorded.
    pub(super) position: Option<u64>,
}

/// A person's decision about a request of the agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArrivedReply {
    /// The id of the request.
    pub(super) request: String,
    /// The person who decided.
    pub(super) by: String,
    /// The decision.
    pub(super) reply: PermissionReply,
    /// The position of the event with the request, if the message names it.
    pub(super) about: Option<u64>,
    /// The position of the message.
    pub(super) sent: Option<u64>,
}

/// A request of the agent that waits for a person.
#[derive(Debug)]
struct PendingRequest {
    request: String,
    what: String,
    since: Instant,
    /// The position of the event with the request.
    position: Option<u64>,
}

impl PendingRequest {
    /// Returns whether a decision is about this request, and not about an earlier one with the same id: it says so, or it was
    /// sent after this request.
    fn is_meant_by(&self, decision: &ArrivedReply) -> bool {
        match (self.position, decision.about, decision.sent) {
            (Some(asked), Some(about), _) => asked == about,
            (Some(asked), None, Some(sent)) => asked < sent,
            _ => true,
        }
    }
}

/// The permission requests of one worker's agent, and people's decisions about them.
#[derive(Debug, Default)]
pub(super) struct PermissionRequests {
    /// Decisions that are not passed to the agent yet.
    replies: Vec<ArrivedReply>,
    /// Requests that wait for a person, the oldest first.
    pending: Vec<PendingRequest>,
}

impl PermissionRequests {
    /// Forgets requests and decisions of earlier attempts: they do not concern the next agent.
    pub(super) fn begin_attempt(&mut self) {
        self.replies.clear();
        self.pending.clear();
    }

    /// Adds a decision that arrived in the mail.
    pub(super) fn add_reply(&mut self, reply: ArrivedReply) {
        self.replies.push(reply);
    }

    /// Tells the lead that the agent waits for a decision, and remembers the request.
    pub(super) fn ask_person(
        &mut self,
        reporter: &mut Reporter,
        task: &TaskId,
        asked: &PersonRequest<'_>,
        since: Instant,
    ) {
        let PersonRequest {
            request,
            tool,
            detail,
            position,
        } = asked;
        let detail = redact(detail);
        let detail = clean(&detail, REQUEST_DETAIL);
        self.pending.push(PendingRequest {
            request: (*request).to_owned(),
            what: format!("{tool} {detail}"),
            since,
            position: *position,
        });
        let (name, team) = (reporter.name().clone(), reporter.team().clone());
        reporter.say(&format!(
            "asks whether it may use {tool} {detail}: `teamster worker answer {name} {request} allow --team {team}` or `deny`"
        ));
        let mut extra = Object::new();
        extra.insert("requestId".into(), json!(request));
        extra.insert("tool".into(), json!(tool));
        extra.insert("detail".into(), json!(detail));
        extra.insert("taskId".into(), json!(task));
        reporter.send_to_lead(
            PERMISSION_REQUEST,
            &format!("May I use {tool}? {detail}"),
            extra,
        );
    }

    /// Passes decisions that arrived since the last call to the agent.
    pub(super) fn forward_replies(&mut self, run: &mut TaskAttempt<'_>, reporter: &mut Reporter) {
        for decision in std::mem::take(&mut self.replies) {
            let waits = |pending: &PendingRequest| {
                pending.request == decision.request && pending.is_meant_by(&decision)
            };
            let is_waited_for = self.pending.iter().any(waits);
            let ArrivedReply {
                request, by, reply, ..
            } = decision;
            let words = match &reply {
                PermissionReply::Allow => format!("{by} allows it"),
                PermissionReply::Deny(reason) => format!("{by} denies it: {reason}"),
            };
            if !is_waited_for || !self.reply(run, reporter, &request, &by, &reply, &words) {
                reporter.say(&format!("{by} answered {request}, which no longer waits"));
            }
        }
    }

    /// Denies requests that a person did not answer within `limit`. Such a wait does not count as the agent's silence.
    pub(super) fn deny_expired(
        &mut self,
        run: &mut TaskAttempt<'_>,
        reporter: &mut Reporter,
        limit: Duration,
    ) {
        while let Some(oldest) = self.pending.first()
            && oldest.since.elapsed() >= limit
        {
            let request = oldest.request.clone();
            let reason = format!("nobody answered within {}", say_span(limit));
            let words = format!("denied: {reason}");
            let reply = PermissionReply::Deny(reason);
            let by = AgentEventRecorded::NOBODY;
            if !self.reply(run, reporter, &request, by, &reply, &words) {
                // The client has withdrawn the request in the meantime.
                self.close_request(&request);
            }
        }
    }

    /// Passes a decision about a request to the agent; returns whether the agent waited for it.
    fn reply(
        &mut self,
        run: &mut TaskAttempt<'_>,
        reporter: &mut Reporter,
        request: &str,
        by: &str,
        reply: &PermissionReply,
        words: &str,
    ) -> bool {
        if !run.reply(request, reply.clone()) {
            return false;
        }
        let what = self.close_request(request);
        reporter.say(&format!("{what}: {words}"));
        run.note(
            reporter.store().now(),
            &format!("request {request}: {words}"),
        );
        let decided = DecidedRequest {
            request,
            what: &what,
            by,
            reply,
            words,
        };
        reporter.record_reply(run.task(), &decided);
        true
    }

    /// Returns when the oldest request will have waited for longer than `limit`.
    pub(super) fn next_expiry(&self, limit: Duration) -> Option<Instant> {
        self.pending.first().map(|oldest| oldest.since + limit)
    }

    /// Forgets a request, and returns what it asked for.
    fn close_request(&mut self, request: &str) -> String {
        let what = self
            .pending
            .iter()
            .find(|pending| pending.request == request)
            .map_or(String::new(), |pending| pending.what.clone());
        self.pending.retain(|pending| pending.request != request);
        what
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_about_an_earlier_request_of_the_same_name_is_not_taken() {
        let request = |position| PendingRequest {
            request: "r1".to_owned(),
            what: "Write a".to_owned(),
            since: Instant::now(),
            position,
        };
        let decision = |about, sent| ArrivedReply {
            request: "r1".to_owned(),
            by: "user".to_owned(),
            reply: PermissionReply::Allow,
            about,
            sent,
        };
        let asked = request(Some(20));
        assert!(asked.is_meant_by(&decision(Some(20), Some(25))));
        assert!(
            !asked.is_meant_by(&decision(Some(10), Some(25))),
            "it says so"
        );
        assert!(
            !asked.is_meant_by(&decision(None, Some(15))),
            "it was sent before"
        );
        assert!(asked.is_meant_by(&decision(None, Some(25))));
        assert!(request(None).is_meant_by(&decision(Some(10), Some(15))));
    }

    #[test]
    fn requests_and_decisions_of_an_earlier_attempt_are_forgotten() {
        let mut requests = PermissionRequests::default();
        requests.pending.push(PendingRequest {
            request: "r1".to_owned(),
            what: "Write a".to_owned(),
            since: Instant::now(),
            position: None,
        });
        assert!(requests.next_expiry(Duration::from_secs(1)).is_some());
        requests.begin_attempt();
        assert_eq!(requests.next_expiry(Duration::from_secs(1)), None);
    }
}
