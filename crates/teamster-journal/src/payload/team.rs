//! Payloads about the team itself: members, signals, messages, hooks, and leftovers of a team.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use teamster_types::json::Object;

use super::list;

/// The payload of `team.created`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TeamCreated {
    /// The names of the first members.
    pub members: Vec<String>,
    /// The folder that the team works on; `null` when it was created outside any project.
    pub project: Option<String>,
}

/// The payload of `member.joined`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemberJoined {
    /// The worker.
    pub name: String,
    /// The client that it drives.
    pub provider: Option<String>,
    /// Its capabilities, if they differ from the provider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
}

/// The payload of `member.left`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemberLeft {
    /// The worker.
    pub name: String,
}

/// The payload of `signal.shutdown` and `signal.drain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SignalSent {
    /// The worker that receives the signal.
    pub worker: String,
    /// The id of the request, for the reply.
    pub request_id: String,
    /// The reason for the request.
    pub reason: String,
}

/// The payload of `message.sent`. The sender is the event's actor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageSent {
    /// The type of the message: `message`, `ready`, `shutdown_ack` and others.
    pub message_type: String,
    /// The text.
    pub content: String,
    /// Other fields of the message.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub extra: Object,
    /// The recipient: a worker, `lead`, or `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How many recipients got it, if it was sent to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<usize>,
    /// The ids of the first 64 copies, if it was sent to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_ids: Option<Vec<String>>,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Recipients that did not get it, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
    /// Whether the event was reconstructed from the mailbox after a crash.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
}

impl MessageSent {
    /// Returns whether this is a person's or agent's message to the lead rather than a program's report.
    pub fn is_to_lead(&self) -> bool {
        self.message_type == "message" && self.to.as_deref() == Some("lead")
    }
}

/// The payload of `message.delivered` and `message.acked`. The reader is the event's actor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CursorMoved {
    /// The mailbox.
    #[serde(rename = "box")]
    pub mailbox: String,
    /// The previous byte position of the reader.
    pub from: u64,
    /// The new byte position of the reader.
    pub up_to: u64,
    /// How many messages lie between them.
    pub count: usize,
}

/// The payload of `message.malformed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MalformedMessage {
    /// The mailbox.
    #[serde(rename = "box")]
    pub mailbox: String,
    /// The byte position of the line.
    pub at: u64,
    /// What is wrong with it.
    pub error: String,
}

/// The payload of `hook.received`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HookReceived {
    /// The hook: `SubagentStart`, `Stop` and others.
    pub event: String,
    /// The session of the client.
    pub session: String,
    /// The agent that the hook is about.
    pub name: String,
    /// An agent that does not fit into the state file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_shown: Option<String>,
    /// Why that agent is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The payload of `zombie.found` and `zombie.reaped`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ZombieSeen {
    /// What it is: `team`, `process`, `worktree` and others.
    pub kind: String,
    /// Its name, id or path.
    pub name: String,
    /// Why it is considered a leftover.
    #[serde(deserialize_with = "list")]
    pub evidence: Vec<String>,
}
