//! Reads the journal page by page.
//!
//! Positions increase by one from line to line, so an event is found by binary search: reading from a position costs
//! about the same in a journal of a thousand events and of a million, and no index can disagree with the file. A reader
//! that continues is spared even the search: its last place is cached, and trusted only if the event read last is still
//! there.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use teamster_fs::{Dir, Stamp, layout};
use teamster_journal::{Event, LINE_LIMIT};

use super::journal::{self, LinesBackwards};
use crate::error::Result;
use crate::store::{Damaged, JournalPage};

/// The smallest read. The size of a read depends on the number of events wanted.
const LEAST: usize = 16 * 1024;
pub(super) const MOST: usize = 512 * 1024;
/// The typical size of an event, for estimating the size of a page.
const USUAL_LINE: usize = 400;
/// The size at which the binary search stops and the rest is read.
const CLOSE: u64 = 64 * 1024;
/// The size of a read that contains at least one complete line, if teamster wrote it.
const PROBE: usize = 2 * LINE_LIMIT + 1024;
/// The maximum number of cached places.
const READERS: usize = 32;
/// A cached place is used up to this many events before the wanted one.
const NEARBY: u64 = 64;
/// How often a read is repeated because the journal was rotated meanwhile. Rotations are rare, so one repetition is
/// nearly always enough.
const TRIES: usize = 4;

/// A cache of the places where readers of journals stopped.
#[derive(Debug, Default)]
pub(super) struct ReadPlaces(Mutex<VecDeque<ReadPlace>>);

/// The last event that a reader got.
#[derive(Clone, Debug)]
struct ReadPlace {
    /// The inode of the team's folder: a later team of the same name has another one.
    folder: u64,
    /// The inode of its file, which stays the same when the live file becomes a segment.
    file: u64,
    /// The offset of its line.
    begin: u64,
    seq: u64,
    /// The event's unique id. If the line still carries it, everything before the line is unchanged.
    id: String,
    /// The stamp of the live file if this event was the last one in it.
    end: Option<Stamp>,
}

/// Where a read begins.
struct PageStart {
    /// The index of the file in `JournalFiles::names`.
    file: usize,
    offset: u64,
    /// The position and id that the event at this offset must have.
    proof: Option<(u64, String)>,
}

impl ReadPlaces {
    /// Returns up to `limit` events from position `from` on.
    pub(super) fn read(&self, team: &Dir, from: u64, limit: usize) -> Result<JournalPage> {
        if limit == 0 {
            return Ok(JournalPage::default());
        }
        let folder = team.own_stamp()?.inode;
        let mut known = self.nearest(folder, from);
        let live = team.stamp(layout::JOURNAL)?;
        if let Some(place) = &known
            && place.end.is_some()
            && place.end == live
        {
            return Ok(JournalPage::default());
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let files = JournalFiles::of(team)?;
            let start = match &known {
                Some(place) => files.resume_at(team, place)?,
                None => None,
            };
            let is_known = start.is_some();
            let start = match start {
                Some(start) => start,
                None => files.bisect(team, from)?,
            };
            let read = files.read(team, &start, from, limit)?;
            let has_moved = files.has_another(team)?;
            let Some((page, last)) = read.filter(|_| !has_moved || tries >= TRIES) else {
                // Either the file is not the one that the reader knew, or it was rotated during the read.
                if is_known && !has_moved {
                    self.forget(known.take());
                }
                continue;
            };
            if let Some((file, begin, end, seq, id)) = last {
                let is_last = live.filter(|live| live.inode == file && live.size == end);
                let place = ReadPlace {
                    folder,
                    file,
                    begin,
                    seq,
                    id,
                    end: is_last,
                };
                self.remember(known.as_ref(), place);
            }
            return Ok(page);
        }
    }

    /// Returns the nearest cached place before `from`.
    fn nearest(&self, folder: u64, from: u64) -> Option<ReadPlace> {
        let places = self.lock();
        let suits = |place: &&ReadPlace| {
            place.folder == folder && place.seq < from && from - place.seq <= NEARBY
        };
        let nearest = places.iter().filter(suits).max_by_key(|place| place.seq);
        nearest.cloned()
    }

    fn remember(&self, before: Option<&ReadPlace>, place: ReadPlace) {
        let mut places = self.lock();
        let is_same = |one: &ReadPlace, other: &ReadPlace| {
            one.folder == other.folder && one.file == other.file && one.seq == other.seq
        };
        places.retain(|known| {
            !is_same(known, &place) && before.is_none_or(|before| !is_same(known, before))
        });
        places.truncate(READERS - 1);
        places.push_front(place);
    }

