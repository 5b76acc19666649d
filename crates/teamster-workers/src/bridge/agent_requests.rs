//! Requests of an agent through its bridge's socket and the bridge's replies. Questions of the agent's client to the person
//! are handled in the same way.
//!
//! Most requests are answered at once. A question waits until it is answered in the journal, its time limit passes, or the
//! caller stops waiting. Every reply also delivers the agent's unread mail, which is acknowledged once the reply is
//! written.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use teamster_agents::QuestionReply;
use teamster_isolate::OrTrace as _;
use teamster_journal::payload::{Addressee, QuestionExpired, QuestionId};
use teamster_journal::{EventActor, EventKind, QuestionStatus, Questions};
use teamster_store::ReadStore;
use teamster_types::json::Object;
use teamster_types::message::Message;
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::redact::{redact, redact_json};
use teamster_types::text::shown_line;
use teamster_types::time::say_span;
use teamster_types::{TaskId, TeamName};

use super::mailbox::{MailRequest, WorkerMailbox};
use super::reporter::Reporter;
use super::socket::AgentRequest;
use crate::tools::answer::{Caller, OTHERS_WROTE};
use crate::tools::quota::Quota;
use crate::tools::{AskArguments, ToolFailure, WorkerCall};

/// The number of events before the first read that are searched for open questions.
const SEARCHED_EVENTS: usize = 20_000;
/// The most events that are read at once.
const PAGE: usize = 500;
/// The most characters of mail that come with one reply.
const MAIL_IN_REPLY: usize = 50_000;
/// The longest question on the bridge's own output, in characters.
const SHOWN_QUESTION: usize = 400;

/// The advice to an agent whose question was not answered.
const UNANSWERED_ADVICE: &str =
    "Decide by yourself, and say at the end of the task what you assumed.";

/// The questions of the team, followed in the journal from their first use.
#[derive(Debug, Default)]
struct FollowedQuestions {
    questions: Questions,
    seen: Option<u64>,
}

impl FollowedQuestions {
    /// Reads the journal up to its end.
    fn catch_up(&mut self, read: &dyn ReadStore, team: &TeamName) -> teamster_store::Result<()> {
        loop {
            let page = match self.seen {
                Some(seen) => read.events(team, seen + 1, PAGE)?,
                None => read.last_events(team, SEARCHED_EVENTS)?,
            };
            let is_first = self.seen.is_none();
            for event in &page.events {
                self.questions.apply(event, &event.payload());
                self.seen = Some(event.seq);
            }
            if is_first {
                self.seen.get_or_insert(0);
            }
            if page.events.len() < PAGE || is_first {
                return Ok(());
            }
        }
    }
}

/// A question whose answer the agent waits for.
#[derive(Debug)]
struct PendingQuestion {
    id: QuestionId,
    waiter: QuestionWaiter,
    expires: Instant,
}

/// Who waits for the answer to a question.
#[derive(Debug)]
enum QuestionWaiter {
    /// A call of one of teamster's tools.
    Tool(AgentRequest),
    /// The agent's client, with its own id of the question.
    Client(String),
}

/// A reply to the agent's client about one of its questions.
#[derive(Debug)]
pub(super) struct ClientReply {
    /// The client's id of the question.
    pub(super) request: String,
    /// The answer, or why there is none.
    pub(super) reply: QuestionReply,
}

/// Mail that is on its way to the agent with a reply.
#[derive(Debug)]
struct MailInFlight {
    /// The number of the request that is replied to.
    number: u64,
    /// The messages.
    messages: Vec<Message>,
}

/// A decided proposal of the agent that is not reported to it yet.
#[derive(Debug)]
struct SettledProposal {
    id: QuestionId,
    by: EventActor,
    answer: String,
}

/// The requests of one worker's agent.
#[derive(Debug)]
pub(super) struct AgentRequests {
    /// Who answers questions.
    to: Addressee,
    quota: Quota,
    followed: FollowedQuestions,
    /// Questions whose answers the agent waits for, the oldest first.
    pending: Vec<PendingQuestion>,
    /// Proposals that are not decided yet.
    proposals: Vec<QuestionId>,
    settled: Vec<SettledProposal>,
    on_its_way: Option<MailInFlight>,
    /// Replies that are not passed to the client yet.
    client_replies: Vec<ClientReply>,
}

impl AgentRequests {
    /// Creates the request handler of a worker whose questions go to this addressee.
    pub(super) fn new(to: Addressee) -> Self {
        Self {
            to,
            quota: Quota::default(),
            followed: FollowedQuestions::default(),
            pending: Vec::new(),
            proposals: Vec::new(),
            settled: Vec::new(),
            on_its_way: None,
            client_replies: Vec::new(),
        }
    }

