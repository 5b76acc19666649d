//! Finds the last event of a type, however old it is.
//!
//! A run may have entered its stage a million events ago, and `status` must not parse them all. So the bytes are
//! searched backwards for several types at once, and only lines that contain a wanted type are parsed. A repeated query
//! searches only the events since the last one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memchr::memmem::{Finder, FinderRev};
use teamster_fs::Dir;
use teamster_journal::{Event, LINE_LIMIT};

use super::journal::{inflate, position};
use super::pages::{JournalFiles, ReadPlaces};
use crate::error::Result;

/// How many bytes are searched at once: few enough for the CPU cache, so that several types cost little more than one.
const CHUNK: u64 = 256 * 1024;
/// The extra bytes read on both sides of a chunk, so that a line across its border is complete.
const MARGIN: u64 = LINE_LIMIT as u64 + 1;
/// Up to this many new events are parsed one by one instead of searched.
const FEW: u64 = 1_000;

/// The results of earlier queries, by team folder and types: the position searched up to, and the event found.
type FoundEvents = HashMap<(u64, String), (u64, Option<Event>)>;

/// A cache of earlier results.
#[derive(Debug, Default)]
pub(super) struct LastEvents(Mutex<FoundEvents>);

/// One query and what is known of its result.
struct LastQuery<'a> {
    kinds: &'a [&'a str],
    key: (u64, String),
    /// The position up to which earlier queries have searched.
    seen: u64,
    /// The event that earlier queries found.
    before: Option<Event>,
    /// The event that was found after `seen`.
    newer: Option<Event>,
}

impl LastEvents {
    /// Returns, for each list of type prefixes, the last event that matches.
    pub(super) fn last_of_each(
        &self,
        team: &Dir,
        places: &ReadPlaces,
        asked: &[&[&str]],
    ) -> Result<Vec<Option<Event>>> {
        let last = position(team)?;
        // A later team of the same name has another folder.
        let folder = team.own_stamp()?.inode;
        let mut questions: Vec<LastQuery<'_>> = asked
            .iter()
            .map(|kinds| self.question(folder, kinds, last))
            .collect();
        let seen = questions.iter().map(|question| question.seen).min();
        let seen = seen.unwrap_or(last);
        if last - seen > FEW {
            search(team, last, seen, &mut questions)?;
        } else if last > seen {
            let limit = usize::try_from(last - seen).unwrap_or(0);
            for event in places.read(team, seen + 1, limit)?.events.iter().rev() {
                for question in &mut questions {
                    if question.is_open() && question.fits(event, last) {
                        question.newer = Some(event.clone());
                    }
                }
            }
        }
        let answered = questions.into_iter().map(|question| {
            let found = question.newer.or(question.before);
            self.lock().insert(question.key, (last, found.clone()));
            found
        });
        Ok(answered.collect())
    }

    fn question<'a>(&self, folder: u64, kinds: &'a [&'a str], last: u64) -> LastQuery<'a> {
        let key = (folder, kinds.join(" "));
        let known = self.lock().get(&key).cloned();
        // A journal that has become shorter is a different one.
        let (seen, before) = known.filter(|(seen, _)| *seen <= last).unwrap_or_default();
        LastQuery {
            kinds,
            key,
            seen,
            before,
            newer: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, FoundEvents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LastQuery<'_> {
    fn is_open(&self) -> bool {
        self.newer.is_none()
    }

    /// Returns whether an event answers the query. After `last` there is only an incomplete commit, which did not
    /// happen.
    fn fits(&self, event: &Event, last: u64) -> bool {
        event.seq <= last
            && event.seq > self.seen
            && self.kinds.iter().any(|kind| event.kind.starts_with(kind))
    }
}

/// The search pattern of a type as it appears in a line. A fast forward search finds out whether it occurs at all; only
/// then a reverse search finds the last place.
struct TypeWord {
    bytes: String,
    is_there: Finder<'static>,
    last: FinderRev<'static>,
}

impl TypeWord {
    fn of(kind: &str) -> Self {
        let bytes = format!("\"type\":\"{kind}");
        Self {
            is_there: Finder::new(&bytes).into_owned(),
            last: FinderRev::new(&bytes).into_owned(),
            bytes,
        }
    }
}

/// Returns the patterns to search for, without those that begin with another one.
fn words(questions: &[LastQuery<'_>]) -> Vec<TypeWord> {
    let open = questions.iter().filter(|question| question.is_open());
    let mut kinds: Vec<&str> = open.flat_map(|question| question.kinds).copied().collect();
    kinds.sort_unstable();
    kinds.dedup_by(|longer, shorter| longer.starts_with(*shorter));
    kinds.into_iter().map(TypeWord::of).collect()
}

/// Searches backwards to the position `seen`, until every query is answered.
fn search(team: &Dir, last: u64, seen: u64, questions: &mut [LastQuery<'_>]) -> Result<()> {
    let files = JournalFiles::of(team)?;
    let (oldest, oldest_offset) = files.place_of(team, seen + 1)?;
    for (number, name) in files.names().iter().enumerate().rev() {
        if number < oldest {
            return Ok(());
        }
        let size = team.stamp(name)?.map_or(0, |stamp| stamp.size);
        let lowest = if number == oldest { oldest_offset } else { 0 };
        let mut end = size;
        while end > lowest {
            let words = words(questions);
            if words.is_empty() {
                return Ok(());
            }
            let begin = end.saturating_sub(CHUNK).max(lowest);
            look_through(team, name, (begin, end, size), last, &words, questions)?;
            end = begin;
        }
    }
    Ok(())
}

/// Searches a part of a file backwards.
fn look_through(
    team: &Dir,
    name: &str,
    (begin, end, size): (u64, u64, u64),
    last: u64,
    words: &[TypeWord],
    questions: &mut [LastQuery<'_>],
) -> Result<()> {
    let from = begin.saturating_sub(MARGIN);
    let to = (end + MARGIN).min(size);
    let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(0)];
    let count = team.read_at(name, &mut bytes, from)?.unwrap_or(0);
    bytes.truncate(count);
    let place = |offset: u64| usize::try_from(offset - from).unwrap_or(0).min(count);
    // A match that begins after `end` was found with the previous chunk.
    let longest = words.iter().map(|word| word.bytes.len()).max().unwrap_or(0);
    let mut upto = place((end + longest as u64).min(to));
    let part = &bytes[place(begin)..upto];
    let there: Vec<&TypeWord> = words
        .iter()
        .filter(|word| word.is_there.find(part).is_some())
        .collect();
    while let Some(at) = there
        .iter()
        .filter_map(|word| word.last.rfind(&bytes[..upto]))
        .max()
        .filter(|at| *at >= place(begin))
    {
        if let Some(mut event) = line_at(&bytes, at) {
            let asks = |question: &LastQuery<'_>| question.is_open() && question.fits(&event, last);
            if questions.iter().any(asks) {
                inflate(team, &mut event)?;
                for question in &mut *questions {
                    if question.is_open() && question.fits(&event, last) {
                        question.newer = Some(event.clone());
                    }
                }
                if !questions.iter().any(LastQuery::is_open) {
                    return Ok(());
                }
            }
        }
        // The match was inside other data, in a damaged line, or a repetition: go on before it.
        upto = at + 1;
    }
    Ok(())
}

/// Returns the event whose line contains the byte `at`.
fn line_at(bytes: &[u8], at: usize) -> Option<Event> {
    let begin = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |newline| newline + 1);
    let end = at + memchr::memchr(b'\n', &bytes[at..])?;
    serde_json::from_slice(&bytes[begin..end]).ok()
}
