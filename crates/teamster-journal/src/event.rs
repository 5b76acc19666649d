//! The lines of the journal.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use teamster_types::json::Object;
use teamster_types::process::ProcessId;
use teamster_types::redact::redact_json;
use teamster_types::{TaskId, Time};

use crate::actor::EventActor;
use crate::kind::{EventKind, EventType};

/// The maximum length of a line, in bytes; longer texts go to blobs beside the journal.
pub const LINE_LIMIT: usize = 8 * 1024;

/// The name prefixes of related kinds, for searching a journal.
pub mod family {
    /// The kinds that change tasks.
    pub const TASK: &str = "task.";
    /// The kinds about merges.
    pub const MERGE: &str = "merge.";
    /// The kinds about a run and its stages.
    pub const RUN: &str = "run.";
    /// The kinds about checks.
    pub const VERIFY: &str = "verify.";
    /// The kinds about the gate.
    pub const APPROVAL: &str = "approval.";
    /// The kinds about messages.
    pub const MESSAGE: &str = "message.";
    /// The kinds about members of the team.
    pub const MEMBER: &str = "member.";
    /// The kinds about workers.
    pub const WORKER: &str = "worker.";
    /// The kinds about the plan of a run.
    pub const PLAN: &str = "plan.";
    /// The kinds about questions.
    pub const QUESTION: &str = "question.";
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The position of the event: it increases by one for each event of a team.
    #[serde(deserialize_with = "position")]
    pub seq: u64,
    /// The id of the event, unique across all teams.
    pub id: String,
    /// When it happened.
    pub ts: Time,
    /// The team in which it happened.
    pub team: String,
    /// What happened, such as `task.claimed` or `message.sent`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The actor; `foreign` for a program other than teamster.
    pub actor: EventActor,
    /// The task that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Whether the transaction continues on the next line; either all of its lines count, or none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// The payload.
    #[serde(default)]
    pub data: Object,
}

impl Event {
    /// Returns its kind, or `None` when this version does not know it.
    pub fn known_kind(&self) -> Option<EventType> {
        EventType::parse(&self.kind)
    }

    /// Returns whether the event is of this kind.
    pub fn is(&self, kind: EventType) -> bool {
        self.kind == kind.name()
    }

    /// Returns whether it may change tasks. Unknown `task.` and `merge.` kinds of a newer version count, too.
    pub fn is_about_tasks(&self) -> bool {
        self.kind.starts_with(family::TASK) || self.kind.starts_with(family::MERGE)
    }

    /// Parses the kind and the payload of the event.
    pub fn payload(&self) -> EventKind {
        EventKind::parse(&self.kind, &self.data)
    }

    /// Maps the mailbox positions in the event with `place`, which gets the name of the mailbox and the position.
    /// Stores count positions in different ways.
    pub fn map_mail_places(&mut self, place: impl Fn(&str, u64) -> u64) {
        let keys: &[&str] = match self.known_kind() {
            Some(EventType::MessageDelivered | EventType::MessageAcked) => &["from", "upTo"],
            Some(EventType::MessageMalformed) => &["at"],
            _ => return,
        };
        let Some(mailbox) = self.data.get("box").and_then(Value::as_str) else {
            return;
        };
        let mailbox = mailbox.to_owned();
        for key in keys {
            if let Some(value) = self.data.get_mut(*key)
                && let Some(before) = value.as_u64()
            {
                *value = json!(place(&mailbox, before));
            }
        }
    }
}

/// An event that has no position in the journal yet.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    kind: Cow<'static, str>,
    actor: EventActor,
    task_id: Option<TaskId>,
    data: Object,
}

impl NewEvent {
    /// Creates an event about something that `actor` did.
    pub fn new(actor: impl Into<EventActor>, what: EventKind) -> Self {
        let (kind, data) = what.write();
        Self {
            kind,
            actor: actor.into(),
            task_id: None,
            data,
        }
    }

    /// Sets the task of the event.
    #[must_use]
    pub fn task(mut self, id: &TaskId) -> Self {
        self.task_id = Some(id.clone());
        self
    }

    /// Records the process that hosts the run.
    #[must_use]
    pub fn hosted_by(mut self, host: &ProcessId) -> Self {
        self.data.insert("host".to_owned(), json!(host));
        self
    }

    /// Returns the name of its kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the actor.
    pub fn actor(&self) -> &EventActor {
        &self.actor
    }

    /// Returns the task that the event concerns.
    pub fn task_id(&self) -> Option<&TaskId> {
        self.task_id.as_ref()
    }

    /// Parses the kind and the payload of the event.
    pub fn payload(&self) -> EventKind {
        EventKind::parse(&self.kind, &self.data)
    }

    /// Returns the payload that is written as `data`.
    pub fn data(&self) -> &Object {
        &self.data
    }

    /// Assigns a position in a journal. Secrets are redacted here, before the event can be written.
    pub fn placed(self, seq: u64, id: String, ts: Time, team: String) -> Event {
        let mut data = Value::Object(self.data);
        redact_json(&mut data);
        Event {
            seq,
            id,
            ts,
            team,
            kind: self.kind.into_owned(),
            actor: self.actor,
            task_id: self.task_id,
            more: false,
            data: match data {
                Value::Object(data) => data,
                // Redacting an object yields an object.
                _ => Object::new(),
            },
        }
    }
}

/// The largest position: JSON numbers are exact only up to this in other languages. No team reaches it.
const LARGEST: u64 = (1 << 53) - 1;

fn position<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let seq = u64::deserialize(from)?;
    if seq > LARGEST {
        let error = format!("{seq} is not a position in a journal");
        return Err(serde::de::Error::custom(error));
    }
    Ok(seq)
}