    fn forget(&self, place: Option<ReadPlace>) {
        if let Some(place) = place {
            let is_it = |known: &ReadPlace| known.folder == place.folder && known.id == place.id;
            self.lock().retain(|known| !is_it(known));
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<ReadPlace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of a journal at one moment, the oldest first and the live one last.
pub(super) struct JournalFiles {
    pub(super) names: Vec<String>,
    segments: u64,
}

/// The last event that a read passed: its file, the offsets where its line begins and ends, its position and its id.
type LastRead = (u64, u64, u64, u64, String);

impl JournalFiles {
    pub(super) fn of(team: &Dir) -> Result<Self> {
        let segments = journal::segments(team)?;
        let last = segments.last().map_or(0, |(number, _)| *number);
        let mut names: Vec<String> = segments.into_iter().map(|(_, name)| name).collect();
        names.push(layout::JOURNAL.to_owned());
        Ok(Self {
            names,
            segments: last,
        })
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns whether the live file has been rotated since: what was read under its name may then come from two files.
    pub(super) fn has_another(&self, team: &Dir) -> Result<bool> {
        let next = layout::journal_segment(self.segments + 1);
        Ok(team.stamp(&next)?.is_some())
    }

    /// Returns where a reader continues, if its file still exists.
    fn resume_at(&self, team: &Dir, place: &ReadPlace) -> Result<Option<PageStart>> {
        for (number, name) in self.names.iter().enumerate().rev() {
            if team
                .stamp(name)?
                .is_some_and(|stamp| stamp.inode == place.file)
            {
                return Ok(Some(PageStart {
                    file: number,
                    offset: place.begin,
                    proof: Some((place.seq, place.id.clone())),
                }));
            }
        }
        Ok(None)
    }

    /// Returns the file and offset at or shortly before the event `from`.
    pub(super) fn place_of(&self, team: &Dir, from: u64) -> Result<(usize, u64)> {
        let start = self.bisect(team, from)?;
        Ok((start.file, start.offset))
    }

    fn bisect(&self, team: &Dir, from: u64) -> Result<PageStart> {
        // Begin in the last file whose first event is not after `from`.
        let mut file = self.names.len() - 1;
        while file > 0 {
            let first = seq_after(team, &self.names[file], 0)?;
            if first.is_some_and(|(_, first)| first <= from) {
                break;
            }
            file -= 1;
        }
        let name = &self.names[file];
        let mut low = 0;
        let mut high = team.stamp(name)?.map_or(0, |stamp| stamp.size);
        while high - low > CLOSE {
            let middle = low + (high - low) / 2;
            match seq_after(team, name, middle)? {
                Some((offset, seq)) if seq < from && offset < high => low = offset,
                _ => high = middle,
            }
        }
        Ok(PageStart {
            file,
            offset: low,
            proof: None,
        })
    }

    /// Reads from `start` on; `None` when the event there is not the expected one.
    fn read(
        &self,
        team: &Dir,
        start: &PageStart,
        from: u64,
        limit: usize,
    ) -> Result<Option<(JournalPage, Option<LastRead>)>> {
        let mut page = JournalPage::default();
        // The places of the events on the page, and of the last event before them.
        let mut lasts: Vec<(u64, u64, u64)> = Vec::new();
        let mut before: Option<LastRead> = None;
        let mut proof = start.proof.as_ref();
        for (number, name) in self.names.iter().enumerate().skip(start.file) {
            let file = team.stamp(name)?.map_or(0, |stamp| stamp.inode);
            let mut offset = if number == start.file {
                start.offset
            } else {
                0
            };
            while page.events.len() < limit {
                let wanted = (limit - page.events.len()).saturating_mul(USUAL_LINE);
                let chunk = Chunk::read(team, name, offset, wanted.clamp(LEAST, MOST))?;
                if chunk.is_empty() {
                    break;
                }
                for (at, line) in chunk.lines() {
                    if page.events.len() == limit {
                        break;
                    }
                    let parsed = serde_json::from_slice::<Event>(line);
                    if let Some((seq, id)) = proof.take() {
                        match &parsed {
                            Ok(event) if event.seq == *seq && event.id == *id => {}
                            _ => return Ok(None),
                        }
                    }
                    let end = at + line.len() as u64 + 1;
                    match parsed {
                        Ok(event) if event.seq < from => {
                            before = Some((file, at, end, event.seq, event.id));
                        }
                        Ok(mut event) => {
                            journal::inflate(team, &mut event)?;
                            lasts.push((file, at, end));
                            page.events.push(event);
                        }
                        Err(error) => page.damaged.push(damaged(name, at, &error)),
                    }
                }
                offset = chunk.end();
            }
        }
        if proof.is_some() {
            // The file is shorter than before.
            return Ok(None);
        }
        // A commit of several events counts only together with its last one.
        if page.events.len() < limit {
            let whole = page.events.iter().rposition(|event| !event.more);
            page.events.truncate(whole.map_or(0, |place| place + 1));
        }
        let last = match page.events.last() {
            Some(event) => {
                let (file, begin, end) = lasts[page.events.len() - 1];
                Some((file, begin, end, event.seq, event.id.clone()))
            }
            None => before,
        };
        Ok(Some((page, last)))
    }
}

/// Returns the last `count` events, read from the end.
pub(super) fn last(team: &Dir, count: usize) -> Result<JournalPage> {
    let mut tries = 0;
    loop {
        tries += 1;
        let files = JournalFiles::of(team)?;
        let page = last_in(team, &files, count)?;
        if tries >= TRIES || !files.has_another(team)? {
            return Ok(page);
        }
    }
}

fn last_in(team: &Dir, files: &JournalFiles, count: usize) -> Result<JournalPage> {
    let mut page = JournalPage::default();
    let mut newest = None;
    'files: for name in files.names.iter().rev() {
        let end = team.stamp(name)?.map_or(0, |stamp| stamp.size);
        let mut lines = LinesBackwards::new(team, name, end);
        let mut is_last_line = name == layout::JOURNAL;
        while page.events.len() < count
            && let Some((at, line, is_whole)) = lines.next_line()?
        {
            let is_torn = std::mem::take(&mut is_last_line) && !is_whole;
            if is_torn {
                continue;
            }
            match serde_json::from_slice::<Event>(&line) {
                // The commit is incomplete, so it did not happen.
                Ok(event) if newest.is_none() && event.more => {}
                Ok(mut event) => {
                    let newest = *newest.get_or_insert(event.seq);
                    if event.seq.saturating_add(count as u64) <= newest {
                        break 'files;
                    }
                    journal::inflate(team, &mut event)?;
                    page.events.push(event);
                }
                Err(error) => page.damaged.push(damaged(name, at, &error)),
            }
        }
    }
    page.events.reverse();
    page.damaged.reverse();
    Ok(page)
}

/// Passes every event of a journal in a folder to `tell`, in order, until it returns false; returns the lines that are
/// not events. With the name of the live journal, its full segments are included; any other name is a single file. Long
/// texts come from the blobs beside it.
pub fn each_event(
    folder: &Dir,
    name: &str,
    tell: &mut dyn FnMut(Event) -> bool,
) -> Result<Vec<Damaged>> {
    let names = if name == layout::JOURNAL {
        JournalFiles::of(folder)?.names
    } else {
        vec![name.to_owned()]
    };
    let mut lines = Vec::new();
    for name in names {
        let mut offset = 0;
        loop {
            let chunk = Chunk::read(folder, &name, offset, MOST)?;
            if chunk.is_empty() {
                break;
            }
            for (at, line) in chunk.lines() {
                match serde_json::from_slice::<Event>(line) {
                    Ok(mut event) => {
                        journal::inflate(folder, &mut event)?;
                        if !tell(event) {
                            return Ok(lines);
                        }
                    }
                    Err(error) => lines.push(damaged(&name, at, &error)),
                }
            }
            offset = chunk.end();
        }
    }
    Ok(lines)
}

/// Returns the report of a line that is not an event.
pub(super) fn damaged(file: &str, at: u64, error: &serde_json::Error) -> Damaged {
    Damaged {
        file: format!("{file} at byte {at}"),
        error: error.to_string(),
    }
}

/// Returns the offset and position of the first event after the line that contains `offset`; with offset 0, of the
/// first event of the file.
fn seq_after(team: &Dir, name: &str, offset: u64) -> Result<Option<(u64, u64)>> {
    let mut size = PROBE;
    loop {
        let mut bytes = vec![0; size];
        let count = team.read_at(name, &mut bytes, offset)?.unwrap_or(0);
        let bytes = &bytes[..count];
        let begin = match memchr::memchr(b'\n', bytes) {
            _ if offset == 0 => Some(0),
            Some(newline) => Some(newline + 1),
            None => None,
        };
        let mut at = begin.unwrap_or(count);
        while let Some(length) = memchr::memchr(b'\n', &bytes[at..]) {
            if let Ok(EventPosition { seq }) = serde_json::from_slice(&bytes[at..at + length]) {
                return Ok(Some((offset + at as u64, seq)));
            }
            at += length + 1;
        }
        if count < size || size >= MOST {
            return Ok(None);
        }
        size *= 4;
    }
}

/// An event of which only the position is needed.
#[derive(serde::Deserialize)]
struct EventPosition {
    seq: u64,
}

/// Complete lines of a file, from an offset on.
pub(super) struct Chunk {
    offset: u64,
    bytes: Vec<u8>,
}

impl Chunk {
    pub(super) fn read(team: &Dir, name: &str, offset: u64, size: usize) -> Result<Self> {
        let mut size = size;
        loop {
            let mut bytes = vec![0; size];
            let count = team.read_at(name, &mut bytes, offset)?.unwrap_or(0);
            let end = memchr::memrchr(b'\n', &bytes[..count]);
            // Only a foreign program writes a line longer than the chunk, but it must not hide the lines after it.
            if end.is_none() && count == size {
                size *= 4;
                continue;
            }
            bytes.truncate(end.map_or(0, |end| end + 1));
            return Ok(Self { offset, bytes });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the offset after the last line.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Returns the lines without their ends, each with its offset.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut at = 0;
        memchr::memchr_iter(b'\n', &self.bytes).map(move |end| {
            let line = (self.offset + at as u64, &self.bytes[at..end]);
            at = end + 1;
            line
        })
    }
}
