//! Mailboxes: lines in a live file that rotates into numbered segments, and a cursor that survives it.
//!
//! A position in a mailbox consists of a segment number and a byte offset; the live file has the number after the last
//! segment's. The cursor file names no segment while it points into the live file. Before a rotation, the number that
//! the live file is about to get is written to the cursor, and a number without a file means the live file: so a crash
//! between the two steps changes nothing.

use serde::{Deserialize, Serialize};
use teamster_fs::{Dir, Durability, FileKind, OrTrace as _, layout};
use teamster_journal::payload::MessageSent;
use teamster_journal::{EventKind, NewEvent};
use teamster_types::WorkerName;
use teamster_types::message::{Mailbox, Message};

use super::held_team::HeldTeam;
use super::note::OpenMailbox;
use super::staged::{self, StagedFile};
use super::{FileStore, recover};
use crate::backend::{MailCursor, Position};
use crate::error::Result;
use crate::export::{ExportedMailbox, MailLine};

/// The size at which the live file is rotated.
const FULL: u64 = 1024 * 1024;
const SEGMENT_SHIFT: u32 = 40;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CursorFile {
    /// The segment; absent for the live file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    segment: Option<u64>,
    #[serde(default)]
    bytes_read: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delivered_segment: Option<u64>,
    /// The delivered offset; absent when everything delivered is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delivered_bytes: Option<u64>,
}

/// The bytes of the segment that was read last, so that paging through a segment reads it once.
#[derive(Debug)]
pub(super) struct MailPage {
    mailbox: Mailbox,
    segment: u64,
    /// The offset of the bytes in the segment.
    start: u64,
    bytes: Vec<u8>,
}

fn position(segment: u64, offset: u64) -> Position {
    Position((segment - 1) << SEGMENT_SHIFT | offset)
}

fn split(position: Position) -> (u64, u64) {
    (
        (position.0 >> SEGMENT_SHIFT) + 1,
        position.0 & ((1 << SEGMENT_SHIFT) - 1),
    )
}

fn folder(team: &Dir, mailbox: &Mailbox) -> Result<Option<Dir>> {
    Ok(team.child(mailbox.folder())?)
}

pub(super) fn exists(team: &Dir, mailbox: &Mailbox) -> Result<bool> {
    let Some(dir) = folder(team, mailbox)? else {
        return Ok(false);
    };
    let live = dir.stamp(&layout::mail_file(mailbox))?;
    Ok(live.is_some() || dir.stamp(&layout::mail_segment(mailbox, 1))?.is_some())
}

/// Returns the number of the first segment and of the live file.
fn numbers(dir: &Dir, mailbox: &Mailbox) -> Result<(u64, u64)> {
    if dir.stamp(&layout::mail_segment(mailbox, 1))?.is_none() {
        return Ok((1, 1));
    }
    let found: Vec<u64> = dir
        .entries()?
        .iter()
        .filter_map(|entry| layout::segment_number(&entry.name, mailbox.owner()))
        .collect();
    let first = found.iter().min().copied().unwrap_or(1);
    Ok((first, found.iter().max().map_or(1, |last| last + 1)))
}

fn segment_file(mailbox: &Mailbox, segment: u64, live: u64) -> String {
    if segment == live {
        layout::mail_file(mailbox)
    } else {
        layout::mail_segment(mailbox, segment)
    }
}

/// Returns the workers that have an outbox.
pub(super) fn outboxes(team: &Dir) -> Result<Vec<WorkerName>> {
    owners(team, layout::OUTBOX)
}

fn owners(team: &Dir, folder: &str) -> Result<Vec<WorkerName>> {
    let Some(dir) = team.child(folder)? else {
        return Ok(Vec::new());
    };
    let mut owners: Vec<WorkerName> = dir
        .entries()?
        .iter()
        .filter_map(|entry| {
            entry
                .name
                .strip_suffix(".jsonl")?
                .split('.')
                .next()?
                .parse()
                .ok()
        })
        .collect();
    owners.sort_unstable();
    owners.dedup();
    Ok(owners)
}

