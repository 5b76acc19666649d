//! Answers that the client accepts. For some events it discards the whole answer when it has `hookSpecificOutput`.

use serde_json::json;

use super::actor::Actor;
use crate::state::Status;

/// The answer that lets the agent go on and says nothing else.
pub(super) fn after_bad_input(event: &str) -> Option<String> {
    matches!(event, "SubagentStart" | "SubagentStop").then(go_on)
}

pub(super) fn go_on() -> String {
    r#"{"continue":true}"#.to_owned()
}

/// Nothing to say, where the client expects an object.
pub(super) fn empty() -> String {
    "{}".to_owned()
}

/// A line for the person at the client.
pub(super) fn message(text: &str) -> String {
    json!({ "systemMessage": text }).to_string()
}

/// Something that the agent gets to know.
pub(super) fn context(event: &str, text: &str) -> String {
    json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
        .to_string()
}

pub(super) fn started(actor: &Actor) -> String {
    json!({
        "systemMessage": format!("Subagent {} spawned", actor.name),
        "hookSpecificOutput": {
            "hookEventName": "SubagentStart",
            "agentName": actor.name,
            "agentType": actor.role,
            "teamName": actor.team_name,
        },
    })
    .to_string()
}

pub(super) fn stopped(actor: &Actor, status: Status) -> String {
    let status = status.as_str();
    json!({
        "continue": true,
        "systemMessage": format!("Subagent {} stopped ({status})", actor.name),
        "hookSpecificOutput": {
            "hookEventName": "SubagentStop",
            "agentName": actor.name,
            "status": status,
        },
    })
    .to_string()
}
