//! Messages between the lead and its workers, as lines of an inbox or outbox.

use serde_json::{Value, json};

use crate::json::{self, Object};
use crate::{Time, WorkerName};

/// The name of the lead in messages.
const LEAD: &str = "lead";

/// The longest content, in bytes.
pub const CONTENT_LIMIT: usize = 64 * 1024;

/// The key of a `permission_answer` that holds the position of the event with the request. It distinguishes requests
/// with the same name.
pub const REQUEST_POSITION: &str = "requestSeq";

/// The key of a message that names another message which was not delivered to its recipient.
pub const UNDELIVERED: &str = "undelivered";

/// The mailbox of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mailbox {
    /// To a worker, from the lead or from peers.
    Inbox(WorkerName),
    /// From a worker, to the lead.
    Outbox(WorkerName),
    /// To the lead, from a person or from teamster itself.
    Lead,
}

impl Mailbox {
    /// Returns the folder of the mailbox.
    pub fn folder(&self) -> &'static str {
        match self {
            Self::Inbox(_) | Self::Lead => "inbox",
            Self::Outbox(_) => "outbox",
        }
    }

    /// Returns the name of the mailbox's owner: a worker, or the lead.
    pub fn owner(&self) -> &str {
        match self {
            Self::Inbox(worker) | Self::Outbox(worker) => worker.as_str(),
            Self::Lead => LEAD,
        }
    }

    /// Returns its name in the journal and in errors, such as `inbox/worker-1`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.folder(), self.owner())
    }
}

/// One message. Unknown keys and types are kept and shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    raw: Object,
}

impl Message {
    /// Returns a message of the type `kind`.
    pub fn new(id: &str, kind: &str, from: &str, to: &str, content: &str, now: Time) -> Self {
        let mut raw = Object::new();
        raw.insert("id".into(), json!(id));
        raw.insert("type".into(), json!(kind));
        raw.insert("from".into(), json!(from));
        raw.insert("to".into(), json!(to));
        raw.insert("content".into(), json!(content));
        raw.insert("timestamp".into(), json!(now));
        Self { raw }
    }

    /// Parses one line, without its line end. The error says what is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let raw = json::parse_object(line)?;
        Ok(Self { raw })
    }

    /// Adds keys that its type needs, such as `taskId` or `requestId`.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.raw.insert(key.to_owned(), value);
        self
    }

    /// Returns the line, with its line end.
    pub fn to_line(&self) -> Vec<u8> {
        json::to_line(&self.raw)
    }

    /// Returns the whole object.
    pub fn as_object(&self) -> &Object {
        &self.raw
    }

    /// Returns the string under a key; empty when there is none.
    pub fn text(&self, key: &str) -> &str {
        self.raw
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns the id of the message; two with the same id are the same message.
    pub fn id(&self) -> &str {
        self.text("id")
    }

    /// Returns the type of the message: `message`, `context`, `task_complete` and others.
    pub fn kind(&self) -> &str {
        match self.text("type") {
            "" => "message",
            kind => kind,
        }
    }

    /// Returns the sender.
    pub fn from(&self) -> &str {
        self.text("from")
    }

    /// Returns the recipient.
    pub fn to(&self) -> &str {
        self.text("to")
    }

    /// Returns its text: `content`, or `text` as in Claude Code's own entries, or the corresponding key of an outbox
    /// line, such as the `summary` of a task or an `error`.
    pub fn content(&self) -> &str {
        let keys = ["content", "text", "summary", "error", "reason"];
        let mut texts = keys.into_iter().map(|key| self.text(key));
        texts.find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// Adds the sender and the recipient if the line leaves them to its mailbox.
    #[must_use]
    pub fn filed_in(mut self, mailbox: &Mailbox) -> Self {
        let (from, to) = match mailbox {
            Mailbox::Outbox(worker) => (Some(worker.as_str()), LEAD),
            Mailbox::Inbox(worker) => (None, worker.as_str()),
            Mailbox::Lead => (None, LEAD),
        };
        for (key, value) in [("from", from), ("to", Some(to))] {
            if let (true, Some(value)) = (self.text(key).is_empty(), value) {
                self.raw.insert(key.to_owned(), json!(value));
            }
        }
        self
    }

    /// Returns when it was sent.
    pub fn timestamp(&self) -> Option<Time> {
        self.text("timestamp").parse().ok()
    }

    /// Returns the journal position it was sent at.
    pub fn seq(&self) -> Option<u64> {
        self.raw.get("seq").and_then(Value::as_u64)
    }
}
