//! The files of Claude Code in a session of the lab: its registry and tasks, and the hook calls that the lab recorded.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::product::{self, list, text};

/// The state that teamster shows to viewers, below the project of a session.
pub(super) const STATE: &str = ".bkit/agent-state.json";

/// Returns the JSON in a file, or `None` when it does not exist or is incomplete.
pub(super) fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Returns the sorted names in a folder except hidden ones, which are not complete yet.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names = product::names(folder);
    names.retain(|name| !name.starts_with('.'));
    names
}

/// A hook call that the lab recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct HookCall {
    pub(super) at: Duration,
    pub(super) event: String,
    pub(super) fields: Value,
    /// The pane of tmux that the client runs in.
    pub(super) pane: String,
}

impl HookCall {
    /// Reads a record, whose name begins with the time of the call.
    pub(super) fn read(folder: &Path, name: &str) -> Option<Self> {
        let mut recorded = read_json(&folder.join(name))?;
        let millis = name.split('.').next().and_then(|time| time.parse().ok());
        Some(Self {
            at: Duration::from_millis(millis.unwrap_or(0)),
            event: text(&recorded["event"]).to_owned(),
            pane: text(&recorded["env"]["TMUX_PANE"]).to_owned(),
            fields: recorded["stdin"].take(),
        })
    }

    pub(super) fn text(&self, key: &str) -> &str {
        text(&self.fields[key])
    }

    /// Returns the teammate in whose pane it was made.
    pub(super) fn pane_of<'a>(&self, members: &'a Members) -> Option<&'a str> {
        let mut panes = members
            .iter()
            .filter(|(_, member)| member.pane.starts_with('%'));
        let pane = panes.find(|(_, member)| member.pane == self.pane);
        pane.map(|(name, _)| name.as_str())
    }

    /// Returns the teammate that it is about: the named one, the one of the pane, or an agent of the lead's process,
    /// whose type is its name.
    pub(super) fn teammate<'a>(&self, members: &'a Members) -> Option<&'a str> {
        let known = |key: &str| {
            let member = members.get_key_value(self.text(key));
            member.map(|(name, _)| name.as_str())
        };
        let is_agent = self.fields["agent_id"].is_string();
        known("teammate_name")
            .or_else(|| self.pane_of(members))
            .or_else(|| is_agent.then(|| known("agent_type"))?)
    }

    /// Returns whether a hook of teamster is installed for it.
    pub(super) fn is_for_us(&self) -> bool {
        match self.event.as_str() {
            "PreToolUse" | "PostToolUse" => {
                let tool = self.text("tool_name");
                ["Agent", "SendMessage"].contains(&tool) || tool.starts_with("Task")
            }
            "SubagentStart" | "SubagentStop" | "TeammateIdle" | "TaskCreated" | "TaskCompleted"
            | "Stop" | "StopFailure" | "SessionStart" | "SessionEnd" | "Notification" => true,
            _ => false,
        }
    }
}

/// The members of a team by name, without the lead.
pub(super) type Members = BTreeMap<String, Member>;

/// A teammate in the client's registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) role: String,
    pub(super) model: String,
    pub(super) prompt: String,
    /// The pane of tmux, in the client's notation.
    pub(super) pane: String,
    pub(super) is_pane: bool,
}

/// Returns the members of a registry except the lead, by name.
pub(super) fn members(registry: &Value) -> Members {
    let others = list(&registry["members"]).filter(|member| {
        member["agentId"] != registry["leadAgentId"] && member["agentType"] != "team-lead"
    });
    let members = others.map(|member| {
        let of = |key: &str| text(&member[key]).to_owned();
        let pane = of("tmuxPaneId");
        let known = Member {
            role: of("agentType"),
            model: of("model"),
            prompt: of("prompt"),
            is_pane: pane.starts_with('%') || member["backendType"] == "tmux",
            pane,
        };
        (of("name"), known)
    });
    members.collect()
}

/// A task of the client's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientTask {
    pub(super) status: String,
    pub(super) owner: String,
    pub(super) subject: String,
}

/// Returns the tasks in a folder of the client, by id.
pub(super) fn tasks(folder: &Path) -> BTreeMap<String, ClientTask> {
    let tasks = names(folder).into_iter().filter_map(|name| {
        let id = name.strip_suffix(".json")?;
        let task = read_json(&folder.join(&name))?;
        let of = |key: &str| text(&task[key]).to_owned();
        let known = ClientTask {
            status: of("status"),
            owner: of("owner"),
            subject: of("subject"),
        };
        (task["metadata"]["_internal"] != true).then(|| (id.to_owned(), known))
    });
    tasks.collect()
}

/// Returns the progress that must be shown for these tasks.
pub(super) fn progress(tasks: &BTreeMap<String, ClientTask>) -> Value {
    let with = |status: &str| {
        let tasks = tasks.values();
        tasks.filter(|task| task.status == status).count()
    };
    json!({
        "totalTasks": tasks.len(), "completedTasks": with("completed"),
        "inProgressTasks": with("in_progress"), "failedTasks": 0, "pendingTasks": with("pending"),
    })
}