/// Returns every mailbox of a team.
pub(super) fn all(team: &Dir) -> Result<Vec<Mailbox>> {
    let mut boxes: Vec<Mailbox> = owners(team, layout::INBOX)?
        .into_iter()
        .map(Mailbox::Inbox)
        .collect();
    if exists(team, &Mailbox::Lead)? {
        boxes.push(Mailbox::Lead);
    }
    boxes.extend(outboxes(team)?.into_iter().map(Mailbox::Outbox));
    Ok(boxes)
}

/// Returns the cursor; `None` when it cannot be parsed, because a repeated message is better than a lost one.
fn read_cursor(dir: &Dir, mailbox: &Mailbox) -> Result<Option<CursorFile>> {
    let read = dir.read(&layout::mail_cursor(mailbox))?;
    Ok(read.and_then(|(bytes, _)| {
        serde_json::from_slice(&bytes).ok_or_trace("parse the cursor of a mailbox")
    }))
}

/// Returns how far a mailbox has been read.
pub(super) fn cursor(team: &Dir, mailbox: &Mailbox) -> Result<MailCursor> {
    let Some(dir) = folder(team, mailbox)? else {
        return Ok(MailCursor::default());
    };
    let (first, live) = numbers(&dir, mailbox)?;
    let Some(file) = read_cursor(&dir, mailbox)? else {
        return Ok(MailCursor {
            acked: position(first, 0),
            delivered: position(first, 0),
        });
    };
    let place = |segment: Option<u64>, bytes: u64| -> Result<Position> {
        let segment = segment.unwrap_or(live).clamp(first, live);
        let size = dir
            .stamp(&segment_file(mailbox, segment, live))?
            .map_or(0, |stamp| stamp.size);
        // The cursor is beyond the end of the file: another program has rewritten it.
        Ok(position(segment, if bytes > size { 0 } else { bytes }))
    };
    let acked = place(file.segment, file.bytes_read)?;
    let delivered = match file.delivered_bytes {
        Some(bytes) => place(file.delivered_segment, bytes)?.max(acked),
        None => acked,
    };
    Ok(MailCursor { acked, delivered })
}

/// Returns the cursor file's new content.
pub(super) fn staged_cursor(
    team: &Dir,
    mailbox: &Mailbox,
    cursor: MailCursor,
) -> Result<StagedFile> {
    let live = match folder(team, mailbox)? {
        Some(dir) => numbers(&dir, mailbox)?.1,
        None => 1,
    };
    let place = |position: Position| {
        let (segment, offset) = split(position);
        (Some(segment).filter(|segment| *segment < live), offset)
    };
    let (segment, bytes_read) = place(cursor.acked);
    let (delivered_segment, delivered) = place(cursor.delivered);
    let file = CursorFile {
        segment,
        bytes_read,
        delivered_segment,
        delivered_bytes: (cursor.delivered != cursor.acked).then_some(delivered),
    };
    let folder = if matches!(mailbox, Mailbox::Outbox(_)) {
        layout::OUTBOX
    } else {
        layout::INBOX
    };
    Ok(StagedFile {
        folder: Some(folder),
        name: layout::mail_cursor(mailbox),
        bytes: serde_json::to_vec(&file).ok(),
    })
}

/// Returns up to `limit` complete lines from a position on, each with the position after it.
pub(super) fn lines(
    team: &Dir,
    mailbox: &Mailbox,
    from: Position,
    limit: usize,
    page: &mut Option<MailPage>,
) -> Result<Vec<(Position, Result<Message, String>)>> {
    lines_as(team, mailbox, from, limit, page, |text, segment, behind| {
        Message::parse(text)
            .map(|message| with_derived_id(message, mailbox, segment, behind).filed_in(mailbox))
    })
}

