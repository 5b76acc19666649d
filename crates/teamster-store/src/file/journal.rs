//! The journal's files: one line for each event, in segments, with long texts beside them.
//!
//! Positions grow by one from line to line, so a place is found by halving: "from seq" and "the last N" cost the same
//! at a thousand events and at a million, and there is no index that could disagree with the file.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use teamster_fs::{Dir, FileKind, Sync, layout};
use teamster_types::event::{Event, LINE_LIMIT};
use teamster_types::json::{self, Object};

use crate::error::Result;
use crate::store::{Damaged, JournalPage};

/// A segment is full at this size.
pub(super) const SEGMENT: u64 = 64 * 1024 * 1024;
/// Texts in `data` that are longer than this may move to a blob.
const LONG_TEXT: usize = 1024;
const CHUNK: usize = 64 * 1024;

/// The size of the live segment.
pub(super) fn size(team: &Dir) -> Result<u64> {
    let Some(stamp) = team.stamp(layout::JOURNAL)? else {
        return Ok(0);
    };
    if stamp.kind != FileKind::File {
        // Opening it gives the error that says what it is. An empty pipe is no empty journal.
        team.read_at(layout::JOURNAL, &mut [], 0)?;
    }
    Ok(stamp.size)
}

/// Appends events with one write; the new size of the live segment.
pub(super) fn append(team: &Dir, events: &[Event], size: u64, sync: Sync) -> Result<u64> {
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

/// The line of an event, with texts that are too long for it moved to blobs.
fn line(team: &Dir, event: &Event, sync: Sync) -> Result<Vec<u8>> {
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
    // Too many short texts: the whole of it moves.
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

fn move_texts(blobs: &Dir, value: &mut Value, sync: Sync) -> Result<()> {
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

fn store_blob(blobs: &Dir, bytes: &[u8], sync: Sync) -> Result<String> {
    use std::fmt::Write as _;
    let mut name = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(name, "{byte:02x}");
    }
    // One that is there but not whole was left by a crash.
    if blobs
        .stamp(&name)?
        .is_none_or(|stamp| stamp.size != bytes.len() as u64)
    {
        blobs.replace(&name, bytes, sync)?;
    }
    Ok(name)
}

/// Brings the texts of blobs back into an event.
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

/// Full segments, oldest first.
fn segments(team: &Dir) -> Result<Vec<(u64, String)>> {
    // Nearly always there is none, and one look is cheaper than a listing.
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

/// All files of the journal, oldest first, the live one last.
pub(super) fn files(team: &Dir) -> Result<Vec<String>> {
    let mut files: Vec<String> = segments(team)?.into_iter().map(|(_, name)| name).collect();
    files.push(layout::JOURNAL.to_owned());
    Ok(files)
}

/// The end of the journal: the last whole events that belong together, where they begin and where they end.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// The last commit: one event, or several that belong together.
    pub(super) events: Vec<Event>,
    /// The size that the live segment should have.
    pub(super) size: u64,
}

/// Reads the end of the journal and leaves out what is torn: a line without an end, and a commit without its last line.
pub(super) fn tail(team: &Dir) -> Result<Tail> {
    let mut tail = Tail {
        events: Vec::new(),
        size: size(team)?,
    };
    let mut pending: Vec<Event> = Vec::new();
    let mut names = files(team)?;
    while let Some(name) = names.pop() {
        let live = name == layout::JOURNAL;
        let end = team.stamp(&name)?.map_or(0, |stamp| stamp.size);
        let mut lines = LinesBackwards::new(team, &name, end);
        let mut first = true;
        while let Some((offset, bytes, whole)) = lines.next_line()? {
            let torn = first && live && !whole;
            first = false;
            if torn {
                tail.size = offset;
                continue;
            }
            let Ok(event) = serde_json::from_slice::<Event>(&bytes) else {
                continue;
            };
            if pending.is_empty() && event.more {
                // The commit was not finished: it did not happen.
                tail.size = if live { offset } else { 0 };
                continue;
            }
            if pending.is_empty() || event.more {
                pending.push(event);
            } else {
                break;
            }
        }
        if !pending.is_empty() {
            break;
        }
    }
    pending.reverse();
    tail.events = pending;
    Ok(tail)
}

/// Lines of a file from its end to its beginning.
struct LinesBackwards<'a> {
    team: &'a Dir,
    name: &'a str,
    /// Everything from here on has been given out.
    end: u64,
    /// Bytes from `start` on that were read already.
    buffer: Vec<u8>,
    start: u64,
}

impl<'a> LinesBackwards<'a> {
    fn new(team: &'a Dir, name: &'a str, end: u64) -> Self {
        Self {
            team,
            name,
            end,
            buffer: Vec::new(),
            start: end,
        }
    }

    /// The line before: its offset, its bytes without line end, and whether it had one.
    fn next_line(&mut self) -> Result<Option<(u64, Vec<u8>, bool)>> {
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
            chunk.truncate(count);
            chunk.extend_from_slice(&self.buffer);
            self.buffer = chunk;
            self.start = from;
        }
    }
}

