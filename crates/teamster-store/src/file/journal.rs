//! The journal's files: one line for each event, in segments, with long texts beside them.
//!
//! This module writes the journal and reads its end; `pages` reads the rest.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use teamster_fs::{Dir, Durability, FileKind, layout};
use teamster_journal::{Event, LINE_LIMIT};
use teamster_types::json::{self, Object};

use super::event_outline::EventOutline;
use super::pages::JournalFiles;
use crate::error::Result;

/// The size at which a segment is full.
pub(super) const SEGMENT: u64 = 64 * 1024 * 1024;
/// Texts in `data` that are longer than this may be moved to a blob.
const LONG_TEXT: usize = 1024;
const CHUNK: usize = 64 * 1024;

/// Returns the size of the live segment.
pub(super) fn size(team: &Dir) -> Result<u64> {
    let Some(stamp) = team.stamp(layout::JOURNAL)? else {
        return Ok(0);
    };
    if stamp.kind != FileKind::File {
        // Opening the file returns the error that names its kind. A pipe, for example, must not pass for an empty
        // journal.
        team.read_at(layout::JOURNAL, &mut [], 0)?;
    }
    Ok(stamp.size)
}

/// Appends events with one write; returns the new size of the live segment.
pub(super) fn append(team: &Dir, events: &[Event], size: u64, sync: Durability) -> Result<u64> {
    let mut lines = Vec::new();
    for event in events {
        lines.extend(line(team, event, sync)?);
    }
    if size > SEGMENT {
        rotate(team)?;
    }
    let before = team.append(layout::JOURNAL, &lines, sync)?;
    Ok(before + lines.len() as u64)
}

fn rotate(team: &Dir) -> Result<()> {
    let number = segments(team)?.last().map_or(0, |(number, _)| *number) + 1;
    team.rename_new(layout::JOURNAL, team, &layout::journal_segment(number))?;
    Ok(())
}

/// Returns the line of an event, with texts that are too long for it moved to blobs.
fn line(team: &Dir, event: &Event, sync: Durability) -> Result<Vec<u8>> {
    let line = json::to_line(event);
    if line.len() <= LINE_LIMIT {
        return Ok(line);
    }
    let blobs = team.child_or_create(layout::BLOBS)?;
    let mut event = event.clone();
    for value in event.data.values_mut() {
        move_texts(&blobs, value, sync)?;
    }
    let line = json::to_line(&event);
    if line.len() <= LINE_LIMIT {
        return Ok(line);
    }
    // Too many short texts: the whole of `data` is moved to a blob.
    let mut data = Object::new();
    for key in ["from", "to"] {
        if let Some(value) = event.data.get(key) {
            data.insert(key.to_owned(), value.clone());
        }
    }
    data.insert(
        "blob".into(),
        json!(store_blob(
            &blobs,
            &serde_json::to_vec(&event.data).unwrap_or_default(),
            sync
        )?),
    );
    event.data = data;
    Ok(json::to_line(&event))
}

fn move_texts(blobs: &Dir, value: &mut Value, sync: Durability) -> Result<()> {
    match value {
        Value::String(text) if text.len() > LONG_TEXT => {
            let name = store_blob(blobs, text.as_bytes(), sync)?;
            *value = json!({"blob": name, "bytes": text.len()});
        }
        Value::Array(list) => list
            .iter_mut()
            .try_for_each(|item| move_texts(blobs, item, sync))?,
        Value::Object(object) => object
            .values_mut()
            .try_for_each(|item| move_texts(blobs, item, sync))?,
        _ => {}
    }
    Ok(())
}

fn store_blob(blobs: &Dir, bytes: &[u8], sync: Durability) -> Result<String> {
    use std::fmt::Write as _;
    let mut name = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(name, "{byte:02x}");
    }
    // An incomplete blob was left by a crash.
    if blobs
        .stamp(&name)?
        .is_none_or(|stamp| stamp.size != bytes.len() as u64)
    {
        blobs.replace(&name, bytes, sync)?;
    }
    Ok(name)
}

/// Replaces references to blobs in an event by their texts.
pub(super) fn inflate(team: &Dir, event: &mut Event) -> Result<()> {
    if let Some(Value::String(name)) = event.data.get("blob")
        && let Some(bytes) = read_blob(team, name)?
        && let Ok(data) = serde_json::from_slice(&bytes)
    {
        event.data = data;
    }
    event
        .data
        .values_mut()
        .try_for_each(|value| inflate_value(team, value))
}

fn inflate_value(team: &Dir, value: &mut Value) -> Result<()> {
    match value {
        Value::Object(object) => {
            let blob = object
                .get("blob")
                .and_then(Value::as_str)
                .filter(|_| object.contains_key("bytes"));
            if let Some(bytes) = blob
                .map(|name| read_blob(team, name))
                .transpose()?
                .flatten()
            {
                *value = Value::String(String::from_utf8_lossy(&bytes).into_owned());
                return Ok(());
            }
            object
                .values_mut()
                .try_for_each(|item| inflate_value(team, item))
        }
        Value::Array(list) => list
            .iter_mut()
            .try_for_each(|item| inflate_value(team, item)),
        _ => Ok(()),
    }
}

fn read_blob(team: &Dir, name: &str) -> Result<Option<Vec<u8>>> {
    if name.len() != 64 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let Some(blobs) = team.child(layout::BLOBS)? else {
        return Ok(None);
    };
    Ok(blobs.read(name)?.map(|(bytes, _)| bytes))
}