/// Returns every line of a mailbox for an export, each with the position after it.
pub(super) fn all_lines(team: &Dir, mailbox: &Mailbox) -> Result<Vec<(Position, MailLine)>> {
    let (mut page, mut from) = (None, Position::default());
    let mut all = Vec::new();
    loop {
        let found = lines_as(
            team,
            mailbox,
            from,
            1_000,
            &mut page,
            |text, segment, end| match MailLine::parse(text) {
                MailLine::Message(message) => {
                    let message = with_derived_id(message, mailbox, segment, end).filed_in(mailbox);
                    MailLine::Message(message)
                }
                foreign @ MailLine::Foreign(_) => foreign,
            },
        )?;
        let Some((last, _)) = found.last() else {
            return Ok(all);
        };
        from = *last;
        all.extend(found);
    }
}

/// Writes a mailbox with all its lines into the folder of a team that is not visible yet. Returns the position after
/// each line.
pub(super) fn write_whole(
    team: &Dir,
    whole: &ExportedMailbox,
    sync: Durability,
) -> Result<Vec<u64>> {
    let mailbox = &whole.mailbox;
    let dir = team.child_or_create(mailbox.folder())?;
    let mut bytes = Vec::new();
    let mut behind = Vec::with_capacity(whole.lines.len());
    for line in &whole.lines {
        bytes.extend(line.text().into_bytes());
        bytes.push(b'\n');
        behind.push(bytes.len() as u64);
    }
    dir.create_new(&layout::mail_file(mailbox), &bytes, sync)?;
    let place = |count: u64| {
        let lines = usize::try_from(count).unwrap_or(usize::MAX);
        lines
            .checked_sub(1)
            .and_then(|last| behind.get(last))
            .copied()
    };
    if let Some(delivered) = place(whole.delivered) {
        let file = CursorFile {
            bytes_read: place(whole.acked).unwrap_or(0),
            delivered_bytes: (whole.delivered != whole.acked).then_some(delivered),
            ..CursorFile::default()
        };
        let bytes = serde_json::to_vec(&file).unwrap_or_default();
        dir.create_new(&layout::mail_cursor(mailbox), &bytes, sync)?;
    }
    Ok(behind)
}

