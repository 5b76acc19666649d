//! Claude Code's own files: an inbox is an array that Claude Code empties when it reads it; a running session has a
//! record named after its pid.

use serde_json::{Value, json};
use teamster_fs::{Dir, OrTrace as _, layout};
use teamster_types::message::Message;
use teamster_types::session::ClientSession;

use super::read;
use super::staged::StagedFile;
use crate::error::Result;

/// The content of an inbox that Claude Code has read.
const EMPTY: &[u8] = b"[]";
/// The maximum size of a session record.
const LARGEST_RECORD: u64 = 1024 * 1024;

/// Returns every session whose record below the Claude folder can be read. The `.key` file beside a record is a secret
/// and never opened.
pub fn client_sessions(root: &Dir) -> Vec<ClientSession> {
    let folder = root.child(layout::NATIVE_SESSIONS);
    let Some(folder) = folder
        .ok_or_trace("open the folder of the client's sessions")
        .flatten()
    else {
        return Vec::new();
    };
    let entries = folder
        .entries()
        .ok_or_trace("list the client's sessions")
        .unwrap_or_default();
    entries
        .iter()
        .filter_map(|entry| {
            let pid = layout::pid_of_session_file(&entry.name)?;
            folder
                .stamp(&entry.name)
                .ok_or_trace("look at a session of the client")?
                .filter(|stamp| stamp.size <= LARGEST_RECORD)?;
            let read = folder.read(&entry.name);
            let (bytes, _) = read.ok_or_trace("read a session of the client")??;
            let parsed = serde_json::from_slice(&bytes);
            ClientSession::parse(pid, &parsed.ok_or_trace("parse a session of the client")?)
        })
        .collect()
}

/// Returns the file of a teammate's inbox.
pub(super) fn file(name: &str) -> String {
    format!("{name}.json")
}

/// Returns whether an inbox may contain messages, or, with `or_empty`, whether it exists.
pub(super) fn has_mail(team: &Dir, name: &str, or_empty: bool) -> Result<bool> {
    let Some(inboxes) = team.child(layout::NATIVE_INBOXES)? else {
        return Ok(false);
    };
    let empty = EMPTY.len() as u64;
    let stamp = inboxes.stamp(&file(name))?;
    Ok(stamp.is_some_and(|stamp| or_empty || stamp.size > empty))
}

/// Returns the first entry of an inbox, and the inbox without it; with `for_good`, all entries and the removal of the
/// inbox. The caller holds its lock folder.
pub(super) fn taken(team: &Dir, name: &str, for_good: bool) -> Result<(Vec<Value>, StagedFile)> {
    let name = file(name);
    let mut letters = entries(team, &name)?;
    let bytes = if for_good {
        None
    } else {
        let rest = letters.split_off(letters.len().min(1));
        serde_json::to_vec_pretty(&rest).ok()
    };
    let staged = StagedFile {
        folder: Some(layout::NATIVE_INBOXES),
        name,
        bytes,
    };
    Ok((letters, staged))
}

fn entries(team: &Dir, file: &str) -> Result<Vec<Value>> {
    let Some(inboxes) = team.child(layout::NATIVE_INBOXES)? else {
        return Ok(Vec::new());
    };
    match inboxes.read(file)? {
        Some((bytes, _)) if !bytes.is_empty() => serde_json::from_slice::<Vec<Value>>(&bytes)
            .map_err(|error| read::damaged(file, &error.to_string())),
        _ => Ok(Vec::new()),
    }
}

/// Returns the content of an inbox with one more plain message. The caller holds its lock folder.
pub(super) fn with_message(team: &Dir, name: &str, message: &Message) -> Result<StagedFile> {
    let name = file(name);
    let mut entries = entries(team, &name)?;
    entries.push(json!({
        "from": message.from(),
        "text": message.content(),
        "timestamp": message.text("timestamp"),
        "type": "message",
        "msg_id": message.id(),
        "read": false,
    }));
    let bytes = serde_json::to_vec_pretty(&entries).ok();
    Ok(StagedFile {
        folder: Some(layout::NATIVE_INBOXES),
        name,
        bytes,
    })
}

/// Returns the messages in Claude Code's inboxes, each with the name of its inbox.
pub(super) fn messages(team: &Dir) -> Result<Vec<(String, Message)>> {
    let mut found = Vec::new();
    let Some(inboxes) = team.child(layout::NATIVE_INBOXES)? else {
        return Ok(found);
    };
    let mut names: Vec<String> = inboxes
        .entries()?
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    names.sort_unstable();
    for name in names {
        let Some(owner) = name
            .strip_suffix(".json")
            .filter(|owner| !owner.starts_with('.'))
        else {
            continue;
        };
        // Skip a torn or foreign file: the other inboxes are still read.
        let read = inboxes.read(&name);
        let Some((bytes, _)) = read.ok_or_trace("read an inbox of the client").flatten() else {
            continue;
        };
        let entries = serde_json::from_slice::<Vec<Value>>(&bytes);
        for entry in entries
            .ok_or_trace("parse an inbox of the client")
            .unwrap_or_default()
        {
            let message = Message::parse(entry.to_string().as_bytes());
            if let Some(message) = message.ok_or_trace("parse a message of the client") {
                found.push((owner.to_owned(), message.with("to", json!(owner))));
            }
        }
    }
    Ok(found)
}