/// Returns the full segments, oldest first.
pub(super) fn segments(team: &Dir) -> Result<Vec<(u64, String)>> {
    // Usually there is none, and one `stat` is cheaper than a listing.
    if team.stamp(&layout::journal_segment(1))?.is_none() {
        return Ok(Vec::new());
    }
    let mut found: Vec<(u64, String)> = team
        .entries()?
        .into_iter()
        .filter_map(|entry| Some((layout::segment_number(&entry.name, "events")?, entry.name)))
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// The end of the journal: the last complete commit, and the size the live segment should have.
#[derive(Debug, Default)]
pub(super) struct JournalTail {
    /// The last commit: one event, or several that belong together.
    pub(super) events: Vec<Event>,
    /// The size of the live segment without a torn commit.
    pub(super) size: u64,
}

/// The lines of the last commit, with their outlines, and the size of the live segment without a torn commit.
struct LastCommit {
    lines: Vec<(EventOutline, Vec<u8>)>,
    size: u64,
}

/// Reads the end of the journal without what is torn: a line without an end, or a commit without its last line.
pub(super) fn tail(team: &Dir) -> Result<JournalTail> {
    let commit = last_commit(team, &JournalFiles::of(team)?)?;
    let lines = commit.lines.iter();
    Ok(JournalTail {
        events: lines
            .filter_map(|(_, line)| serde_json::from_slice(line).ok())
            .collect(),
        size: commit.size,
    })
}

fn last_commit(team: &Dir, files: &JournalFiles) -> Result<LastCommit> {
    let mut commit = LastCommit {
        lines: Vec::new(),
        size: size(team)?,
    };
    let lines = &mut commit.lines;
    for name in files.names().iter().rev() {
        let live = name == layout::JOURNAL;
        let end = team.stamp(name)?.map_or(0, |stamp| stamp.size);
        let mut backwards = LinesBackwards::new(team, name, end);
        let mut first = true;
        while let Some((offset, bytes, whole)) = backwards.next_line()? {
            let torn = first && live && !whole;
            first = false;
            if torn {
                commit.size = offset;
                continue;
            }
            let Ok(event) = EventOutline::of(&bytes) else {
                continue;
            };
            if lines.is_empty() && event.more {
                // The commit is incomplete, so it did not happen.
                commit.size = if live { offset } else { 0 };
                continue;
            }
            if lines.is_empty() || event.more {
                lines.push((event, bytes));
            } else if lines.iter().any(|(later, _)| later.seq <= event.seq) {
                // Another program appended the lines after this one with positions that were already taken. They are
                // ignored, or positions would be assigned twice.
                *lines = vec![(event, bytes)];
            } else {
                break;
            }
        }
        if !lines.is_empty() {
            break;
        }
    }
    lines.reverse();
    Ok(commit)
}

/// Reads the lines of a file backwards.
pub(super) struct LinesBackwards<'a> {
    team: &'a Dir,
    name: &'a str,
    /// Everything from this offset on has been returned.
    end: u64,
    /// The bytes from `start` on that were already read.
    buffer: Vec<u8>,
    start: u64,
}

impl<'a> LinesBackwards<'a> {
    pub(super) fn new(team: &'a Dir, name: &'a str, end: u64) -> Self {
        Self {
            team,
            name,
            end,
            buffer: Vec::new(),
            start: end,
        }
    }

    /// Returns the previous line: its offset, its bytes without the line end, and whether it had a line end.
    pub(super) fn next_line(&mut self) -> Result<Option<(u64, Vec<u8>, bool)>> {
        if self.end == 0 {
            return Ok(None);
        }
        loop {
            let known = usize::try_from(self.end - self.start).unwrap_or(0);
            let whole = known > 0 && self.buffer[known - 1] == b'\n';
            let body = known - usize::from(whole);
            let newline = self.buffer[..body].iter().rposition(|byte| *byte == b'\n');
            if let Some(before) = newline
                .map(|place| place + 1)
                .or((self.start == 0 && known > 0).then_some(0))
            {
                let line = self.buffer[before..body].to_vec();
                self.end = self.start + before as u64;
                self.buffer.truncate(before);
                return Ok(Some((self.end, line, whole)));
            }
            if self.start == 0 {
                return Ok(None);
            }
            let from = self.start.saturating_sub(CHUNK as u64);
            let mut chunk = vec![0; usize::try_from(self.start - from).unwrap_or(0)];
            let count = self.team.read_at(self.name, &mut chunk, from)?.unwrap_or(0);
            if count < chunk.len() {
                // Without the lock the file may have been rotated, and a shorter one has its name.
                self.end = 0;
                return Ok(None);
            }
            chunk.extend_from_slice(&self.buffer);
            self.buffer = chunk;
            self.start = from;
        }
    }
}

/// Returns the position of the last event; 0 when there is none.
pub(super) fn position(team: &Dir) -> Result<u64> {
    loop {
        let files = JournalFiles::of(team)?;
        let commit = last_commit(team, &files)?;
        // Without the lock the live file may be rotated in the meantime, and its events would be missed.
        if !files.has_another(team)? {
            return Ok(commit.lines.last().map_or(0, |(event, _)| event.seq));
        }
    }
}