    /// Returns whether the agent waits for an answer.
    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether mail is on its way to the agent with a reply.
    pub(super) fn has_mail_in_flight(&self) -> bool {
        self.on_its_way.is_some()
    }

    /// Returns when the oldest question expires.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.pending.iter().map(|pending| pending.expires).min()
    }

    /// Serves a request of the agent for its task. A question waits for at most `limit`.
    pub(super) fn serve(
        &mut self,
        mut request: AgentRequest,
        task: &TaskId,
        limit: Duration,
        reporter: &mut Reporter,
        mailbox: &WorkerMailbox,
    ) {
        let arguments = std::mem::take(&mut request.arguments);
        let call = match WorkerCall::read(&request.tool, arguments) {
            Ok(call) => call,
            Err(failure) => return request.reply(Err(failure), false),
        };
        let identity = reporter.identity().clone();
        let caller = Caller {
            store: reporter.store(),
            team: &identity.team,
            worker: &identity.name,
            task,
        };
        let quota = &mut self.quota;
        let outcome = match call {
            WorkerCall::TeamStatus => {
                let caught_up = self.followed.catch_up(caller.store, caller.team);
                caught_up.or_trace("follow the questions of the team");
                caller.team_status(&self.followed.questions)
            }
            WorkerCall::TaskGet(arguments) => caller.task_get(&arguments),
            WorkerCall::MessageSend(arguments) => caller.message_send(arguments, quota),
            WorkerCall::InboxRead => return self.reply_with_mail(&request, mailbox),
            WorkerCall::Ask(arguments) => match caller.ask(&arguments, self.to, quota) {
                Ok(id) => {
                    let waiter = QuestionWaiter::Tool(request);
                    return self.wait(id, waiter, &arguments.question, limit, reporter);
                }
                Err(failure) => Err(failure),
            },
            WorkerCall::ReportProgress(arguments) => caller.report_progress(&arguments, quota),
            WorkerCall::AddFinding(arguments) => caller.add_finding(&arguments, quota),
            WorkerCall::ProposeTask(arguments) => {
                let proposed = caller.propose_task(&arguments, self.to, quota);
                proposed.map(|id| {
                    self.proposals.push(id);
                    let to = self.to.as_str();
                    json!({ "question": id, "note": format!("It goes to the {to}. Go on with your own task.") })
                })
            }
        };
        self.reply(&request, outcome, mailbox);
    }

    /// Asks a question of the agent's client like any question of a worker. It waits for at most `limit`.
    pub(super) fn ask_for_client(
        &mut self,
        request: &str,
        question: &str,
        task: &TaskId,
        limit: Duration,
        reporter: &mut Reporter,
    ) {
        let identity = reporter.identity().clone();
        let caller = Caller {
            store: reporter.store(),
            team: &identity.team,
            worker: &identity.name,
            task,
        };
        let arguments = AskArguments {
            question: question.to_owned(),
        };
        match caller.ask(&arguments, self.to, &mut self.quota) {
            Ok(id) => {
                let waiter = QuestionWaiter::Client(request.to_owned());
                self.wait(id, waiter, question, limit, reporter);
            }
            Err(failure) => {
                reporter.say(&format!("a question of the client is not asked: {failure}"));
                self.client_replies.push(ClientReply {
                    request: request.to_owned(),
                    reply: QuestionReply::Unanswered(format!("{failure}. {UNANSWERED_ADVICE}")),
                });
            }
        }
    }

    fn wait(
        &mut self,
        id: QuestionId,
        waiter: QuestionWaiter,
        question: &str,
        limit: Duration,
        reporter: &mut Reporter,
    ) {
        let text = shown_line(question, SHOWN_QUESTION);
        reporter.say(&format!(
            "asks {id}: {text}; `teamster answer {id} \"…\"` answers it"
        ));
        self.pending.push(PendingQuestion {
            id,
            waiter,
            expires: Instant::now() + limit,
        });
    }

    /// Takes the replies to questions of the agent's client.
    pub(super) fn take_client_replies(&mut self) -> Vec<ClientReply> {
        std::mem::take(&mut self.client_replies)
    }

    /// Handles that the client no longer waits for the answer to its question.
    pub(super) fn note_withdrawn(&mut self, request: &str, reporter: &mut Reporter) {
        let is_theirs = |pending: &PendingQuestion| matches!(&pending.waiter, QuestionWaiter::Client(its) if its == request);
        self.give_up(is_theirs, reporter);
    }

    /// Replies to a request, and adds decisions about proposals and unread mail.
    fn reply(
        &mut self,
        request: &AgentRequest,
        outcome: Result<Value, ToolFailure>,
        mailbox: &WorkerMailbox,
    ) {
        let mut value = match outcome {
            Ok(value) => value,
            // An error reply cannot carry mail; the next reply does.
            Err(failure) => return request.reply(Err(failure), false),
        };
        let settled: Vec<Value> = self.settled.drain(..).map(proposal_row).collect();
        let unread = self.take_unread(request, mailbox);
        let has_mail = !unread.is_empty();
        if let Value::Object(fields) = &mut value {
            if !settled.is_empty() {
                fields.insert("decided".into(), json!(settled));
            }
            if has_mail {
                fields.insert("unread".into(), json!(unread));
                fields.insert("note".into(), json!(OTHERS_WROTE));
            }
        }
        redact_json(&mut value);
        request.reply(Ok(value), has_mail);
    }

    fn reply_with_mail(&mut self, request: &AgentRequest, mailbox: &WorkerMailbox) {
        let messages = self.take_unread(request, mailbox);
        let has_mail = !messages.is_empty();
        let mut value = json!({ "messages": messages });
        if has_mail {
            value["note"] = json!(OTHERS_WROTE);
        }
        redact_json(&mut value);
        request.reply(Ok(value), has_mail);
    }

    /// Takes the mail that goes with a reply. Only one reply at a time carries mail, so that only delivered mail is acknowledged.
    fn take_unread(&mut self, request: &AgentRequest, mailbox: &WorkerMailbox) -> Vec<Object> {
        if self.on_its_way.is_some() {
            return Vec::new();
        }
        let messages = mailbox.unread(MAIL_IN_REPLY);
        let unread = messages.iter().map(Message::as_object).cloned().collect();
        if !messages.is_empty() {
            self.on_its_way = Some(MailInFlight {
                number: request.number,
                messages,
            });
        }
        unread
    }

    /// Handles whether a reply with mail was written. Returns requests for the bridge itself in further mail.
    pub(super) fn note_written(
        &mut self,
        number: u64,
        is_written: bool,
        reporter: &mut Reporter,
        mailbox: &mut WorkerMailbox,
    ) -> Vec<MailRequest> {
        match self.on_its_way.take_if(|mail| mail.number == number) {
            Some(mail) if is_written => mailbox.note_delivered_by_tool(reporter, &mail.messages),
            _ => Vec::new(),
        }
    }

    /// Handles that the caller no longer waits for the reply to a request.
    pub(super) fn note_caller_gone(&mut self, number: u64, reporter: &mut Reporter) {
        self.on_its_way.take_if(|mail| mail.number == number);
        let is_theirs = |pending: &PendingQuestion| matches!(&pending.waiter, QuestionWaiter::Tool(its) if its.number == number);
        self.give_up(is_theirs, reporter);
    }

    fn give_up(
        &mut self,
        is_theirs: impl FnMut(&PendingQuestion) -> bool,
        reporter: &mut Reporter,
    ) {
        if let Some(place) = self.pending.iter().position(is_theirs) {
            let pending = self.pending.remove(place);
            expire(reporter, pending.id, PhraseCode::QuestionAgentGone);
        }
    }

    /// Passes answers that were recorded since the last call to the agent.
    pub(super) fn forward_answers(&mut self, reporter: &mut Reporter, mailbox: &WorkerMailbox) {
        if self.pending.is_empty() && self.proposals.is_empty() {
            return;
        }
        let caught_up = self.followed.catch_up(reporter.store(), reporter.team());
        if let Err(error) = caught_up {
            tracing::debug!("cannot read answers: {error}");
            return;
        }
        for pending in std::mem::take(&mut self.pending) {
            match self.outcome_of(pending.id) {
                Some(fate) => {
                    reporter.say(&format!("{} is over", pending.id));
                    self.pass_outcome(pending, &fate, mailbox);
                }
                None => self.pending.push(pending),
            }
        }
        let questions = &self.followed.questions;
        self.proposals.retain(|id| {
            let fate = questions.get(*id).map(|question| &question.state);
            if let Some(QuestionStatus::Answered { by, answer, .. }) = fate {
                self.settled.push(SettledProposal {
                    id: *id,
                    by: by.clone(),
                    answer: answer.clone(),
                });
            }
            fate == Some(&QuestionStatus::Open)
        });
    }

    /// Expires questions that were not answered in time. An answer that was recorded before the expiry counts.
    pub(super) fn expire_pending(
        &mut self,
        limit: Duration,
        reporter: &mut Reporter,
        mailbox: &WorkerMailbox,
    ) {
        let now = Instant::now();
        let (over, pending): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending| pending.expires <= now);
        self.pending = pending;
        for pending in over {
            let limit = say_span(limit);
            let reason = Phrase::new(PhraseCode::QuestionUnanswered, [("limit", &limit)]);
            expire(reporter, pending.id, reason.clone());
            let caught_up = self.followed.catch_up(reporter.store(), reporter.team());
            caught_up.or_trace("read the answer to a question");
            let fate = self
                .outcome_of(pending.id)
                .unwrap_or(QuestionOutcome::Unanswered(reason.to_string()));
            self.pass_outcome(pending, &fate, mailbox);
        }
    }

    /// Starts another attempt: it does not get mail and replies that were meant for an earlier agent.
    pub(super) fn begin_attempt(&mut self) {
        self.on_its_way = None;
        self.client_replies.clear();
    }

    /// Expires the questions of an attempt that has ended.
    pub(super) fn end_attempt(&mut self, reporter: &mut Reporter) {
        for pending in std::mem::take(&mut self.pending) {
            expire(reporter, pending.id, PhraseCode::QuestionWorkEnded);
        }
    }

    /// Passes the outcome of a question to its waiter.
    fn pass_outcome(
        &mut self,
        pending: PendingQuestion,
        outcome: &QuestionOutcome,
        mailbox: &WorkerMailbox,
    ) {
        match pending.waiter {
            QuestionWaiter::Tool(request) => {
                self.reply(&request, Ok(outcome.for_tool(pending.id)), mailbox);
            }
            QuestionWaiter::Client(request) => self.client_replies.push(ClientReply {
                request,
                reply: outcome.for_client(),
            }),
        }
    }

    /// Returns the outcome of a question, or `None` while it is open.
    fn outcome_of(&self, id: QuestionId) -> Option<QuestionOutcome> {
        match &self.followed.questions.get(id)?.state {
            QuestionStatus::Open => None,
            QuestionStatus::Answered { by, answer, .. } => Some(QuestionOutcome::Answered {
                by: by.clone(),
                answer: answer.clone(),
            }),
            QuestionStatus::Expired { reason, .. } => {
                Some(QuestionOutcome::Unanswered(reason.to_string()))
            }
        }
    }
}

