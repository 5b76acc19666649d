//! Delivers messages to Claude Code while it works: when they are written, and how their acceptance is detected.
//!
//! A `user` line that is written during a turn stays in the client's queue until the running tools have returned; then the
//! model gets it with their results, and the client replays the line. A line that comes too late for the last tool of a turn
//! starts a turn of its own. So messages are written while a tool runs, before the client is allowed to run it. A message
//! that the model has not seen when it continues is cancelled, and written again with the next tool or put into the next
//! prompt. If the client starts a turn with it at that moment, the turn still belongs to the same task.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{line, user_line};
use crate::driver::{LineEffects, MessageRoute};
use crate::text::text;

/// The most tool calls that are remembered.
const MOST_CALLS: usize = 1000;
/// The id prefix of requests that cancel a message.
const CANCEL_ID: &str = "teamster-take-back";

/// A message on its way to the model.
#[derive(Debug, Default)]
pub(super) struct MailDelivery {
    /// The agent's own tool calls without a result yet.
    open_calls: HashSet<String>,
    in_flight: Option<InFlightLine>,
    /// Whether the client reported the end of its turn.
    is_turn_over: bool,
}

/// A line that the client has not replayed yet.
#[derive(Debug)]
struct InFlightLine {
    delivery: String,
    uuid: String,
    /// Whether the client was asked to cancel it.
    is_cancelled: bool,
}

impl InFlightLine {
    /// Returns the request that cancels the message.
    fn cancel_request(&self) -> Vec<u8> {
        line(&json!({
            "type": "control_request",
            "request_id": format!("{CANCEL_ID}-{}", self.delivery),
            "request": { "subtype": "cancel_async_message", "message_uuid": self.uuid },
        }))
    }
}

impl MailDelivery {
    /// Notes a tool call of the agent itself; calls of its helpers belong to other conversations.
    pub(super) fn call_began(&mut self, call: &str) {
        if self.open_calls.len() < MOST_CALLS {
            self.open_calls.insert(call.to_owned());
        }
    }

    pub(super) fn call_ended(&mut self, call: &str) {
        self.open_calls.remove(call);
    }

    pub(super) fn deliver(&mut self, delivery: &str, text: &str) -> MessageRoute {
        if self.in_flight.is_some() || (self.open_calls.is_empty() && !self.is_turn_over) {
            return MessageRoute::Later;
        }
        if self.is_turn_over {
            return MessageRoute::Never;
        }
        let uuid = uuid(delivery);
        let line = user_line(text, Some(&uuid));
        self.in_flight = Some(InFlightLine {
            delivery: delivery.to_owned(),
            uuid,
            is_cancelled: false,
        });
        MessageRoute::Input(line)
    }

    /// Notes that the agent continues. If all its tools have returned and the client has not replayed the message, the model
    /// does not have it: returns the line that cancels the message.
    pub(super) fn note_progress(&mut self) -> Option<Vec<u8>> {
        self.is_turn_over = false;
        if self.open_calls.is_empty() {
            self.cancel()
        } else {
            None
        }
    }

    /// Notes the end of the client's turn; returns its effects.
    pub(super) fn turn_ended(&mut self) -> LineEffects {
        self.open_calls.clear();
        self.is_turn_over = true;
        LineEffects {
            replies: self.cancel().into_iter().collect(),
            // With a message in its queue, the client starts another turn unless it cancels the message; it may also do neither.
            close_input: self.in_flight.is_none(),
            may_be_over: self.in_flight.is_some(),
            ..LineEffects::default()
        }
    }

    /// Returns the line that cancels a message that the client has not replayed, to be sent before an interrupt.
    pub(super) fn before_interrupt(&self) -> Vec<u8> {
        let words = self.in_flight.as_ref();
        words.map(InFlightLine::cancel_request).unwrap_or_default()
    }

    /// Handles the client's response to a cancel request.
    pub(super) fn response(&mut self, value: &Value) -> LineEffects {
        let response = value.get("response").unwrap_or(&Value::Null);
        let asked = text(response, "request_id")
            .and_then(|id| id.strip_prefix(CANCEL_ID)?.strip_prefix('-'));
        let is_forgotten = response.pointer("/response/cancelled") == Some(&Value::Bool(true));
        let words = self
            .in_flight
            .take_if(|words| is_forgotten && asked == Some(words.delivery.as_str()));
        match words {
            Some(words) => LineEffects {
                refused: vec![words.delivery],
                close_input: self.is_turn_over,
                ..LineEffects::default()
            },
            // The client has already started with the message: it replays the line soon, and its next result is the end.
            None => LineEffects::default(),
        }
    }

