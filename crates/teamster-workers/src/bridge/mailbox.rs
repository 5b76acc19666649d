//! A worker's mail: messages for its agent, messages for the bridge itself, and people's decisions about permission requests
//! of the agent.
//!
//! Journal events announce new mail. A message is acknowledged once the agent's client has it ([`AgentMail`] decides
//! that), so mail survives a bridge that is killed. Messages that were already handled are recognized by their ids.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use teamster_agents::{MessageRoute, PermissionReply};
use teamster_isolate::OrTrace as _;
use teamster_journal::payload::AgentEventRecorded;
use teamster_journal::{Event, EventKind, EventType, family};
use teamster_store::{Reader, Signal};
use teamster_types::heartbeat::ProviderLimit;
use teamster_types::json::Object;
use teamster_types::message::{Message, REQUEST_POSITION, UNDELIVERED};
use teamster_types::redact::redact;
use teamster_types::text::{clean, clip, one_line};
use teamster_types::time::say_span;
use teamster_types::{TaskId, Time, WorkerName};

use super::agent_mail::AgentMail;
use super::reporter::{DecidedRequest, Reporter};
use super::task_attempt::TaskAttempt;

/// The most events or messages that are read at once.
const PAGE: usize = 500;
/// The number of events before the bridge's start that are searched for limits of its provider.
const SEARCHED_EVENTS: usize = 20_000;
/// The type of the message that asks the lead for a decision.
const PERMISSION_REQUEST: &str = "permission_request";
/// The type of the message that holds a person's decision.
const PERMISSION_ANSWER: &str = "permission_answer";
/// The longest detail in a request to the lead, in characters.
const REQUEST_DETAIL: usize = 4_000;
/// The poll interval for whether a program has read its inbox file.
const INBOX_POLL: Duration = Duration::from_millis(500);

/// A request to the bridge itself in a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MailRequest {
    /// Stop, now or after the current task.
    Stop(Signal),
    /// Leave the quarantine, at the request of this person.
    Resume { by: String },
}

/// The news in the journal since it was last read.
#[derive(Debug, Default)]
pub(super) struct JournalNews {
    /// Whether there may be a task to claim now.
    pub(super) may_be_work: bool,
    /// Whether another actor changed the task that the worker holds.
    pub(super) held_task_changed: bool,
    /// Requests to the bridge itself in the mail.
    pub(super) requests: Vec<MailRequest>,
    /// The last limit of the worker's provider that another worker hit.
    pub(super) limit: Option<ProviderLimit>,
}