/// The position of the last event; 0 when there is none.
pub(super) fn position(team: &Dir) -> Result<u64> {
    Ok(tail(team)?.events.last().map_or(0, |event| event.seq))
}

/// Up to `limit` events from position `from` on.
pub(super) fn read(team: &Dir, from: u64, limit: usize) -> Result<JournalPage> {
    let mut page = JournalPage::default();
    let names = files(team)?;
    // The last file whose first event is not after `from` is the one to begin in.
    let mut begin = names.len() - 1;
    while begin > 0 && first_seq(team, &names[begin])?.is_none_or(|first| first > from) {
        begin -= 1;
    }
    for name in &names[begin..] {
        let mut offset = seek(team, name, from)?;
        while page.events.len() < limit {
            let (lines, behind) = lines_from(team, name, offset)?;
            if behind == offset {
                break;
            }
            for (at, bytes) in lines {
                if page.events.len() == limit {
                    break;
                }
                match serde_json::from_slice::<Event>(&bytes) {
                    Ok(event) if event.seq < from => {}
                    Ok(mut event) => {
                        inflate(team, &mut event)?;
                        page.events.push(event);
                    }
                    Err(error) => page.damaged.push(Damaged {
                        file: format!("{name} at byte {at}"),
                        error: error.to_string(),
                    }),
                }
            }
            offset = behind;
        }
    }
    // A commit of several events is there with its last one, or not at all.
    if page.events.len() < limit
        && let Some(whole) = page.events.iter().rposition(|event| !event.more)
    {
        page.events.truncate(whole + 1);
    } else if page.events.len() < limit {
        page.events.clear();
    }
    Ok(page)
}

/// Every event of a journal in a folder, in order, until `tell` says that it is enough; the lines that are no events.
/// Under the journal's own name its full segments belong to it, under any other name it is one file. Long texts come
/// from the blobs beside it.
pub fn each_event(
    folder: &Dir,
    name: &str,
    tell: &mut dyn FnMut(Event) -> bool,
) -> Result<Vec<Damaged>> {
    let names = if name == layout::JOURNAL {
        files(folder)?
    } else {
        vec![name.to_owned()]
    };
    let mut damaged = Vec::new();
    for name in names {
        let mut offset = 0;
        loop {
            let (lines, behind) = lines_from(folder, &name, offset)?;
            if behind == offset {
                break;
            }
            for (at, bytes) in lines {
                match serde_json::from_slice::<Event>(&bytes) {
                    Ok(mut event) => {
                        inflate(folder, &mut event)?;
                        if !tell(event) {
                            return Ok(damaged);
                        }
                    }
                    Err(error) => damaged.push(Damaged {
                        file: format!("{name} at byte {at}"),
                        error: error.to_string(),
                    }),
                }
            }
            offset = behind;
        }
    }
    Ok(damaged)
}

fn first_seq(team: &Dir, name: &str) -> Result<Option<u64>> {
    Ok(seq_after(team, name, 0)?.map(|(_, seq)| seq))
}

/// An offset at a line's beginning, at or shortly before the event `from`.
fn seek(team: &Dir, name: &str, from: u64) -> Result<u64> {
    let mut low = 0;
    let mut high = team.stamp(name)?.map_or(0, |stamp| stamp.size);
    while high - low > CHUNK as u64 {
        let middle = low + (high - low) / 2;
        match seq_after(team, name, middle)? {
            Some((offset, seq)) if seq < from && offset < high => low = offset,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The first event whose line begins at or after `offset` (at 0) or behind the line that `offset` lies in.
fn seq_after(team: &Dir, name: &str, offset: u64) -> Result<Option<(u64, u64)>> {
    let mut start = offset;
    if offset > 0 {
        let mut chunk = vec![0; CHUNK];
        let count = team.read_at(name, &mut chunk, offset)?.unwrap_or(0);
        match chunk[..count].iter().position(|byte| *byte == b'\n') {
            Some(end) => start = offset + end as u64 + 1,
            None => return Ok(None),
        }
    }
    let (lines, _) = lines_from(team, name, start)?;
    let found = lines
        .into_iter()
        .find_map(|(at, bytes)| Some((at, serde_json::from_slice::<Event>(&bytes).ok()?.seq)));
    Ok(found)
}

/// Whole lines from an offset on, one chunk of them, with their offsets; and the offset behind them.
type Lines = (Vec<(u64, Vec<u8>)>, u64);

fn lines_from(team: &Dir, name: &str, offset: u64) -> Result<Lines> {
    let mut size = CHUNK;
    loop {
        let mut chunk = vec![0; size];
        let count = team.read_at(name, &mut chunk, offset)?.unwrap_or(0);
        let Some(end) = chunk[..count].iter().rposition(|byte| *byte == b'\n') else {
            // A line longer than the chunk was not written by us, but must not hide those behind it.
            if count == size {
                size *= 4;
                continue;
            }
            return Ok((Vec::new(), offset));
        };
        let mut lines = Vec::new();
        let mut at = offset;
        for line in chunk[..end].split(|byte| *byte == b'\n') {
            lines.push((at, line.to_vec()));
            at += line.len() as u64 + 1;
        }
        return Ok((lines, offset + end as u64 + 1));
    }
}
