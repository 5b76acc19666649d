//! Journal lines that are not events.
//!
//! A journal is append-only, so the part of a file that was checked is not read again unless the file was replaced or
//! rewritten. A process that watches a team reads only the new lines.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use teamster_fs::{Dir, Stamp};

use super::event_outline::EventOutline;
use super::pages::{Chunk, JournalFiles, MOST, damaged};
use crate::error::Result;
use crate::store::Damaged;

/// The maximum number of lines that are reported; the others are only counted.
const MOST_TOLD: usize = 20;
/// The maximum number of journal files in the cache.
const JOURNALS: usize = 256;

/// A cache of journal lines that are not events, by the inode of the journal file.
#[derive(Debug, Default)]
pub(super) struct DamagedLines(Mutex<HashMap<u64, SeenFile>>);

/// The checked part of one journal file.
#[derive(Clone, Debug)]
struct SeenFile {
    stamp: Stamp,
    /// The offset of the first unchecked line.
    end: u64,
    lines: Vec<Damaged>,
    count: usize,
}

impl DamagedLines {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, SeenFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first lines that are not events, by their places, and the number of all such lines.
    pub(super) fn of(&self, team: &Dir) -> Result<(Vec<Damaged>, usize)> {
        let (mut lines, mut count) = (Vec::new(), 0);
        for name in JournalFiles::of(team)?.names {
            let Some(stamp) = team.stamp(&name)? else {
                continue;
            };
            let seen = self.seen(team, &name, stamp)?;
            lines.extend(seen.lines);
            count += seen.count;
        }
        lines.truncate(MOST_TOLD);
        Ok((lines, count))
    }

    fn seen(&self, team: &Dir, name: &str, stamp: Stamp) -> Result<SeenFile> {
        let mut seen = match self.lock().get(&stamp.inode).cloned() {
            Some(seen) if seen.stamp == stamp => return Ok(seen),
            Some(seen) if seen.stamp.size < stamp.size => seen,
            // A new file, or one that changed without growing, because it was overwritten.
            _ => SeenFile {
                stamp,
                end: 0,
                lines: Vec::new(),
                count: 0,
            },
        };
        loop {
            let chunk = Chunk::read(team, name, seen.end, MOST)?;
            if chunk.is_empty() {
                break;
            }
            for (at, line) in chunk.lines() {
                if let Err(error) = EventOutline::of(line) {
                    seen.count += 1;
                    if seen.lines.len() < MOST_TOLD {
                        seen.lines.push(damaged(name, at, &error));
                    }
                }
            }
            seen.end = chunk.end();
        }
        let inode = stamp.inode;
        seen.stamp = stamp;
        let mut known = self.lock();
        if known.len() >= JOURNALS {
            known.clear();
        }
        known.insert(inode, seen.clone());
        Ok(seen)
    }
}
