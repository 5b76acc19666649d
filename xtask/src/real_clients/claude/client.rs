//! The files that a session of the client left, as the client wrote them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::product::{files, list, text};

/// The tools that hooks are called for.
const TOOLS: [&str; 2] = ["Agent", "SendMessage"];

/// One call of a hook, as the client made it.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) event: String,
    pub(super) fields: Value,
}

impl Payload {
    pub(super) fn text(&self, key: &str) -> &str {
        text(&self.fields[key])
    }

    /// Returns whether a hook of teamster is installed for it.
    pub(super) fn is_for_us(&self) -> bool {
        match self.event.as_str() {
            "PreToolUse" | "PostToolUse" => {
                let tool = self.text("tool_name");
                TOOLS.contains(&tool) || tool.starts_with("Task")
            }
            "SubagentStart" | "SubagentStop" | "TeammateIdle" | "TaskCreated" | "TaskCompleted"
            | "Stop" | "StopFailure" | "SessionStart" | "SessionEnd" | "Notification" => true,
            _ => false,
        }
    }
}

/// A teammate in the client's registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) role: String,
    pub(super) model: String,
    pub(super) is_pane: bool,
}

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
    pub(super) payloads: Vec<Payload>,
    /// The team's name, which is empty if no registry was seen.
    pub(super) team: String,
    /// All members except the lead that ever were in the registry.
    pub(super) members: BTreeMap<String, Member>,
    /// All messages that ever were in an inbox: sender, receiver and content.
    pub(super) messages: BTreeSet<(String, String, Content)>,
    /// The tasks at the end.
    pub(super) tasks: BTreeMap<String, Value>,
}

impl ClaudeSession {
    pub(super) fn read(session: &Path) -> Result<Self> {
        let mut client = Self::default();
        client.read_payloads(&session.join("hooks"))?;
        let history = std::fs::read_to_string(session.join("files.jsonl"))
            .context("the history of files is missing")?;
        for line in history.lines() {
            // The recorder is stopped by a signal, so its last line may be incomplete.
            if let Ok(change) = serde_json::from_str::<Value>(line) {
                client.learn(&change);
            }
        }
        client.learn_calls();
        client.read_tasks(&session.join("tasks.before_exit"))?;
        Ok(client)
    }

    /// Returns the session of the lead, which began first.
    pub(super) fn lead_session(&self) -> &str {
        let first = self.of("SessionStart").next();
        first.map_or("", |payload| payload.text("session_id"))
    }

    /// Returns the calls for one event.
    pub(super) fn of<'a>(&'a self, event: &'a str) -> impl Iterator<Item = &'a Payload> {
        let all = self.payloads.iter();
        all.filter(move |payload| payload.event == event)
    }

    /// Returns the teammate that a call is about, if it is about one.
    pub(super) fn teammate(&self, payload: &Payload) -> Option<String> {
        let known = |name: &str| self.members.contains_key(name).then(|| name.to_owned());
        let session = payload.text("session_id");
        if let Some(name) = known(payload.text("teammate_name")) {
            return Some(name);
        }
        if session == self.lead_session() {
            // In the lead's process the type of an agent is its name.
            let id = payload.fields["agent_id"].as_str();
            return id.and_then(|_| known(payload.text("agent_type")));
        }
        // A pane has its own session, and reports its name when it is idle or done.
        let named = self.payloads.iter().find_map(|other| {
            let is_same = other.text("session_id") == session;
            is_same.then(|| known(other.text("teammate_name")))?
        });
        named.or_else(|| {
            let mut panes = self.members.iter().filter(|(_, member)| member.is_pane);
            match (panes.next(), panes.next()) {
                (Some((only, _)), None) => Some(only.clone()),
                _ => None,
            }
        })
    }

    fn read_payloads(&mut self, folder: &Path) -> Result<()> {
        // File names begin with the time of the call.
        for name in files(folder, &[""]).context("no hook was recorded")? {
            let mut recorded: Value = serde_json::from_slice(&std::fs::read(folder.join(name))?)?;
            let event = text(&recorded["event"]).to_owned();
            let fields = recorded["stdin"].take();
            self.payloads.push(Payload { event, fields });
        }
        Ok(())
    }

    /// Applies one recorded state of one file. The client rewrites in place, so the file may be incomplete.
    fn learn(&mut self, change: &Value) {
        let path: Vec<&str> = text(&change["path"]).split('/').collect();
        let Ok(content) = serde_json::from_str::<Value>(text(&change["content"])) else {
            return;
        };
        match path.as_slice() {
            ["teams", _, "config.json"] => self.learn_registry(&content),
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

    fn learn_registry(&mut self, config: &Value) {
        text(&config["name"]).clone_into(&mut self.team);
        let all = list(&config["members"]);
        for member in all.filter(|member| member["agentId"] != config["leadAgentId"]) {
            let is_pane = text(&member["tmuxPaneId"]).starts_with('%');
            let known = Member {
                role: text(&member["agentType"]).to_owned(),
                model: text(&member["model"]).to_owned(),
                is_pane: is_pane || member["backendType"] == "tmux",
            };
            self.members.insert(text(&member["name"]).to_owned(), known);
        }
    }

    /// Adds the messages that were sent with the tool: the recorder polls the inboxes only every 20 ms.
    fn learn_calls(&mut self) {
        let mut messages = Vec::new();
        for payload in self.of("PostToolUse") {
            if payload.text("tool_name") != "SendMessage" {
                continue;
            }
            let from = self.teammate(payload);
            let input = &payload.fields["tool_input"];
            let content = match &input["message"] {
                Value::String(text) => Content::Text(text.clone()),
                message => kind(message),
            };
            let from = from.unwrap_or_else(|| "team-lead".to_owned());
            messages.push((from, text(&input["to"]).to_owned(), content));
        }
        for (from, to, content) in messages {
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

    fn read_tasks(&mut self, folder: &Path) -> Result<()> {
        let folder = folder.join(&self.team);
        if self.team.is_empty() || !folder.is_dir() {
            return Ok(());
        }
        for name in files(&folder, &[""])? {
            if let Some(id) = name.strip_suffix(".json")
                && !id.starts_with('.')
            {
                let task = serde_json::from_slice(&std::fs::read(folder.join(&name))?)?;
                self.tasks.insert(id.to_owned(), task);
            }
        }
        Ok(())
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
