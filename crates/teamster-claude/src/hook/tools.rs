//! What agents do with tools: they work, spawn others, send messages, take tasks.

use serde_json::Value;

use super::events::Hook;
use crate::native::{Note, structured};
use crate::state::{Op, Row};
use crate::words::{LONGEST_TEXT, line};

impl Hook<'_> {
    pub(super) fn tool_use(&mut self) -> Option<String> {
        let is_done = self.event == "PostToolUse";
        let mut ops = Vec::new();
        match self.payload.text("tool_name").unwrap_or_default() {
            "Agent" | "Task" => ops.extend(self.spawns(is_done)),
            "SendMessage" if is_done => {
                ops.extend(self.acts());
                ops.extend(self.says());
            }
            "TaskCreate" | "TaskUpdate" if is_done => {
                ops.extend(self.takes_a_task().or_else(|| self.acts()));
                ops.extend(self.progress(None, None));
                // Whoever gets a task is told by the client, with no tool that would tell us.
                let assigned = |note: &Note| note.kind.as_deref() == Some("task_assignment");
                ops.extend(self.notes(assigned));
            }
            _ => ops.extend(self.acts()),
        }
        self.change(ops);
        None
    }

    /// Whoever uses a tool works.
    fn acts(&self) -> Option<Op> {
        self.actor().has_row().then(|| Op::Act {
            name: self.actor().name.clone(),
            task: None,
            task_id: None,
        })
    }

    /// Somebody is spawned. The payload is about the spawned one, whoever spawns it.
    fn spawns(&self, is_done: bool) -> Vec<Op> {
        let response = |key: &str| self.payload.inner("tool_response", key);
        let task = self.payload.inner("tool_input", "prompt");
        let task = task.map(str::to_owned);
        let name = self
            .payload
            .inner("tool_input", "name")
            .or(response("name"));
        if is_done
            && response("status") == Some("teammate_spawned")
            && let Some(name) = name
        {
            let role = response("agent_type").or(self.payload.inner("tool_input", "subagent_type"));
            let row = Row {
                name: name.to_owned(),
                role: role.unwrap_or("agent").to_owned(),
                model: self.actor().model,
                task,
                task_id: None,
            };
            let mut ops = vec![self.ensure(), Op::Join(row)];
            // A teammate in a pane gets its prompt as a message, and takes it out of its inbox at once.
            let prompt = self.payload.inner("tool_input", "prompt");
            ops.extend(self.notes(|note| note.to == name && Some(note.content.as_str()) == prompt));
            return ops;
        }
        // A plain subagent is known by its id, which only the answer tells.
        let id = response("agentId").or(response("agent_id"));
        [name, id]
            .into_iter()
            .flatten()
            .map(|name| Op::Act {
                name: name.to_owned(),
                task: task.clone(),
                task_id: None,
            })
            .collect()
    }

    fn says(&self) -> Option<Op> {
        let input = |key: &str| self.payload.inner("tool_input", key);
        let routing = |key: &str| {
            let routing = self.payload.value("tool_response", "routing")?;
            routing.get(key)?.as_str()
        };
        let content = match self.payload.value("tool_input", "message") {
            Some(Value::String(text)) => Some(text.clone()),
            Some(message @ Value::Object(_)) => structured(message),
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

    /// A teammate that says it has begun a task.
    fn takes_a_task(&self) -> Option<Op> {
        let begins = self.payload.inner("tool_input", "status") == Some("in_progress");
        if !begins || !self.actor().has_row() {
            return None;
        }
        let id = self.payload.inner_id("tool_input", "taskId")?;
        let tasks = self.tasks();
        let subject = tasks.as_ref().and_then(|tasks| tasks.subject(&id));
        Some(Op::Act {
            name: self.actor().name.clone(),
            task: subject.map(str::to_owned),
            task_id: Some(line(&id, LONGEST_TEXT)),
        })
    }
}
