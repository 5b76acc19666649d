//! A worker's mail: messages for its agent, and messages for the bridge itself, such as a stop request or a person's decision.
//!
//! Journal events announce new mail. A message is acknowledged once the agent's client has it ([`AgentMail`] decides
//! that), so mail survives a bridge that is killed. Messages that were already handled are recognized by their ids.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use teamster_agents::{MessageRoute, PermissionReply};
use teamster_isolate::OrTrace as _;
use teamster_journal::{Event, EventType, family};
use teamster_store::{Reader, Signal};
use teamster_types::heartbeat::ProviderLimit;
use teamster_types::json::Object;
use teamster_types::message::{Message, REQUEST_POSITION, UNDELIVERED};
use teamster_types::text::{clip, one_line};
use teamster_types::{TaskId, Time, WorkerName};

use super::agent_mail::AgentMail;
use super::permission_requests::ArrivedReply;
use super::provider_wait::reported_limit;
use super::reporter::Reporter;
use super::task_attempt::TaskAttempt;

/// The most events or messages that are read at once.
const PAGE: usize = 500;
/// The type of the message that holds a person's decision.
const PERMISSION_ANSWER: &str = "permission_answer";
/// The poll interval for whether a program has read its inbox file.
const INBOX_POLL: Duration = Duration::from_millis(500);

/// A request to the bridge itself in a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MailRequest {
    /// Stop, now or after the current task.
    Stop(Signal),
    /// Leave the quarantine, at the request of this person.
    Resume { by: String },
    /// Pass a person's decision about a permission request to the agent.
    Decide(ArrivedReply),
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

/// The longest quote of an undelivered message, in characters.
const LONGEST_WORDS: usize = 200;

/// A worker's mail.
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
        while let Some(page) = reporter
            .store()
            .events(reporter.team(), self.seen + 1, PAGE)
            .ok_or_trace("read the events of the team")
        {
            let Some(last) = page.events.last() else {
                break;
            };
            self.seen = last.seq;
            any = true;
            news.may_be_work |= page.events.iter().any(may_make_work);
            for event in page.events.iter().filter(is_others) {
                if let Some(limit) = reported_limit(event, &reporter.identity().provider) {
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
                PERMISSION_ANSWER => {
                    requests.extend(self.take_reply(message).map(MailRequest::Decide));
                }
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

    /// Returns the decision in a message, if it counts. One that is older than this bridge was for an agent that is gone.
    fn take_reply(&mut self, message: &Message) -> Option<ArrivedReply> {
        // A worker never decides for another worker.
        if !matches!(message.from(), "user" | "lead")
            || self.predates_bridge(message)
            || !self.is_first_time(message)
        {
            return None;
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
        Some(ArrivedReply {
            request: message.text("requestId").to_owned(),
            by: message.from().to_owned(),
            reply,
            about: message
                .as_object()
                .get(REQUEST_POSITION)
                .and_then(Value::as_u64),
            sent: message.seq(),
        })
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

    /// Starts another attempt: a delivery to an earlier client does not concern the next one.
    pub(super) fn begin_attempt(&mut self) {
        self.forget_delivery();
    }

    /// Returns when to check the inbox file next, if messages in it are not read yet.
    pub(super) fn next_inbox_check(&self, now: Instant) -> Option<Instant> {
        self.mail.is_inbox_file_unread().then(|| now + INBOX_POLL)
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
        let (requests, has_mail) = sort(&mut mailbox, &mail);
        assert!(!has_mail);
        let [MailRequest::Decide(reply)] = &requests[..] else {
            panic!("{requests:?}");
        };
        assert_eq!(
            (reply.by.as_str(), &reply.reply),
            ("user", &PermissionReply::Allow)
        );
        assert_eq!(sort(&mut mailbox, &mail), (Vec::new(), false));
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
}
