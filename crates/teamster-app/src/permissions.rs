//! Answers permission requests of agents.

use serde_json::{Value, json};
use teamster_journal::payload::MessageSent;
use teamster_journal::{EventKind, EventType, PermissionRequest};
use teamster_store::{OutgoingMessage, Recipient};
use teamster_types::json::Object;
use teamster_types::message::REQUEST_POSITION;
use teamster_types::text::shown_line;
use teamster_types::{TeamName, WorkerName};
use teamster_view::requests;

use crate::app::App;
use crate::error::{AppError, ErrorKind, Result};

/// The type of the message that contains a person's decision.
const ANSWER: &str = "permission_answer";
/// The number of recent events that are searched for an earlier answer.
const LOOKED_THROUGH: usize = 20_000;
/// The maximum length of quoted text in a message, in characters.
const SHOWN: usize = 200;

/// A person's decision about a permission request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionAnswer {
    /// Whether it is allowed.
    pub allow: bool,
    /// Why it is denied, for the agent.
    pub reason: String,
}

impl PermissionAnswer {
    /// Parses a decision: `allow`, `deny`, or `deny` and the reason.
    pub fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let allow = match word.to_lowercase().as_str() {
            "allow" if rest.trim().is_empty() => true,
            "deny" => false,
            _ => return None,
        };
        Some(Self {
            allow,
            reason: rest.trim().to_owned(),
        })
    }
}

/// Tells an agent whether its request is allowed. Only the first answer counts; a late caller gets an error. `seen` is
/// the position of the request's event, if the caller has shown the request: a later request with the same id is a
/// different one.
pub fn answer(
    app: &App,
    team: &TeamName,
    worker: &WorkerName,
    request: &str,
    seen: Option<u64>,
    decision: &PermissionAnswer,
) -> Result<PermissionRequest> {
    app.must_be_a_person("answering an agent's request")?;
    let waiting = requests::waiting(app.read()?, team, worker.as_str())?;
    let is_meant = |open: &&PermissionRequest| {
        open.request == request && seen.is_none_or(|seen| seen == open.seq)
    };
    let Some(open) = waiting.iter().find(is_meant) else {
        return Err(not_waiting(worker, request, &waiting));
    };
    if let Some(first) = first_answer(app, team, worker, open)? {
        return Err(is_late(worker, request, &first));
    }
    let mut extra = Object::new();
    extra.insert("requestId".into(), json!(request));
    extra.insert(REQUEST_POSITION.into(), json!(open.seq));
    extra.insert("allow".into(), json!(decision.allow));
    let sent = app.store()?.send(
        team,
        &OutgoingMessage {
            from: app.actor.name().to_owned(),
            to: Recipient::Worker(worker.to_string()),
            kind: ANSWER.to_owned(),
            content: decision.reason.clone(),
            extra,
        },
    )?;
    let is_ours = |first: &MessageSent| {
        let id = first.message_id.as_deref();
        sent.iter().any(|message| Some(message.id()) == id)
    };
    match first_answer(app, team, worker, open)? {
        Some(first) if !is_ours(&first) => Err(is_late(worker, request, &first)),
        _ => Ok(open.clone()),
    }
}

/// Returns the first answer to a request. An answer from before the request belongs to an earlier request with the same
/// id.
fn first_answer(
    app: &App,
    team: &TeamName,
    worker: &WorkerName,
    open: &PermissionRequest,
) -> Result<Option<MessageSent>> {
    let events = app.read()?.last_events(team, LOOKED_THROUGH)?.events;
    let mut sent = events
        .iter()
        .filter(|event| event.seq > open.seq && event.is(EventType::MessageSent))
        .filter_map(|event| match event.payload() {
            EventKind::MessageSent(sent) => Some(sent),
            _ => None,
        });
    Ok(sent.find(|sent| {
        sent.message_type == ANSWER
            && sent.to.as_deref() == Some(worker.as_str())
            && sent.extra.get("requestId").and_then(Value::as_str) == Some(&open.request)
            && sent
                .extra
                .get(REQUEST_POSITION)
                .is_none_or(|position| position.as_u64() == Some(open.seq))
    }))
}

fn is_late(worker: &WorkerName, request: &str, first: &MessageSent) -> AppError {
    let how = match first.extra.get("allow").and_then(Value::as_bool) {
        Some(true) => "allowed",
        _ => "denied",
    };
    AppError::new(
        ErrorKind::Conflict,
        format!("another decision came first: request {request} of {worker} is {how}"),
    )
}

fn not_waiting(worker: &WorkerName, request: &str, waiting: &[PermissionRequest]) -> AppError {
    let open: Vec<String> = waiting
        .iter()
        .map(|open| format!("{} ({})", open.request, shown_line(&open.what, SHOWN)))
        .collect();
    AppError::not_found(format!(
        "{worker} is not waiting for an answer to {request}"
    ))
    .hint(match open.as_slice() {
        [] => "it has no open requests".to_owned(),
        open => format!("it is waiting for {}", open.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_word_is_a_decision() {
        let read = |line| PermissionAnswer::read(line).map(|read| (read.allow, read.reason));
        assert_eq!(read(" allow "), Some((true, String::new())));
        assert_eq!(read("Deny"), Some((false, String::new())));
        assert_eq!(
            read("deny too risky"),
            Some((false, "too risky".to_owned()))
        );
        for line in ["", "yes", "a", "allow it", "allowed"] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