    /// Returns the delivery that a replayed line belongs to.
    pub(super) fn replayed_delivery(&mut self, value: &Value) -> Option<String> {
        if value.get("isReplay") != Some(&Value::Bool(true)) {
            return None;
        }
        let uuid = text(value, "uuid");
        let shown = self
            .in_flight
            .take_if(|words| uuid == Some(words.uuid.as_str()));
        shown.map(|words| words.delivery)
    }

    fn cancel(&mut self) -> Option<Vec<u8>> {
        let words = self.in_flight.as_mut()?;
        let is_first = !std::mem::replace(&mut words.is_cancelled, true);
        is_first.then(|| words.cancel_request())
    }
}

/// Returns a delivery's id as a UUID, which the client expects.
fn uuid(delivery: &str) -> String {
    let mut digits: Vec<char> = delivery.chars().filter(char::is_ascii_hexdigit).collect();
    digits.resize(32, '0');
    // These digits mark a random UUID (version 4).
    (digits[12], digits[16]) = ('4', '8');
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    let parts = parts.map(|part| digits[part].iter().collect::<String>());
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELIVERY: &str = "0123456789abcdef0123456789abcdef";
    const UUID: &str = "01234567-89ab-4def-8123-456789abcdef";

    fn shown() -> Value {
        json!({ "type": "user", "isReplay": true, "uuid": UUID })
    }

    fn response(cancelled: bool) -> Value {
        json!({ "type": "control_response", "response": {
            "subtype": "success",
            "request_id": format!("{CANCEL_ID}-{DELIVERY}"),
            "response": { "cancelled": cancelled },
        }})
    }

    /// Returns the state after a message was written while a tool ran.
    fn written() -> MailDelivery {
        let mut mail = MailDelivery::default();
        assert_eq!(mail.deliver(DELIVERY, "x"), MessageRoute::Later);
        mail.call_began("a");
        let MessageRoute::Input(line) = mail.deliver(DELIVERY, "x") else {
            panic!("not written");
        };
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(
            (&line["type"], &line["uuid"]),
            (&json!("user"), &json!(UUID))
        );
        assert_eq!(mail.deliver("another", "y"), MessageRoute::Later);
        mail
    }

    #[test]
    fn words_are_taken_when_the_client_shows_them_after_the_tool() {
        let mut mail = written();
        mail.call_ended("a");
        let other = json!({ "type": "user", "isReplay": true, "uuid": "other" });
        assert_eq!(mail.replayed_delivery(&other), None);
        assert_eq!(mail.replayed_delivery(&json!({ "uuid": UUID })), None);
        assert_eq!(mail.replayed_delivery(&shown()).as_deref(), Some(DELIVERY));
        assert_eq!(mail.replayed_delivery(&shown()), None);
        assert_eq!(mail.note_progress(), None);
        assert!(mail.turn_ended().close_input);
        assert_eq!(mail.deliver("another", "y"), MessageRoute::Never);
    }

    #[test]
    fn words_that_came_too_late_are_taken_back_and_not_called_delivered() {
        let mut mail = written();
        assert_eq!(mail.note_progress(), None, "a tool still runs");
        mail.call_ended("a");
        assert!(mail.note_progress().is_some());
        assert_eq!(mail.note_progress(), None, "it was asked already");
        let ended = mail.turn_ended();
        assert!(!ended.close_input && ended.may_be_over && ended.replies.is_empty());
        let answered = mail.response(&response(true));
        assert_eq!(answered.refused, [DELIVERY]);
        assert!(answered.close_input);
        assert_eq!(mail.deliver("another", "y"), MessageRoute::Never);
    }

    #[test]
    fn words_that_were_taken_back_in_time_are_written_with_the_next_tool() {
        let mut mail = written();
        mail.call_ended("a");
        assert!(mail.note_progress().is_some());
        let answered = mail.response(&response(true));
        assert!(!answered.close_input);
        assert_eq!(mail.deliver("another", "y"), MessageRoute::Later);
        mail.call_began("b");
        assert!(matches!(
            mail.deliver("another", "y"),
            MessageRoute::Input(_)
        ));
    }

    #[test]
    fn turn_that_the_client_began_with_the_words_ends_with_its_own_result() {
        let mut mail = written();
        let ended = mail.turn_ended();
        assert!(!ended.close_input && ended.replies.len() == 1);
        assert_eq!(mail.response(&response(false)), LineEffects::default());
        assert_eq!(mail.replayed_delivery(&shown()).as_deref(), Some(DELIVERY));
        assert_eq!(mail.note_progress(), None);
        assert!(mail.turn_ended().close_input);
    }
}
