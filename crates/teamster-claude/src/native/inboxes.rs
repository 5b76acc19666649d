//! The client's inboxes: messages between teammates that are not read yet.

use std::path::Path;

use serde_json::Value;
use teamster_fs::layout;
use teamster_types::Time;

use super::{NativeRegistry, NativeTeam};

/// The prefix of a message that the client delivers to its model.
const DELIVERED: &str = "<teammate-message ";
/// How much of the end of a transcript is read: enough for the start of the turn that ends, unless that is long.
const TAIL: u64 = 256 * 1024;

/// A message in an inbox, as readable text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxMessage {
    /// The sender.
    pub from: String,
    /// The recipient.
    pub to: String,
    /// The text of the message.
    pub content: String,
    /// The kind of message, if a program wrote it.
    pub kind: Option<String>,
    /// When it was sent.
    pub at: Time,
}

impl NativeRegistry {
    /// Returns the messages in the inboxes of a team, oldest first.
    pub fn notes(&self, team: &NativeTeam) -> Vec<InboxMessage> {
        let Some(inboxes) = self
            .folder(team)
            .and_then(|folder| folder.child(layout::NATIVE_INBOXES).ok().flatten())
        else {
            return Vec::new();
        };
        let mut notes = Vec::new();
        for entry in inboxes.entries().into_iter().flatten() {
            let Some(owner) = entry.name.strip_suffix(".json") else {
                continue;
            };
            if owner.starts_with('.') {
                continue;
            }
            // A partly written file is being changed by the client; the next hook reads it.
            let bytes = inboxes.read(&entry.name).ok().flatten();
            let bytes = bytes.map(|(bytes, _)| bytes).unwrap_or_default();
            let list: Vec<Value> = serde_json::from_slice(&bytes).unwrap_or_default();
            notes.extend(list.iter().filter_map(|letter| note(owner, letter)));
        }
        notes.sort_by_key(|note| note.at);
        notes
    }
}

impl NativeRegistry {
    /// Returns the messages from other programs that the end of a transcript shows as delivered to `to`. Messages of
    /// the team's own members are reported by their hooks. A transcript outside the client's folder is not opened.
    pub fn delivered(
        &self,
        team: &NativeTeam,
        to: &str,
        claude: &Path,
        transcript: &Path,
    ) -> Vec<InboxMessage> {
        let is_member = |name: &str| team.members.iter().any(|member| member.name == name);
        let tail = self.tail(claude, transcript).unwrap_or_default();
        let lines = tail.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| std::str::from_utf8(line).ok());
        let mut notes = Vec::new();
        for line in lines.filter(|line| line.contains(DELIVERED)) {
            let entry: Value = serde_json::from_str(line).unwrap_or_default();
            let at = entry["timestamp"].as_str().and_then(|at| at.parse().ok());
            let text = entry["message"]["content"].as_str();
            let (true, Some(at), Some(text)) = (entry["type"] == "user", at, text) else {
                continue;
            };
            for (from, words) in delivered_in(text).filter(|(from, _)| !is_member(from)) {
                if let Some((content, kind)) = to_text(words) {
                    let (from, to) = (from.to_owned(), to.to_owned());
                    notes.push(InboxMessage {
                        from,
                        to,
                        content,
                        kind,
                        at,
                    });
                }
            }
        }
        notes
    }

    /// Returns the end of a file below the Claude folder.
    fn tail(&self, claude: &Path, file: &Path) -> Option<Vec<u8>> {
        let below = file.strip_prefix(claude).ok()?.to_str()?;
        let (folder, name) = below.rsplit_once('/')?;
        let folders: Vec<&str> = folder.split('/').collect();
        let folder = self.claude().descend(&folders).ok()??;
        let size = folder.stamp(name).ok()??.size;
        let (bytes, _) = folder.read_from(name, size.saturating_sub(TAIL)).ok()??;
        Some(bytes)
    }
}

/// Returns the messages in a prompt that the client made from an inbox, each with its sender.
fn delivered_in(prompt: &str) -> impl Iterator<Item = (&str, &str)> {
    prompt.split(DELIVERED).skip(1).filter_map(|rest| {
        let (head, rest) = rest.split_once('>')?;
        let (words, _) = rest.split_once("</teammate-message>")?;
        let (_, from) = head.split_once("teammate_id=\"")?;
        let (from, _) = from.split_once('"')?;
        Some((from, words.trim()))
    })
}

fn note(owner: &str, letter: &Value) -> Option<InboxMessage> {
    let text = letter.get("text")?.as_str()?;
    let (content, kind) = to_text(text)?;
    Some(InboxMessage {
        from: letter.get("from")?.as_str()?.to_owned(),
        to: owner.to_owned(),
        content,
        kind,
        at: letter.get("timestamp")?.as_str()?.parse().ok()?,
    })
}

/// Returns a message as readable text and, if a program wrote it, its kind; `None` for messages that repeat what the
/// roster already shows.
fn to_text(text: &str) -> Option<(String, Option<String>)> {
    if text.trim_start().starts_with('{')
        && let Ok(message) = serde_json::from_str::<Value>(text)
    {
        let kind = message.get("type").and_then(Value::as_str);
        return Some((structured_text(&message)?, kind.map(str::to_owned)));
    }
    Some((text.to_owned(), None))
}

/// Returns the readable text of a message that a program wrote.
pub(crate) fn structured_text(message: &Value) -> Option<String> {
    let field = |key: &str| message.get(key).and_then(Value::as_str);
    let with = |words: &str, more: Option<&str>| match more {
        Some(more) => format!("{words}: {more}"),
        None => words.to_owned(),
    };
    Some(match field("type") {
        None => message.to_string(),
        Some("idle_notification") => return None,
        Some("task_assignment") => with("task assigned", field("subject")),
        Some("shutdown_request") => with("asks to shut down", field("reason")),
        Some("shutdown_approved") => with("shuts down", None),
        Some("shutdown_response") => match message.get("approve").and_then(Value::as_bool) {
            Some(false) => with("does not shut down", field("reason")),
            _ => with("shuts down", None),
        },
        Some("permission_request") => with("asks for permission", field("tool_name")),
        Some("permission_response") => with("answers about a permission", field("subtype")),
        Some(other) => other.replace('_', " "),
    })
}
