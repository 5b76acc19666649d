//! Requests of Codex for approval: each is decided by the rules of the job, or by a person.
//!
//! Codex asks before a command or a change of files that its sandbox or its policy does not allow, and waits for the reply
//! without a limit. A change is asked about by the id of its item, so its files are remembered when the item begins.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::app_server::line;
use crate::driver::{Job, LineEffects, PermissionReply};
use crate::event::{AgentEvent, PermissionDecision};
use crate::permission::{Permissions, Rule, ToolRequest};
use crate::text::{one_line, text};

/// The most requests of the server that wait for a person, and the most file changes that are remembered until they are made.
const MOST_WAITING: usize = 100;

/// Returns when Codex has to ask. It may do everything inside its sandbox, so it has to ask only where a person wants to be
/// asked.
pub(super) fn approval_policy(permissions: &Permissions) -> &'static str {
    match (permissions.shell, permissions.other) {
        (Rule::Ask, _) => "untrusted",
        (_, Rule::Ask) => "on-request",
        _ => "never",
    }
}

/// Decides requests of Codex, and remembers those that a person has to decide.
#[derive(Debug)]
pub(super) struct Approvals {
    permissions: Permissions,
    worktree: PathBuf,
    /// The requests that wait for a person: the id that people see, and the id that Codex uses.
    waiting: HashMap<String, Value>,
    /// The files of each change, by item.
    changes: HashMap<String, Vec<PathBuf>>,
}

impl Approvals {
    /// Creates the state for a job without any request yet.
    pub(super) fn new(job: &Job<'_>) -> Self {
        Self {
            permissions: *job.permissions,
            worktree: job.worktree.to_owned(),
            waiting: HashMap::new(),
            changes: HashMap::new(),
        }
    }

    /// Remembers the files of a change until Codex asks about it.
    pub(super) fn note_change(&mut self, item: &str, paths: Vec<PathBuf>) {
        if self.changes.len() < MOST_WAITING {
            self.changes.insert(item.to_owned(), paths);
        }
    }

    /// Decides a request of Codex. Every request gets a reply, because Codex waits for it forever.
    pub(super) fn decide(&mut self, id: &Value, method: &str, params: &Value) -> LineEffects {
        let item = text(params, "itemId").unwrap_or_default();
        let (tool, detail, wanted) = match method {
            "item/commandExecution/requestApproval" => {
                let command = text(params, "command").or_else(|| text(params, "reason"));
                // Unless a person is asked about every command, only a command that leaves the sandbox is asked about.
                let wanted = match self.permissions.shell {
                    Rule::Ask => ToolRequest::Shell(command.map(str::to_owned).unwrap_or_default()),
                    _ => ToolRequest::Other("shell outside of the sandbox".to_owned()),
                };
                ("shell", command.unwrap_or_default().to_owned(), wanted)
            }
            "item/fileChange/requestApproval" => {
                let paths = self.changes.remove(item).unwrap_or_default();
                let shown: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
                let wanted = if paths.is_empty() {
                    ToolRequest::Other("apply_patch".to_owned())
                } else {
                    ToolRequest::Edit(paths)
                };
                ("apply_patch", shown.join(", "), wanted)
            }
            _ => {
                return LineEffects {
                    replies: vec![refusal(id)],
                    ..LineEffects::default()
                };
            }
        };
        let name = request_name(id);
        let mut decision = self.permissions.decide(&self.worktree, &wanted);
        let mut replies = Vec::new();
        match &decision {
            PermissionDecision::Allowed => replies.push(decided(id, true)),
            PermissionDecision::Denied { .. } => replies.push(decided(id, false)),
            PermissionDecision::Asked if self.waiting.len() >= MOST_WAITING => {
                replies.push(decided(id, false));
                decision = PermissionDecision::Denied {
                    reason: "too many requests wait for a person".to_owned(),
                };
            }
            PermissionDecision::Asked => {
                self.waiting.insert(name.clone(), id.clone());
            }
        }
        LineEffects {
            events: vec![AgentEvent::PermissionAsked {
                request: name,
                tool: tool.to_owned(),
                detail: one_line(&detail),
                decision,
            }],
            replies,
            ..LineEffects::default()
        }
    }

    /// Forgets a request that was answered or withdrawn.
    pub(super) fn forget(&mut self, id: Option<&Value>) {
        if let Some(id) = id {
            self.waiting.remove(&request_name(id));
        }
    }

    /// Returns the reply with a person's decision, or `None` when Codex does not wait for it.
    pub(super) fn answer(&mut self, request: &str, answer: &PermissionReply) -> Option<Vec<u8>> {
        let id = self.waiting.remove(request)?;
        Some(decided(&id, *answer == PermissionReply::Allow))
    }
}

fn request_name(id: &Value) -> String {
    match id {
        Value::String(name) => name.clone(),
        other => format!("approval-{other}"),
    }
}

/// Returns the reply that grants or declines a request; declining does not end the turn.
fn decided(id: &Value, is_allowed: bool) -> Vec<u8> {
    let decision = if is_allowed { "accept" } else { "decline" };
    line(&json!({ "id": id, "result": { "decision": decision } }))
}

fn refusal(id: &Value) -> Vec<u8> {
    line(&json!({
        "id": id,
        "error": { "code": -32601, "message": "teamster does not serve this request" },
    }))
}
