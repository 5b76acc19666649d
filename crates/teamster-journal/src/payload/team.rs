//! Payloads about the team itself: members, signals, messages, hooks, and what outlived a team.

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
    /// The folder that the team works on; `null` when it was made outside of any.
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
    /// What it can do, where that is not what its provider can do.
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
    /// The worker who is asked.
    pub worker: String,
    /// Names the request, for the answer.
    pub request_id: String,
    /// Why it is asked, in words.
    pub reason: String,
}

/// The payload of `message.sent`. The sender is the event's actor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageSent {
    /// The type of the message: `message`, `ready`, `shutdown_ack` and others.
    pub message_type: String,
    /// What it says.
    pub content: String,
    /// Other fields of the message.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub extra: Object,
    /// The worker it is for, `lead`, or `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How many recipients got it, when it was for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<usize>,
    /// The ids of the first 64 copies, when it was for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_ids: Option<Vec<String>>,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Recipients who did not get it, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
    /// Whether the event was written again from the mailbox after a crash.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
}

impl MessageSent {
    /// Returns whether these are words for whoever leads the team, and no report of a program.
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
    /// The byte position where the reader was.
    pub from: u64,
    /// The byte position where the reader is now.
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
    /// The agent that it is about.
    pub name: String,
    /// An agent that the state file has no room for.
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
    /// Why it is taken for left behind.
    #[serde(deserialize_with = "list")]
    pub evidence: Vec<String>,
}
