//! Requests of Claude Code: permission requests are decided by the policy or by a person, questions are answered by the
//! team's addressee for questions, and every request gets a reply.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::line;
use crate::driver::{Job, LineEffects, PermissionReply, QuestionReply};
use crate::event::{AgentEvent, PermissionDecision};
use crate::permission::{Permissions, ToolRequest};
use crate::text::{LONGEST_TEXT, clip, text, tool_detail};

/// The prefix of teamster's own tools in this client.
const OWN_TOOL: &str = "mcp__teamster__";
/// The tool with which the client asks the person a question. Its request is a question and not a permission request, so the
/// permission settings do not apply to it.
const QUESTION_TOOL: &str = "AskUserQuestion";
/// The most requests that wait for a person at once; further ones are denied.
const MOST_WAITING: usize = 100;

/// Decides requests, and remembers those that a person has to decide.
#[derive(Debug)]
pub(super) struct Requests {
    permissions: Permissions,
    worktree: PathBuf,
    /// Whether the client has teamster's own tools. It has no other servers, so no other tool has their prefix.
    has_own_tools: bool,
    waiting: HashMap<String, Value>,
    /// Questions that wait for an answer, by request.
    questions: HashMap<String, Value>,
}

impl Requests {
    pub(super) fn new(job: &Job<'_>) -> Self {
        Self {
            permissions: *job.permissions,
            worktree: job.worktree.to_owned(),
            has_own_tools: job.tools.is_some(),
            waiting: HashMap::new(),
            questions: HashMap::new(),
        }
    }

    /// Decides a request of the client. Every request gets a reply, because the client waits for it forever.
    pub(super) fn decide(&mut self, asked: &Value) -> LineEffects {
        let Some(id) = text(asked, "request_id") else {
            return LineEffects::default();
        };
        let request = asked.get("request").unwrap_or(&Value::Null);
        if text(request, "subtype") != Some("can_use_tool") {
            return LineEffects {
                replies: vec![refusal(id)],
                ..LineEffects::default()
            };
        }
        let tool = text(request, "tool_name").unwrap_or("an unnamed tool");
        let input = request.get("input").unwrap_or(&Value::Null);
        if tool == QUESTION_TOOL && self.questions.len() < MOST_WAITING {
            self.questions.insert(id.to_owned(), input.clone());
            return LineEffects::event(AgentEvent::QuestionAsked {
                request: id.to_owned(),
                question: question_text(input),
            });
        }
        let mut decision = if self.has_own_tools && tool.starts_with(OWN_TOOL) {
            PermissionDecision::Allowed
        } else {
            let wanted = tool_request(tool, input, text(request, "blocked_path"));
            self.permissions.decide(&self.worktree, &wanted)
        };
        let mut replies = Vec::new();
        match &decision {
            PermissionDecision::Allowed => replies.push(allowed(id, input)),
            PermissionDecision::Denied { reason } => replies.push(denied(id, reason)),
            PermissionDecision::Asked if self.waiting.len() >= MOST_WAITING => {
                let reason = "too many requests wait for a person".to_owned();
                replies.push(denied(id, &reason));
                decision = PermissionDecision::Denied { reason };
            }
            PermissionDecision::Asked => {
                self.waiting.insert(id.to_owned(), input.clone());
            }
        }
        LineEffects {
            events: vec![AgentEvent::PermissionAsked {
                request: id.to_owned(),
                tool: tool.to_owned(),
                detail: tool_detail(input),
                decision,
            }],
            replies,
            ..LineEffects::default()
        }
    }

    /// Forgets a request that the client withdrew. Returns the event that reports a withdrawn question.
    pub(super) fn cancel(&mut self, id: &str) -> Option<AgentEvent> {
        self.waiting.remove(id);
        self.questions.remove(id)?;
        Some(AgentEvent::QuestionWithdrawn {
            request: id.to_owned(),
        })
    }

    /// Returns the reply to a question of the client, or `None` when the client does not wait for it. The answer to a single
    /// question is put beside it; an answer to several questions is sent as one text, as if the person had typed it.
    pub(super) fn answer_question(&mut self, id: &str, answer: &QuestionReply) -> Option<Vec<u8>> {
        let mut input = self.questions.remove(id)?;
        let words = match answer {
            QuestionReply::Answered(words) => words,
            QuestionReply::Unanswered(words) => return Some(denied(id, words)),
        };
        let asked = questions_of(&input);
        let (answers, response) = match asked.as_slice() {
            [only] => (json!({ (*only): words }), None),
            _ => (json!({}), Some(words)),
        };
        if let Value::Object(fields) = &mut input {
            fields.insert("answers".into(), answers);
            if let Some(response) = response {
                fields.insert("response".into(), json!(response));
            }
        }
        Some(allowed(id, &input))
    }

    /// Returns the reply with a person's decision, or `None` when the client does not wait for it.
    pub(super) fn answer(&mut self, id: &str, answer: &PermissionReply) -> Option<Vec<u8>> {
        let input = self.waiting.remove(id)?;
        Some(match answer {
            PermissionReply::Allow => allowed(id, &input),
            PermissionReply::Deny(reason) => denied(id, reason),
        })
    }
}

