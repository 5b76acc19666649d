//! Commands that a worker's agent calls: they go to the worker's bridge, which knows the caller's identity.
//!
//! `message send`, `message read`, `task show`, `status`, `finding add` and `ask` come here when they are called by a
//! descendant of a bridge. The agent then needs no access to the store, and cannot act for another worker.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use teamster_app::questions;
use teamster_types::json::Object;
use teamster_types::text::clip;
use teamster_workers::socket;

use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::{plain, plain_line};

/// The longest claim of a finding, in characters; the rest of its text is the evidence.
const LONGEST_CLAIM: usize = 400;

/// A connection to the bridge whose descendant this process is.
pub struct BridgeClient {
    socket: PathBuf,
}

impl BridgeClient {
    /// Finds the bridge; `None` when a person calls, or an agent that teamster did not start. A bridge serves one
    /// team: an agent that names another team is refused instead of getting an answer about its own.
    pub fn find(context: &Context, team: Option<&str>) -> Result<Option<Self>> {
        let Some(socket) = questions::socket_of_caller() else {
            return Ok(None);
        };
        if let Some(team) = team {
            context.must_be_own(team.parse()?)?;
        }
        Ok(Some(Self { socket }))
    }

    fn call(&self, tool: &str, arguments: Value) -> Result<Object> {
        match socket::call(&self.socket, tool, arguments)? {
            Value::Object(answer) => Ok(answer),
            other => Err(AppError::new(
                ErrorKind::Failed,
                format!("the worker's bridge answers {other}"),
            )),
        }
    }

    /// Sends a message in the worker's name.
    pub fn send(&self, context: &Context, to: &str, text: &str) -> Result {
        let answer = self.call("message_send", json!({ "to": to, "text": text }))?;
        let sent = rows(&answer, "sent");
        let names: Vec<String> = sent
            .iter()
            .map(|message| plain_line(word(message, "to")))
            .collect();
        show_unread(context, &answer);
        context.out.answer(
            || match sent {
                [message] if to != "all" => with_unread(&answer, json!({ "message": message })),
                _ => with_unread(&answer, json!({ "sent": sent.len() })),
            },
            || match sent {
                [message] if to != "all" => {
                    format!(
                        "sent message {} to {}",
                        plain_line(word(message, "id")),
                        names.join(", ")
                    )
                }
                _ => format!("sent to {} members: {}", sent.len(), names.join(", ")),
            },
        )
    }

    /// Reads the worker's messages, which acknowledges them.
    pub fn read(&self, context: &Context) -> Result {
        let answer = self.call("inbox_read", json!({}))?;
        let messages = rows(&answer, "messages");
        context.out.answer(
            || json!({ "messages": messages, "skipped": 0 }),
            || match messages {
                [] => "no new messages\n".to_owned(),
                messages => mail(messages),
            },
        )
    }

    /// Shows one task.
    pub fn show_task(&self, context: &Context, id: &str) -> Result {
        let answer = self.call("task_get", json!({ "id": id }))?;
        show_unread(context, &answer);
        let task = answer.get("task").cloned().unwrap_or_default();
        context.out.answer(
            || {
                with_unread(
                    &answer,
                    json!({ "task": task, "failure": answer.get("failure") }),
                )
            },
            || {
                let mut text = format!(
                    "task {}: {}\n",
                    word(&task, "id"),
                    plain_line(word(&task, "subject"))
                );
                for (name, key) in [("state", "state"), ("reason", "reason"), ("owner", "owner")] {
                    let value = word(&task, key);
                    if !value.is_empty() {
                        let _ = writeln!(text, "  {name:<10}  {}", plain_line(value));
                    }
                }
                let result = task.pointer("/metadata/teamster/result");
                if let Some(result) = result {
                    let _ = writeln!(
                        text,
                        "  {:<10}  {}",
                        "result",
                        plain_line(&result.to_string())
                    );
                }
                match word(&task, "description") {
                    "" => {}
                    description => {
                        let _ = writeln!(text, "\n{}", plain(description));
                    }
                }
                text
            },
        )
    }

    /// Shows who works on what.
    pub fn status(&self, context: &Context) -> Result {
        let answer = self.call("team_status", json!({}))?;
        show_unread(context, &answer);
        context
            .out
            .answer(|| Value::Object(answer.clone()), || status_text(&answer))
    }

    /// Adds a finding of a phase.
    pub fn add_finding(&self, context: &Context, phase: &str, text: &str) -> Result {
        let text = text.trim();
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let arguments = json!({
            "severity": "minor",
            "claim": clip(first, LONGEST_CLAIM),
            "evidence": if first.chars().count() > LONGEST_CLAIM { text } else { rest.trim() },
            "phase": phase,
        });
        let answer = self.call("add_finding", arguments)?;
        show_unread(context, &answer);
        context.out.answer(
            || {
                with_unread(
                    &answer,
                    json!({ "phase": phase, "event": answer.get("event") }),
                )
            },
            || "added the finding".to_owned(),
        )
    }

    /// Asks a question and waits for the answer.
    pub fn ask(&self, context: &Context, question: &str) -> Result {
        let answer = self.call("ask", json!({ "question": question }))?;
        show_unread(context, &answer);
        let Some(Value::String(words)) = answer.get("answer") else {
            let reason = answer.get("reason").and_then(Value::as_str);
            return Err(AppError::new(
                ErrorKind::Nothing,
                format!("there is no answer: {}", reason.unwrap_or("none was given")),
            )
            .hint("decide by yourself, and say at the end of the task what you assumed"));
        };
        context
            .out
            .answer(|| Value::Object(answer.clone()), || plain(words))
    }
}

fn rows<'a>(answer: &'a Object, key: &str) -> &'a [Value] {
    answer
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn with_unread(answer: &Object, mut shown: Value) -> Value {
    if let Some(unread) = answer.get("unread") {
        shown["unread"] = unread.clone();
    }
    shown
}

/// Shows the unread messages that came with a response. They were not requested, so they go to stderr.
fn show_unread(context: &Context, answer: &Object) {
    let unread = rows(answer, "unread");
    if !unread.is_empty() && !context.out.is_json() {
        context
            .out
            .remark(&format!("unread messages:\n{}", mail(unread)));
    }
}

fn mail(messages: &[Value]) -> String {
    let mut text = String::new();
    for message in messages {
        let _ = writeln!(
            text,
            "{} → {}",
            plain_line(word(message, "from")),
            plain_line(word(message, "to"))
        );
        text.push_str(&super::message::indented(&plain(word(message, "content"))));
    }
    text
}

fn status_text(answer: &Object) -> String {
    let name = answer.get("team").and_then(Value::as_str);
    let mut text = format!("team {}\n", plain_line(name.unwrap_or_default()));
    let task = |value: &Value| match (word(value, "id"), word(value, "subject")) {
        ("", _) => String::new(),
        (id, subject) => format!("  task {id}: {}", plain_line(subject)),
    };
    for worker in rows(answer, "workers") {
        let doing = worker.get("task").map_or_else(String::new, task);
        let _ = writeln!(
            text,
            "  {}  {}{doing}",
            plain_line(word(worker, "name")),
            plain_line(word(worker, "status"))
        );
    }
    for row in rows(answer, "tasks") {
        let _ = writeln!(text, "{}  {}", task(row), plain_line(word(row, "status")));
    }
    for question in rows(answer, "questions") {
        let _ = writeln!(
            text,
            "  {}  {} asks: {}",
            plain_line(word(question, "id")),
            plain_line(word(question, "from")),
            plain_line(word(question, "text"))
        );
    }
    text
}