/// A person's decision about a request of the agent.
#[derive(Debug)]
struct ArrivedReply {
    /// The id of the request.
    request: String,
    /// The person who decided.
    by: String,
    /// The decision.
    reply: PermissionReply,
    /// The position of the event with the request, if the message names it.
    about: Option<u64>,
    /// The position of the message.
    sent: Option<u64>,
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

/// The longest quote of an undelivered message, in characters.
const LONGEST_WORDS: usize = 200;

/// A worker's mail and the requests of its agent.
#[derive(Debug)]
pub(super) struct WorkerMailbox {
    /// When this bridge started, and the last event before its start.
    began: (Time, u64),
    /// The last event that was read.
    seen: u64,
    /// Whether the team belongs to Claude Code, which writes to the worker's inbox in its own format.
    is_guest: bool,
    /// Messages for the agent that are not acknowledged yet.
    mail: AgentMail,
    /// The delivery to the running client that is not confirmed yet.
    delivery: Option<String>,
    /// Whether the running client accepts no more messages until it ends.
    takes_no_mail: bool,
    /// The ids of messages that were already handled. They are read again until they are acknowledged.
    handled: HashSet<String>,
    /// The last message of a read that held only messages for the bridge itself, until it is acknowledged.
    requests_up_to: Option<String>,
    /// Decisions that are not passed to the agent yet.
    replies: Vec<ArrivedReply>,
    /// Requests that wait for a person, the oldest first.
    pending: Vec<PendingRequest>,
}

impl WorkerMailbox {
    /// Creates the mailbox of a bridge that started at this time, after the event with this number. `is_guest` says whether the
    /// team belongs to Claude Code.
    pub(super) fn new(began: Time, began_after: u64, is_guest: bool) -> Self {
        Self {
            began: (began, began_after),
            seen: began_after,
            is_guest,
            mail: AgentMail::default(),
            delivery: None,
            takes_no_mail: false,
            handled: HashSet::new(),
            requests_up_to: None,
            replies: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// Reads the events since the last call, and the mail if an event announces some or `has_mail` is set.
    pub(super) fn read_journal(
        &mut self,
        reporter: &mut Reporter,
        held: Option<&TaskId>,
        has_mail: bool,
    ) -> JournalNews {
        self.collect(reporter);
        let mut news = JournalNews::default();
        // A line that another program appended has no event.
        let (mut is_mail, mut any) = (has_mail, false);
        let name = reporter.name().clone();
        let is_others = |event: &&Event| event.actor != name.as_str();
        while let Ok(page) = reporter
            .store()
            .events(reporter.team(), self.seen + 1, PAGE)
        {
            let Some(last) = page.events.last() else {
                break;
            };
            self.seen = last.seq;
            any = true;
            news.may_be_work |= page.events.iter().any(may_make_work);
            for event in page.events.iter().filter(is_others) {
                if let Some(limit) = provider_limit(event, &reporter.identity().provider) {
                    news.limit = Some(limit);
                }
                is_mail |= event.is(EventType::MessageSent);
                news.held_task_changed |= event.kind.starts_with(family::TASK)
                    && event.task_id.is_some()
                    && event.task_id.as_ref() == held;
            }
            if page.events.len() < PAGE {
                break;
            }
        }
        if is_mail {
            news.requests = self.read_mail(reporter);
        }
        // Without an event, another program changed a file, or a lease was renewed.
        news.may_be_work |= !any;
        news
    }

    /// Returns the last limit of the worker's provider that a member of the team hit.
    pub(super) fn known_limit(reporter: &Reporter) -> Option<ProviderLimit> {
        let (store, team) = (reporter.store(), reporter.team());
        let any = store.last_of(team, &[EventType::WorkerPaused.name()]);
        any.ok_or_trace("look for known limits")??;
        let last = store.last_events(team, SEARCHED_EVENTS);
        let last = last.ok_or_trace("look for known limits")?.events;
        let provider = &reporter.identity().provider;
        last.iter()
            .rev()
            .find_map(|event| provider_limit(event, provider))
    }

    /// Reads the mail, and returns the requests to the bridge itself. Mail for the agent is acknowledged once the agent has
    /// received it.
    pub(super) fn read_mail(&mut self, reporter: &mut Reporter) -> Vec<MailRequest> {
        self.collect(reporter);
        let reader = Reader::Worker(reporter.name().clone());
        let peek = |limit| reporter.store().peek(reporter.team(), &reader, limit);
        let delivery = match peek(PAGE) {
            // Mail for the bridge itself, such as a person's decision, may come after a full page of mail for the agent.
            Ok(delivery) if delivery.messages.len() == PAGE => peek(usize::MAX),
            other => other,
        };
        let messages = match delivery {
            Ok(delivery) => delivery.messages,
            Err(error) => {
                reporter.say(&format!("cannot read the mail: {error}"));
                return Vec::new();
            }
        };
        tracing::debug!(messages = messages.len(), "read the mail");
        let had_none = self.mail.is_empty();
        let (requests, has_mail) = self.sort(&messages, reporter.store().now());
        if had_none
            && !has_mail
            && let Some(last) = messages.last()
        {
            self.requests_up_to = Some(last.id().to_owned());
        }
        requests
    }

    /// Moves messages from Claude Code into the worker's mail. If that fails now, the next read tries again.
    fn collect(&self, reporter: &Reporter) {
        if self.is_guest {
            reporter
                .store()
                .collect(reporter.team(), reporter.name())
                .or_trace("take the messages of Claude Code");
        }
    }

    /// Acknowledges mail for the bridge itself once the bridge has acted on it. A bridge that is killed earlier reads it again.
    pub(super) fn acknowledge_requests(&mut self, reporter: &mut Reporter) {
        let Some(last) = self.requests_up_to.take() else {
            return;
        };
        let reader = Reader::Worker(reporter.name().clone());
        reporter
            .store()
            .acknowledge(reporter.team(), &reader, &last)
            .or_trace("acknowledge the mail");
    }

    /// Sorts messages into requests to the bridge and mail for the agent; returns the requests, and whether there was any mail
    /// for the agent.
    fn sort(&mut self, messages: &[Message], now: Time) -> (Vec<MailRequest>, bool) {
        let mut requests = Vec::new();
        let mut has_mail = false;
        for (place, message) in messages.iter().enumerate() {
            match message.kind() {
                "shutdown_request" => {
                    // An older message was meant for an earlier process of this worker.
                    if self.is_first_time(message) && !self.predates_bridge(message) {
                        requests.push(MailRequest::Stop(Signal {
                            request_id: message.text("requestId").to_owned(),
                            reason: message.content().to_owned(),
                            timestamp: message.timestamp().unwrap_or(now),
                            drain: message.as_object().get("drain") == Some(&true.into()),
                        }));
                    }
                }
                "resume" => {
                    if self.is_first_time(message) {
                        requests.push(MailRequest::Resume {
                            by: message.from().to_owned(),
                        });
                    }
                }
                PERMISSION_ANSWER => self.take_reply(message),
                _ => {
                    has_mail = true;
                    if place < PAGE {
                        self.mail.add(message);
                    }
                }
            }
        }
        (requests, has_mail)
    }

    fn is_first_time(&mut self, message: &Message) -> bool {
        self.handled.insert(message.id().to_owned())
    }

    /// Returns whether a message was sent before this bridge started. Messages in the journal are compared by position; a
    /// message of another program has none, so it is judged by its time.
    fn predates_bridge(&self, message: &Message) -> bool {
        let (began, began_after) = self.began;
        match message.seq() {
            Some(seq) => seq <= began_after,
            None => message.timestamp().is_some_and(|sent| sent < began),
        }
    }

    /// Handles a person's decision. One that is older than this bridge was for an agent that is gone.
    fn take_reply(&mut self, message: &Message) {
        // A worker never decides for another worker.
        if !matches!(message.from(), "user" | "lead")
            || self.predates_bridge(message)
            || !self.is_first_time(message)
        {
            return;
        }
        let is_allowed = message.as_object().get("allow") == Some(&true.into());
        let reply = if is_allowed {
            PermissionReply::Allow
        } else {
            PermissionReply::Deny(match message.content() {
                "" => format!("{} said no", message.from()),
                reason => reason.to_owned(),
            })
        };
        self.replies.push(ArrivedReply {
            request: message.text("requestId").to_owned(),
            by: message.from().to_owned(),
            reply,
            about: message
                .as_object()
                .get(REQUEST_POSITION)
                .and_then(Value::as_u64),
            sent: message.seq(),
        });
    }

    /// Returns the mail that goes into the next prompt.
    pub(super) fn mail_for_prompt(&mut self, limit: usize) -> Vec<Message> {
        self.mail.put_into_prompt(limit)
    }

    /// Tells the senders of undelivered messages that the worker has stopped without delivering them.
    pub(super) fn report_undelivered(&self, reporter: &mut Reporter) {
        for message in self.mail.undelivered() {
            // Two workers that stop at the same time would notify each other endlessly.
            if message.as_object().contains_key(UNDELIVERED) {
                continue;
            }
            let words = clip(&one_line(message.content()), LONGEST_WORDS);
            let text = format!(
                "has stopped and did not receive: \u{201c}{words}\u{201d}; the next worker named {} gets it",
                reporter.name()
            );
            let mut extra = Object::new();
            extra.insert(UNDELIVERED.into(), json!(message.id()));
            match message.from().parse::<WorkerName>() {
                Ok(peer) if message.from() != "lead" && message.from() != "user" => {
                    reporter.send_to_worker(&peer, &text, extra);
                }
                _ => reporter.send_to_lead("message", &text, extra),
            }
        }
    }

    /// Returns the unread mail that fits into a text of `limit` characters.
    pub(super) fn unread(&self, limit: usize) -> Vec<Message> {
        self.mail.unread(limit)
    }

    /// Notes that the agent received these messages in a tool reply. Returns requests for the bridge in further mail.
    pub(super) fn note_delivered_by_tool(
        &mut self,
        reporter: &mut Reporter,
        messages: &[Message],
    ) -> Vec<MailRequest> {
        self.mail.note_delivered_by_tool(messages);
        self.acknowledge_delivered(reporter)
    }

    /// Notes that the agent has received its prompt. Returns requests for the bridge in further mail.
    pub(super) fn note_prompt_delivered(&mut self, reporter: &mut Reporter) -> Vec<MailRequest> {
        self.mail.note_prompt_delivered();
        self.acknowledge_delivered(reporter)
    }

    /// Delivers waiting mail to the running agent, in the way that its client accepts. Mail that the client cannot accept now
    /// waits for its next event, and in the end for the next prompt.
    pub(super) fn deliver(
        &mut self,
        run: &mut TaskAttempt<'_>,
        reporter: &mut Reporter,
        limit: usize,
    ) {
        if self.takes_no_mail || self.delivery.is_some() || !run.accepts_messages() {
            return;
        }
        let messages = self.mail.waiting(limit);
        if messages.is_empty() {
            return;
        }
        let delivery = teamster_fs::random_hex();
        match run.tell(&delivery, &messages) {
            MessageRoute::Input(_) => {
                self.mail.hand_to_client(&messages);
                self.delivery = Some(delivery);
            }
            MessageRoute::InboxFile => self.mail.put_into_inbox_file(&messages),
            MessageRoute::Later => return,
            MessageRoute::Never => {
                self.takes_no_mail = true;
                return;
            }
        }
        let count = messages.len();
        let noun = if count == 1 { "message" } else { "messages" };
        run.note(
            reporter.store().now(),
            &format!("hands {count} {noun} to the agent"),
        );
    }

    /// Notes that the client accepted a delivery. Returns requests for the bridge in further mail.
    pub(super) fn note_accepted(
        &mut self,
        reporter: &mut Reporter,
        delivery: &str,
    ) -> Vec<MailRequest> {
        if self.delivery.as_deref() != Some(delivery) {
            return Vec::new();
        }
        self.delivery = None;
        self.mail.note_accepted();
        self.acknowledge_delivered(reporter)
    }

    /// Notes that the client rejected a delivery.
    pub(super) fn note_rejected(&mut self, delivery: &str) {
        if self.delivery.as_deref() == Some(delivery) {
            self.delivery = None;
            self.mail.note_rejected();
        }
    }

    /// Checks whether the program has read its inbox file. Returns requests for the bridge in further mail.
    pub(super) fn check_inbox_file(
        &mut self,
        run: &TaskAttempt<'_>,
        reporter: &mut Reporter,
    ) -> Vec<MailRequest> {
        if !self.mail.is_inbox_file_unread() || !run.was_inbox_read() {
            return Vec::new();
        }
        self.mail.note_inbox_file_read();
        self.acknowledge_delivered(reporter)
    }

    /// Ends an attempt: undelivered messages wait for the next one. Returns requests for the bridge in further mail.
    pub(super) fn end_attempt(&mut self, reporter: &mut Reporter) -> Vec<MailRequest> {
        self.forget_delivery();
        // This also retries an acknowledgement that failed earlier.
        self.acknowledge_delivered(reporter)
    }

    fn forget_delivery(&mut self) {
        self.delivery = None;
        self.takes_no_mail = false;
        self.mail.end_attempt();
    }

    /// Acknowledges mail up to the first undelivered message. Returns requests for the bridge in further mail.
    fn acknowledge_delivered(&mut self, reporter: &mut Reporter) -> Vec<MailRequest> {
        let Some(last) = self.mail.delivered_up_to() else {
            return Vec::new();
        };
        let reader = Reader::Worker(reporter.name().clone());
        match reporter.store().acknowledge(reporter.team(), &reader, last) {
            Ok(_) => {
                self.mail.remove_delivered();
                // There may be more than one page.
                self.read_mail(reporter)
            }
            Err(error) => {
                reporter.say(&format!("cannot acknowledge the mail: {error}"));
                Vec::new()
            }
        }
    }

    /// Forgets requests and decisions of earlier attempts: they do not concern the next agent.
    pub(super) fn begin_attempt(&mut self) {
        self.forget_delivery();
        self.replies.clear();
        self.pending.clear();
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

    /// Returns when to check the inbox file next, if messages in it are not read yet.
    pub(super) fn next_inbox_check(&self, now: Instant) -> Option<Instant> {
        self.mail.is_inbox_file_unread().then(|| now + INBOX_POLL)
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

/// Returns the limit that an event reports, if it is a limit of this provider.
fn provider_limit(event: &Event, provider: &str) -> Option<ProviderLimit> {
    if !event.is(EventType::WorkerPaused) {
        return None;
    }
    match event.payload() {
        EventKind::WorkerPaused(paused) => paused.limit.filter(|it| it.provider == provider),
        _ => None,
    }
}

/// Returns whether there may be a task to claim after this event.
fn may_make_work(event: &Event) -> bool {
    match event.known_kind() {
        Some(
            EventType::WorkerDead
            | EventType::WorkerQuarantined
            | EventType::WorkerResumed
            | EventType::WorkerStopped
            // Tasks that depend on the merged one can start.
            | EventType::MergeMerged,
        ) => true,
        Some(EventType::TaskClaimed) => false,
        _ => event.kind.starts_with(family::TASK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: u64 = 10;

    fn mailbox() -> WorkerMailbox {
        WorkerMailbox::new(Time::from_millis(1_000), BEGAN, false)
    }

    fn message(id: &str, kind: &str, from: &str, seq: u64) -> Message {
        Message::new(id, kind, from, "ann", "text", Time::from_millis(2_000))
            .with("seq", json!(seq))
            .with("requestId", json!("r1"))
    }

    fn sort(mailbox: &mut WorkerMailbox, messages: &[Message]) -> (Vec<MailRequest>, bool) {
        mailbox.sort(messages, Time::from_millis(3_000))
    }

    #[test]
    fn stop_request_is_obeyed_once_and_not_if_it_is_older_than_the_bridge() {
        let mut mailbox = mailbox();
        let old = message("m1", "shutdown_request", "lead", BEGAN);
        let new = message("m2", "shutdown_request", "lead", BEGAN + 1).with("drain", json!(true));
        let mail = [old, new];
        let (requests, has_mail) = sort(&mut mailbox, &mail);
        assert!(!has_mail);
        let [MailRequest::Stop(signal)] = &requests[..] else {
            panic!("{requests:?}");
        };
        assert!(signal.drain && signal.request_id == "r1");
        assert_eq!(sort(&mut mailbox, &mail), (Vec::new(), false));
    }

    #[test]
    fn decision_counts_from_people_only_and_once() {
        let mut mailbox = mailbox();
        let answer = |id: &str, from: &str, seq| {
            message(id, PERMISSION_ANSWER, from, seq).with("allow", json!(true))
        };
        let mail = [
            answer("m1", "ben", BEGAN + 1),
            answer("m2", "user", BEGAN),
            answer("m3", "user", BEGAN + 1),
        ];
        for _ in 0..2 {
            assert_eq!(sort(&mut mailbox, &mail), (Vec::new(), false));
        }
        let replies = &mailbox.replies;
        assert_eq!(replies.len(), 1, "{replies:?}");
        assert_eq!(
            (replies[0].by.as_str(), &replies[0].reply),
            ("user", &PermissionReply::Allow)
        );
    }

    #[test]
    fn mail_for_the_agent_is_kept_once_and_goes_into_the_next_prompt() {
        let mut mailbox = mailbox();
        let mail = [message("m1", "message", "ben", BEGAN + 1)];
        for _ in 0..2 {
            assert_eq!(sort(&mut mailbox, &mail), (Vec::new(), true));
        }
        assert_eq!(mailbox.mail_for_prompt(10_000), &mail[..]);
    }

    #[test]
    fn mail_of_the_prompt_is_not_unread_and_what_was_told_is_not_told_twice() {
        let mut mailbox = mailbox();
        let mail = ["m1", "m2", "m3"].map(|id| message(id, "message", "ben", BEGAN + 1));
        sort(&mut mailbox, &mail[..1]);
        assert_eq!(mailbox.mail_for_prompt(10_000).len(), 1);
        sort(&mut mailbox, &mail[..2]);
        assert_eq!(mailbox.unread(10_000), &mail[1..2]);
        sort(&mut mailbox, &mail);
        mailbox.mail.note_delivered_by_tool(&mail[1..2]);
        assert_eq!(mailbox.unread(10_000), &mail[2..]);
        mailbox.mail.note_delivered_by_tool(&mail[2..]);
        assert!(mailbox.unread(10_000).is_empty());
    }

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
        let mut mailbox = mailbox();
        mailbox.pending.push(PendingRequest {
            request: "r1".to_owned(),
            what: "Write a".to_owned(),
            since: Instant::now(),
            position: None,
        });
        assert!(mailbox.next_expiry(Duration::from_secs(1)).is_some());
        mailbox.begin_attempt();
        assert_eq!(mailbox.next_expiry(Duration::from_secs(1)), None);
    }
}