/// Returns the questions that the client asks, without the proposed answers.
fn questions_of(input: &Value) -> Vec<&str> {
    let questions = input.get("questions").and_then(Value::as_array);
    let questions = questions.into_iter().flatten();
    questions
        .filter_map(|asked| text(asked, "question"))
        .collect()
}

/// Returns all questions of one request as a single text.
fn question_text(input: &Value) -> String {
    let questions = input.get("questions").and_then(Value::as_array);
    let questions = questions.map(Vec::as_slice).unwrap_or_default();
    let mut parts = Vec::new();
    for (place, asked) in questions.iter().enumerate() {
        let mut part = match questions.len() {
            1 => String::new(),
            _ => format!("{}. ", place + 1),
        };
        part.push_str(text(asked, "question").unwrap_or_default());
        if asked.get("multiSelect") == Some(&Value::Bool(true)) {
            part.push_str(" (more than one can be chosen)");
        }
        let options = asked.get("options").and_then(Value::as_array);
        for option in options.into_iter().flatten() {
            let label = text(option, "label").unwrap_or_default();
            part.push_str("\n- ");
            part.push_str(label);
            if let Some(description) = text(option, "description").filter(|it| !it.is_empty()) {
                part.push_str(": ");
                part.push_str(description);
            }
        }
        parts.push(part);
    }
    if parts.is_empty() {
        return tool_detail(input);
    }
    clip(&parts.join("\n\n"), LONGEST_TEXT)
}

/// Returns what a tool call of Claude Code wants to do.
fn tool_request(tool: &str, input: &Value, blocked: Option<&str>) -> ToolRequest {
    let path_of = |key: &str| text(input, key).map(PathBuf::from);
    let named = match tool {
        "Bash" | "BashOutput" | "KillBash" | "KillShell" | "PowerShell" => {
            return ToolRequest::Shell(text(input, "command").unwrap_or_default().to_owned());
        }
        "Read" | "Write" | "Edit" | "MultiEdit" => path_of("file_path"),
        "NotebookEdit" | "NotebookRead" => path_of("notebook_path"),
        "Glob" => {
            let folder = path_of("path").unwrap_or_default();
            // A pattern can be absolute or contain `..` like any path; joined with the folder, it is judged as a path.
            Some(folder.join(path_of("pattern").unwrap_or_default()))
        }
        "Grep" | "LS" => Some(path_of("path").unwrap_or_default()),
        other => return ToolRequest::Other(other.to_owned()),
    };
    let is_edit = matches!(tool, "Write" | "Edit" | "MultiEdit" | "NotebookEdit");
    match named {
        Some(path) => {
            let paths = std::iter::once(path).chain(blocked.map(PathBuf::from));
            if is_edit {
                ToolRequest::Edit(paths.collect())
            } else {
                ToolRequest::Files(paths.collect())
            }
        }
        // A file tool that names no file is treated as an unknown tool.
        None => ToolRequest::Other(tool.to_owned()),
    }
}

fn allowed(id: &str, input: &Value) -> Vec<u8> {
    response(id, &json!({ "behavior": "allow", "updatedInput": input }))
}

fn denied(id: &str, reason: &str) -> Vec<u8> {
    response(id, &json!({ "behavior": "deny", "message": reason }))
}

fn response(id: &str, response: &Value) -> Vec<u8> {
    line(&json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": id, "response": response },
    }))
}

fn refusal(id: &str) -> Vec<u8> {
    line(&json!({
        "type": "control_response",
        "response": { "subtype": "error", "request_id": id, "error": "teamster does not serve this request" },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_known_by_what_they_touch() {
        let files = |paths: &[&str]| ToolRequest::Files(paths.iter().map(PathBuf::from).collect());
        let edit = |paths: &[&str]| ToolRequest::Edit(paths.iter().map(PathBuf::from).collect());
        let cases = [
            (
                "Bash",
                json!({"command": "ls"}),
                ToolRequest::Shell("ls".into()),
            ),
            ("Read", json!({"file_path": "/w/a"}), files(&["/w/a"])),
            ("Write", json!({"file_path": "/w/a"}), edit(&["/w/a"])),
            ("MultiEdit", json!({"file_path": "a"}), edit(&["a"])),
            ("NotebookEdit", json!({"notebook_path": "a"}), edit(&["a"])),
            ("Glob", json!({"pattern": "/etc/*"}), files(&["/etc/*"])),
            (
                "Glob",
                json!({"pattern": "../*", "path": "a"}),
                files(&["a/../*"]),
            ),
            ("Grep", json!({"pattern": "x"}), files(&[""])),
            ("Edit", json!({}), ToolRequest::Other("Edit".into())),
            (
                "Write",
                json!({"file_path": 7}),
                ToolRequest::Other("Write".into()),
            ),
            (
                "mcp__x__write",
                json!({"file_path": "a"}),
                ToolRequest::Other("mcp__x__write".into()),
            ),
        ];
        for (tool, input, expected) in cases {
            assert_eq!(tool_request(tool, &input, None), expected, "{tool} {input}");
        }
        assert_eq!(
            tool_request("Write", &json!({"file_path": "a"}), Some("/etc/x")),
            edit(&["a", "/etc/x"])
        );
    }
}
