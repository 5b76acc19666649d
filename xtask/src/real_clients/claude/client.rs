//! The files that a session of the client left, as the client wrote them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::super::session_files::{ClientTask, HookCall, Members, members, names, tasks};
use crate::product::{list, text};

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    Text(String),
    /// The `type` of a message that a program wrote.
    Kind(String),
}

/// Everything about the client that a comparison needs.
#[derive(Debug, Default)]
pub(super) struct ClaudeSession {
    /// The hook calls, in order.
    pub(super) payloads: Vec<HookCall>,
    /// The team's name, which is empty if no registry was seen.
    pub(super) team: String,
    /// All members except the lead that ever were in the registry.
    pub(super) members: Members,
    /// All messages that ever were in an inbox: sender, receiver and content.
    pub(super) messages: BTreeSet<(String, String, Content)>,
    /// The tasks at the end.
    pub(super) tasks: BTreeMap<String, ClientTask>,
}

impl ClaudeSession {
    pub(super) fn read(session: &Path) -> Result<Self> {
        let mut client = Self::default();
        // File names begin with the time of the call.
        let folder = session.join("hooks");
        for name in names(&folder) {
            let call = HookCall::read(&folder, &name);
            let call = call.with_context(|| format!("{name} is no call of a hook"))?;
            client.payloads.push(call);
        }
        ensure!(!client.payloads.is_empty(), "no hook was recorded");
        let history = std::fs::read_to_string(session.join("files.jsonl"))
            .context("the history of files is missing")?;
        for line in history.lines() {
            // The recorder is stopped by a signal, so its last line may be incomplete.
            if let Ok(change) = serde_json::from_str::<Value>(line) {
                client.learn(&change);
            }
        }
        client.learn_calls();
        client.tasks = match client.team.as_str() {
            "" => BTreeMap::new(),
            team => tasks(&session.join("tasks.before_exit").join(team)),
        };
        Ok(client)
    }

    /// Returns the session of the lead, which began first.
    pub(super) fn lead_session(&self) -> &str {
        let first = self.of("SessionStart").next();
        first.map_or("", |payload| payload.text("session_id"))
    }

    /// Returns the calls for one event.
    pub(super) fn of<'a>(&'a self, event: &'a str) -> impl Iterator<Item = &'a HookCall> {
        let all = self.payloads.iter();
        all.filter(move |payload| payload.event == event)
    }

    /// Returns the teammate that a call is about, if it is about one.
    pub(super) fn teammate(&self, payload: &HookCall) -> Option<&str> {
        payload.teammate(&self.members)
    }

    /// Applies one recorded state of one file. The client rewrites in place, so the file may be incomplete.
    fn learn(&mut self, change: &Value) {
        let path: Vec<&str> = text(&change["path"]).split('/').collect();
        let Ok(content) = serde_json::from_str::<Value>(text(&change["content"])) else {
            return;
        };
        match path.as_slice() {
            ["teams", _, "config.json"] => {
                text(&content["name"]).clone_into(&mut self.team);
                self.members.extend(members(&content));
            }
            ["teams", _, "inboxes", file] => {
                // The client may write a temporary file beside an inbox before it renames.
                let Some(owner) = file.strip_suffix(".json") else {
                    return;
                };
                for message in list(&content) {
                    let content = content_of(text(&message["text"]));
                    self.add_message(text(&message["from"]), owner, content);
                }
            }
            _ => {}
        }
    }

    /// Adds the messages that were sent with the tool: the recorder polls the inboxes only every 20 ms.
    fn learn_calls(&mut self) {
        let calls = self.of("PostToolUse");
        let calls = calls.filter(|payload| payload.text("tool_name") == "SendMessage");
        let sent = calls.map(|payload| {
            let input = &payload.fields["tool_input"];
            let content = match &input["message"] {
                Value::String(text) => Content::Text(text.clone()),
                message => kind(message),
            };
            let from = self.teammate(payload).unwrap_or("team-lead");
            (from.to_owned(), text(&input["to"]).to_owned(), content)
        });
        for (from, to, content) in sent.collect::<Vec<_>>() {
            self.add_message(&from, &to, content);
        }
    }

    fn add_message(&mut self, from: &str, to: &str, content: Content) {
        // Idleness is shown by the roster.
        if content != Content::Kind("idle_notification".to_owned()) {
            self.messages
                .insert((from.to_owned(), to.to_owned(), content));
        }
    }
}

fn content_of(text: &str) -> Content {
    match serde_json::from_str::<Value>(text) {
        Ok(message @ Value::Object(_)) => kind(&message),
        _ => Content::Text(text.to_owned()),
    }
}

/// Returns the kind of a structured message. A response to a shutdown request is in the inbox by its meaning.
fn kind(message: &Value) -> Content {
    let kind = match (text(&message["type"]), message["approve"].as_bool()) {
        ("shutdown_response", Some(true)) => "shutdown_approved",
        ("shutdown_response", Some(false)) => "shutdown_rejected",
        (kind, _) => kind,
    };
    Content::Kind(kind.to_owned())
}