/// The outcome of a question that an agent waited for.
#[derive(Debug)]
enum QuestionOutcome {
    /// The question was answered.
    Answered { by: EventActor, answer: String },
    /// The question was not answered, for this reason.
    Unanswered(String),
}

impl QuestionOutcome {
    /// Returns the outcome for a tool reply.
    fn for_tool(&self, id: QuestionId) -> Value {
        match self {
            Self::Answered { by, answer } => json!({
                "question": id,
                "answer": answer,
                "by": by,
                "note": OTHERS_WROTE,
            }),
            Self::Unanswered(reason) => json!({
                "question": id,
                "answer": null,
                "reason": reason,
                "note": format!("There is no answer. {UNANSWERED_ADVICE}"),
            }),
        }
    }

    /// Returns the outcome for a client that asked the person. The client attributes every answer to the person, so an answer
    /// from another source names its source.
    fn for_client(&self) -> QuestionReply {
        match self {
            Self::Answered { by, answer } => {
                let answer = redact(answer);
                QuestionReply::Answered(match by {
                    EventActor::Person => answer.into_owned(),
                    other => {
                        format!("(answered by {other} of your team, and not by the user) {answer}")
                    }
                })
            }
            Self::Unanswered(reason) => QuestionReply::Unanswered(format!(
                "There is no answer: {reason}. {UNANSWERED_ADVICE}"
            )),
        }
    }
}

fn proposal_row(settled: SettledProposal) -> Value {
    let SettledProposal { id, by, answer } = settled;
    json!({ "question": id, "by": by, "answer": answer })
}

/// Records that the answer to a question is no longer awaited.
fn expire(reporter: &mut Reporter, question: QuestionId, reason: impl Into<Wording>) {
    let (reason, reason_codes) = reason.into().into_parts();
    reporter.say(&format!("{question}: {reason}"));
    let expired = EventKind::QuestionExpired(QuestionExpired {
        question,
        reason,
        reason_codes,
    });
    let event = reporter.event(expired);
    reporter.record(event);
}
