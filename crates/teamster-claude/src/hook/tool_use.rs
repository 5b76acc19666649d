//! Handles `PreToolUse` and `PostToolUse`: what an agent does with a tool, and what that implies for other agents.

use serde_json::Value;
use teamster_types::text::shown_line;

use super::HookCall;
use super::payload::ActorKind;
use crate::native::structured_text;
use crate::state::{AnnouncedAgent, LONGEST_TEXT, Model, Op, TeammateRow};

impl HookCall<'_> {
    pub(super) fn tool_use(&mut self) -> Option<String> {
        let is_done = self.event == "PostToolUse";
        let mut ops = Vec::new();
        match self.payload.text("tool_name").unwrap_or_default() {
            "Agent" | "Task" if is_done => ops.extend(self.spawn_ops()),
            "Agent" | "Task" => ops.extend(self.announcement_op()),
            "SendMessage" if is_done => {
                ops.extend(self.activity_op());
                ops.extend(self.message_op());
            }
            "TaskCreate" | "TaskUpdate" if is_done => {
                ops.extend(self.started_task_op().or_else(|| self.activity_op()));
                ops.extend(self.progress(None, None));
            }
            _ => ops.extend(self.activity_op()),
        }
        self.change(ops);
        None
    }

    /// Marks an agent that uses a tool as working, with the task that it has started.
    pub(super) fn activity_op(&self) -> Option<Op> {
        let (task, task_id) = self.held_task();
        self.actor().has_row().then(|| Op::Act {
            name: self.actor().name.clone(),
            task,
            task_id,
            wakes: self.starts_turn(),
        })
    }

    /// Returns whether this action starts a new turn if the last one is over. An agent in a pane does not report the
    /// start of a turn; all others do.
    fn starts_turn(&self) -> bool {
        self.actor().kind == ActorKind::Pane
    }

    /// Announces the agent that a tool call requests. Its row is created when it starts, with the name that the client
    /// gives it.
    fn announcement_op(&self) -> Option<Op> {
        let input = |key: &str| self.payload.inner("tool_input", key);
        Some(Op::Announce(AnnouncedAgent {
            tool_use: self.payload.text("tool_use_id")?.to_owned(),
            prompt_id: self.payload.text("prompt_id").map(str::to_owned),
            name: input("name").or(input("description"))?.to_owned(),
            role: input("subagent_type")
                .unwrap_or("general-purpose")
                .to_owned(),
            model: input("model").and_then(Model::of),
            task: input("prompt").map(str::to_owned),
        }))
    }

    /// Handles the response to a tool call that requested an agent: a teammate, or an agent that only has an id.
    fn spawn_ops(&self) -> Vec<Op> {
        let input = |key: &str| self.payload.inner("tool_input", key);
        let response = |key: &str| self.payload.inner("tool_response", key);
        let tool_use = self.payload.text("tool_use_id").unwrap_or_default();
        let task = input("prompt").map(str::to_owned);
        // If the name is taken, the client chooses another one.
        let named = response("name")
            .or_else(|| response("teammate_id")?.split('@').next())
            .or(input("name"));
        if response("status") == Some("teammate_spawned")
            && let Some(name) = named
        {
            let role = response("agent_type").or(input("subagent_type"));
            let row = TeammateRow {
                name: name.to_owned(),
                role: role.unwrap_or("agent").to_owned(),
                model: self.actor().model,
                task,
                task_id: None,
            };
            let over = Op::Spawned {
                tool_use: tool_use.to_owned(),
                id: None,
                name: None,
                model: None,
                task: None,
            };
            let mut ops = vec![self.begin_op(), Op::Join(row), over];
            ops.extend(self.progress(None, None));
            return ops;
        }
        let resolved = response("resolvedModel").or(response("model"));
        vec![Op::Spawned {
            tool_use: tool_use.to_owned(),
            id: response("agentId")
                .or(response("agent_id"))
                .map(str::to_owned),
            name: input("name").map(str::to_owned),
            model: resolved.and_then(Model::of),
            task,
        }]
    }

    /// Shows a message, if it was delivered.
    fn message_op(&self) -> Option<Op> {
        let success = self.payload.value("tool_response", "success");
        if success == Some(&Value::Bool(false)) {
            return None;
        }
        let input = |key: &str| self.payload.inner("tool_input", key);
        let routing = |key: &str| {
            let routing = self.payload.value("tool_response", "routing")?;
            routing.get(key)?.as_str()
        };
        let content = match self.payload.value("tool_input", "message") {
            Some(Value::String(text)) => Some(text.clone()),
            Some(message @ Value::Object(_)) => structured_text(message),
            _ => input("content").or(routing("content")).map(str::to_owned),
        }?;
        let actor = self.actor();
        let from = if actor.has_row() {
            &actor.name
        } else {
            routing("sender").unwrap_or_else(|| actor.lead_name())
        };
        let to = input("to")
            .or(input("recipient"))
            .or(routing("target").map(|target| target.trim_start_matches('@')));
        Some(Op::Message {
            from: from.to_owned(),
            to: to.unwrap_or_default().to_owned(),
            content,
            timestamp: None,
        })
    }

    /// Records the task that a teammate reports as started.
    fn started_task_op(&self) -> Option<Op> {
        let begins = self.payload.inner("tool_input", "status") == Some("in_progress");
        if !begins || !self.actor().has_row() {
            return None;
        }
        let id = self.payload.inner_id("tool_input", "taskId")?;
        let subject = self.tasks().and_then(|tasks| tasks.subject(&id));
        Some(Op::Act {
            name: self.actor().name.clone(),
            task: subject.map(str::to_owned),
            task_id: Some(shown_line(&id, LONGEST_TEXT)),
            wakes: self.starts_turn(),
        })
    }
}
