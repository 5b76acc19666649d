//! The last event of a type, however long ago it was.
//!
//! A run may have entered its stage a million events ago, and `status` must not parse them. So the bytes are searched,
//! from the end, and only a line that has the type's word is read. Who asks again is told from where it was left off.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memchr::memmem::FinderRev;
use teamster_fs::Dir;
use teamster_types::event::{Event, LINE_LIMIT};

use super::journal::{files, inflate, position, read};
use crate::error::Result;

/// How much is searched at once.
const CHUNK: u64 = 1024 * 1024;
/// A line that begins or ends in another chunk is whole with so much more on both sides.
const MARGIN: u64 = LINE_LIMIT as u64 + 1;
/// So many new events are read rather than searched for.
const FEW: u64 = 5_000;

/// For a team's folder and some types: up to which position was looked, and what was found.
type Found = HashMap<(u64, String), (u64, Option<Event>)>;

/// What was found before.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<Found>);

impl Known {
    /// The last event whose type begins with one of `kinds`.
    pub(super) fn last_of(&self, team: &Dir, kinds: &[&str]) -> Result<Option<Event>> {
        let last = position(team)?;
        // Another team of the same name has another folder.
        let key = (team.own_stamp()?.inode, kinds.join(" "));
        let known = self.lock().get(&key).cloned();
        let found = match known {
            Some((seen, found)) if seen <= last && last - seen <= FEW => {
                let limit = usize::try_from(last - seen).unwrap_or(0);
                let events = read(team, seen + 1, limit)?.events;
                let newer = events.into_iter().rfind(|event| fits(event, last, kinds));
                newer.or(found)
            }
            _ => search(team, last, kinds)?,
        };
        self.lock().insert(key, (last, found.clone()));
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Beyond `last` there is only a commit that was not finished, which did not happen.
fn fits(event: &Event, last: u64, kinds: &[&str]) -> bool {
    event.seq <= last && kinds.iter().any(|kind| event.kind.starts_with(kind))
}

fn search(team: &Dir, last: u64, kinds: &[&str]) -> Result<Option<Event>> {
    let words: Vec<String> = kinds
        .iter()
        .map(|kind| format!("\"type\":\"{kind}"))
        .collect();
    let finders: Vec<FinderRev<'_>> = words.iter().map(FinderRev::new).collect();
    for name in files(team)?.iter().rev() {
        let size = team.stamp(name)?.map_or(0, |stamp| stamp.size);
        let mut end = size;
        while end > 0 {
            let begin = end.saturating_sub(CHUNK);
            let from = begin.saturating_sub(MARGIN);
            let to = (end + MARGIN).min(size);
            let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(0)];
            let count = team.read_at(name, &mut bytes, from)?.unwrap_or(0);
            bytes.truncate(count);
            let place = |offset: u64| usize::try_from(offset - from).unwrap_or(0).min(count);
            // What begins behind `end` was looked at with the chunk before.
            let longest = words.iter().map(String::len).max().unwrap_or(0) as u64;
            let mut upto = place((end + longest).min(to));
            while let Some(at) = finders
                .iter()
                .filter_map(|finder| finder.rfind(&bytes[..upto]))
                .max()
                .filter(|at| *at >= place(begin))
            {
                if let Some(mut event) = line_at(&bytes, at)
                    && fits(&event, last, kinds)
                {
                    inflate(team, &mut event)?;
                    return Ok(Some(event));
                }
                // A word in somebody's data, or a line that is none: it is gone on before it.
                upto = at + 1;
            }
            end = begin;
        }
    }
    Ok(None)
}

/// The event whose line has the byte `at`.
fn line_at(bytes: &[u8], at: usize) -> Option<Event> {
    let begin = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |newline| newline + 1);
    let end = at + memchr::memchr(b'\n', &bytes[at..])?;
    serde_json::from_slice(&bytes[begin..end]).ok()
}