/// Returns up to `limit` complete lines from a position on, each converted by `read` from its text, its segment and the
/// offset after it.
fn lines_as<T>(
    team: &Dir,
    mailbox: &Mailbox,
    from: Position,
    limit: usize,
    page: &mut Option<MailPage>,
    read: impl Fn(&[u8], u64, u64) -> T,
) -> Result<Vec<(Position, T)>> {
    let Some(dir) = folder(team, mailbox)? else {
        return Ok(Vec::new());
    };
    let (first, live) = numbers(&dir, mailbox)?;
    let (mut segment, mut offset) = split(from);
    if segment < first {
        (segment, offset) = (first, 0);
    }
    while segment <= live {
        let known = page.as_ref().is_some_and(|page| {
            page.segment == segment && page.mailbox == *mailbox && page.start <= offset
        });
        if !known {
            let read = dir.read_from(&segment_file(mailbox, segment, live), offset)?;
            let bytes = read.map_or_else(Vec::new, |(bytes, _)| bytes);
            *page = Some(MailPage {
                mailbox: mailbox.clone(),
                segment,
                start: offset,
                bytes,
            });
        }
        let (start, bytes) = page
            .as_ref()
            .map_or((offset, &[][..]), |page| (page.start, &page.bytes[..]));
        let mut found = Vec::new();
        let mut at = usize::try_from(offset - start).unwrap_or(usize::MAX);
        while found.len() < limit
            && let Some(rest) = bytes.get(at..)
            && let Some(length) = rest.iter().position(|byte| *byte == b'\n')
        {
            at += length + 1;
            let behind = start + at as u64;
            let text = &rest[..length];
            if !text.iter().all(u8::is_ascii_whitespace) {
                found.push((position(segment, behind), read(text, segment, behind)));
            } else if let Some((last, _)) = found.last_mut() {
                *last = position(segment, behind);
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
        segment += 1;
        offset = 0;
    }
    Ok(Vec::new())
}

/// Gives a message that another program wrote without an id one derived from its position, so that it can be
/// acknowledged.
fn with_derived_id(message: Message, mailbox: &Mailbox, segment: u64, behind: u64) -> Message {
    if !message.id().is_empty() {
        return message;
    }
    let id = format!("{}@{segment}.{behind}", mailbox.label());
    message.with("id", id.into())
}

/// Appends each message to its mailbox: all of them, or none.
pub(super) fn append_all(
    store: &FileStore,
    held: &mut HeldTeam,
    mail: &[(Mailbox, Message)],
) -> Result<()> {
    if mail.is_empty() {
        return Ok(());
    }
    let mut boxes: Vec<(Dir, String, Vec<u8>)> = Vec::with_capacity(mail.len());
    for (mailbox, message) in mail {
        let dir = held.folders.team.child_or_create(mailbox.folder())?;
        let name = layout::mail_file(mailbox);
        let size = ready_for_append(&dir, mailbox, store.settings.sync)?;
        let owner = mailbox.owner().to_owned();
        held.note.mail.push(OpenMailbox {
            folder: mailbox.folder().to_owned(),
            owner,
            size,
        });
        boxes.push((dir, name, message.to_line()));
    }
    held.announce()?;
    let sync = store.settings.sync;
    let mut appended = 0;
    let mut written = Ok(());
    for ((dir, name, line), open) in boxes.iter().zip(&held.note.mail) {
        written = dir.append(name, line, sync).map(drop);
        if written.is_err() {
            break;
        }
        appended += 1;
        // The directory entry of a new mailbox must be synced too.
        if open.size == 0 && sync == Durability::Durable {
            written = dir.sync();
        }
        if written.is_err() {
            break;
        }
    }
    if written.is_err() {
        let undone = boxes.iter().zip(&held.note.mail).take(appended);
        let stuck = undone.filter(|((dir, name, _), open)| {
            let cut = dir.truncate(name, open.size);
            cut.ok_or_trace("take a message back").is_none()
        });
        if stuck.count() > 0 {
            // Some mailboxes have the message and it could not be removed again: the next holder of the lock completes
            // the delivery.
            held.leave_open();
        }
    }
    Ok(written?)
}

/// Repairs the last line of the live file, rotates it when it is full, and returns its size.
fn ready_for_append(dir: &Dir, mailbox: &Mailbox, sync: Durability) -> Result<u64> {
    let name = layout::mail_file(mailbox);
    let size = repair_tail(dir, &name)?;
    if size < FULL {
        return Ok(size);
    }
    let (_, live) = numbers(dir, mailbox)?;
    let cursor = layout::mail_cursor(mailbox);
    if let Some(mut file) = read_cursor(dir, mailbox)? {
        file.segment = file.segment.or(Some(live));
        file.delivered_segment = file
            .delivered_segment
            .or(file.delivered_bytes.map(|_| live));
        dir.replace(
            &cursor,
            &serde_json::to_vec(&file).unwrap_or_default(),
            sync,
        )?;
    }
    dir.rename_new(&name, dir, &layout::mail_segment(mailbox, live))?;
    if sync == Durability::Durable {
        dir.sync()?;
    }
    Ok(0)
}

/// Truncates a torn last line, or adds a missing line end to a complete one. Returns the size of the file afterwards.
fn repair_tail(dir: &Dir, name: &str) -> Result<u64> {
    let Some(stamp) = dir.stamp(name)? else {
        return Ok(0);
    };
    let mut last = [b'\n'];
    if stamp.size > 0 {
        dir.read_at(name, &mut last, stamp.size - 1)?;
    }
    if last == [b'\n'] {
        return Ok(stamp.size);
    }
    let bytes = dir.read(name)?.map_or_else(Vec::new, |(bytes, _)| bytes);
    let start = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |place| place + 1);
    if Message::parse(&bytes[start..]).is_ok() {
        dir.append(name, b"\n", Durability::Fast)?;
        return Ok(bytes.len() as u64 + 1);
    }
    dir.truncate(name, start as u64)?;
    Ok(start as u64)
}

/// Completes a send whose process was killed: if any mailbox has the message, every other recipient gets it too.
pub(super) fn roll_forward(store: &FileStore, held: &mut HeldTeam) -> Result<()> {
    let open_boxes = held.note.mail.clone();
    if open_boxes.is_empty() {
        return Ok(());
    }
    let mut sent: Option<Message> = None;
    let mut missing = Vec::new();
    for open in &open_boxes {
        let Some(mailbox) = recover::mailbox_of(&open.folder, &open.owner) else {
            continue;
        };
        let dir = held.folders.team.child_or_create(mailbox.folder())?;
        let name = layout::mail_file(&mailbox);
        if dir
            .stamp(&name)?
            .is_some_and(|stamp| stamp.kind != FileKind::File)
        {
            // Something other than a file is in its place; it cannot be repaired, and must not stop the others.
            continue;
        }
        repair_tail(&dir, &name)?;
        let tail = dir
            .read_from(&name, open.size)?
            .map_or_else(Vec::new, |(bytes, _)| bytes);
        // Another program may have appended too; our line is the one that carries the position of its event.
        let event = held.note.seq + 1;
        let mut lines = tail.split(|byte| *byte == b'\n').map(Message::parse);
        let ours = lines.find_map(|line| line.ok().filter(|line| line.seq() == Some(event)));
        match ours {
            Some(message) => sent = sent.or(Some(message)),
            None => missing.push((dir, name, mailbox)),
        }
    }
    let Some(message) = sent else {
        return Ok(());
    };
    for (dir, name, mailbox) in missing {
        let copy = message
            .clone()
            .with("id", teamster_fs::random_hex().into())
            .with("to", mailbox.owner().into());
        dir.append(&name, &copy.to_line(), store.settings.sync)?;
    }
    let to = if open_boxes.len() > 1 {
        "all"
    } else {
        message.to()
    };
    let event = recovered(&message, to, Some(open_boxes.len()));
    staged::journal_now(store, held, &[event])
}

/// Journals the messages again whose events were lost when the machine crashed.
pub(super) fn journal_lost_messages(store: &FileStore, held: &mut HeldTeam) -> Result<()> {
    let mut lost: Vec<(u64, NewEvent)> = Vec::new();
    for mailbox in all(&held.folders.team)? {
        let Some(dir) = folder(&held.folders.team, &mailbox)? else {
            continue;
        };
        repair_tail(&dir, &layout::mail_file(&mailbox))?;
        let bytes = dir
            .read(&layout::mail_file(&mailbox))?
            .map_or_else(Vec::new, |(bytes, _)| bytes);
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok(message) = Message::parse(line)
                && let Some(seq) = message.seq().filter(|seq| *seq > held.note.seq)
            {
                lost.push((seq, recovered(&message, message.to(), None)));
            }
        }
    }
    lost.sort_by_key(|(seq, _)| *seq);
    if lost.is_empty() {
        return Ok(());
    }
    let events: Vec<NewEvent> = lost.into_iter().map(|(_, event)| event).collect();
    staged::journal_now(store, held, &events)
}

fn recovered(message: &Message, to: &str, sent: Option<usize>) -> NewEvent {
    NewEvent::new(
        message.from(),
        EventKind::MessageSent(MessageSent {
            message_type: message.kind().to_owned(),
            content: message.content().to_owned(),
            to: Some(to.to_owned()),
            sent,
            message_id: Some(message.id().to_owned()),
            recovered: true,
            ..MessageSent::default()
        }),
    )
}
