//! Reading the journal page by page.
//!
//! Positions grow by one from line to line, so a place is found by halving: "from seq" costs the same at a thousand events
//! and at a million, and there is no index that could disagree with the file. Who reads on is spared even that: where it
//! left off is kept in mind, and believed only if the event that was read last still stands there.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use teamster_fs::{Dir, Stamp, layout};
use teamster_journal::{Event, LINE_LIMIT};

use super::journal::{self, LinesBackwards};
use crate::error::Result;
use crate::store::{Damaged, JournalPage};

/// How much is read at once: few events need less than many.
const LEAST: usize = 16 * 1024;
pub(super) const MOST: usize = 512 * 1024;
/// What an event usually takes, for guessing how much a page needs.
const USUAL_LINE: usize = 400;
/// A part of the file of this size is read rather than halved again.
const CLOSE: u64 = 64 * 1024;
/// One whole line is in a part of the file of this size, if we wrote it.
const PROBE: usize = 2 * LINE_LIMIT + 1024;
/// Readers whose places are kept in mind.
const READERS: usize = 32;
/// A place that is so many events back is as good as the right one.
const NEARBY: u64 = 64;
/// A segment is filled once in a long while; nobody meets that twice in one read.
const TRIES: usize = 4;

/// Where readers of journals left off.
#[derive(Debug, Default)]
pub(super) struct ReadPlaces(Mutex<VecDeque<ReadPlace>>);

/// The last event that somebody read.
#[derive(Clone, Debug)]
struct ReadPlace {
    /// The team's folder: another team of the same name has another.
    folder: u64,
    /// Its file: a segment that is full has the same under another name.
    file: u64,
    /// Where its line begins.
    begin: u64,
    seq: u64,
    /// Unique among all events. Where the line says so, everything before it is as it was.
    id: String,
    /// How the live file looked when there was nothing behind this event.
    end: Option<Stamp>,
}

/// Where a reading begins.
struct PageStart {
    /// The place of the file among all.
    file: usize,
    offset: u64,
    /// What has to stand there.
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
                Some(place) => files.proven(team, place)?,
                None => None,
            };
            let is_known = start.is_some();
            let start = match start {
                Some(start) => start,
                None => files.halve(team, from)?,
            };
            let read = files.read(team, &start, from, limit)?;
            let has_moved = files.has_another(team)?;
            let Some((page, last)) = read.filter(|_| !has_moved || tries >= TRIES) else {
                // Either the file is another one than the reader knew, or it was moved aside while it was read.
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

    /// Returns the place that is not far before `from`.
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

/// The last event that a reading came by: its file, where its line begins and ends, its position and its id.
type Last = (u64, u64, u64, u64, String);

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

    /// Tells whether the live file has become a segment since: then what was read under its name is of two files.
    pub(super) fn has_another(&self, team: &Dir) -> Result<bool> {
        let next = layout::journal_segment(self.segments + 1);
        Ok(team.stamp(&next)?.is_some())
    }

    /// Returns where a reader goes on, if the file is still there.
    fn proven(&self, team: &Dir, place: &ReadPlace) -> Result<Option<PageStart>> {
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

    /// At or shortly before the event `from`.
    pub(super) fn place_of(&self, team: &Dir, from: u64) -> Result<(usize, u64)> {
        let start = self.halve(team, from)?;
        Ok((start.file, start.offset))
    }

    fn halve(&self, team: &Dir, from: u64) -> Result<PageStart> {
        // The last file whose first event is not after `from` is the one to begin in.
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

    /// Reads from a place on; `None` where something else stands there than has to.
    fn read(
        &self,
        team: &Dir,
        start: &PageStart,
        from: u64,
        limit: usize,
    ) -> Result<Option<(JournalPage, Option<Last>)>> {
        let mut page = JournalPage::default();
        // Where each event stands, and where the last one before them does.
        let mut lasts: Vec<(u64, u64, u64)> = Vec::new();
        let mut before: Option<Last> = None;
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
            // The file is shorter than it was.
            return Ok(None);
        }
        // A commit of several events is there with its last one, or not at all.
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
                // The commit was not finished: it did not happen.
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

/// Every event of a journal in a folder, in order, until `tell` says that it is enough; the lines that are no events.
/// Under the journal's own name its full segments belong to it, under any other name it is one file. Long texts come
/// from the blobs beside it.
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

/// Returns the report of a line that is no event.
pub(super) fn damaged(file: &str, at: u64, error: &serde_json::Error) -> Damaged {
    Damaged {
        file: format!("{file} at byte {at}"),
        error: error.to_string(),
    }
}

/// Returns the first event whose line begins at or after `offset` (at 0) or behind the line that `offset` lies in: where it
/// begins, and its position.
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
            if let Ok(Numbered { seq }) = serde_json::from_slice(&bytes[at..at + length]) {
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

/// The position of an event, for whoever needs nothing else of it.
#[derive(serde::Deserialize)]
struct Numbered {
    seq: u64,
}

/// Whole lines of a file, from an offset on.
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
            // A line longer than the chunk was not written by us, but must not hide those behind it.
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

    /// Returns the offset behind the line.
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
