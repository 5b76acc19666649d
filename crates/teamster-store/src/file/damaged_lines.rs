//! Lines of journals that are no events.
//!
//! A journal only grows, so what was looked at once is not looked at again while its file is the same and not shorter. A process
//! that watches a team reads only what was added; one that asks once reads the journal once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use teamster_fs::{Dir, Stamp};
use teamster_journal::Event;

use super::pages::{Chunk, JournalFiles, MOST, damaged};
use crate::error::Result;
use crate::store::Damaged;

/// How many lines are told; the others are counted.
const MOST_TOLD: usize = 20;
/// Journals that are kept in mind.
const JOURNALS: usize = 256;

/// Lines of journals that are no events, as far as they were looked at.
#[derive(Debug, Default)]
pub(super) struct DamagedLines(Mutex<HashMap<u64, SeenFile>>);

/// One file of a journal, by its inode.
#[derive(Clone, Debug)]
struct SeenFile {
    stamp: Stamp,
    /// Where the next line begins.
    end: u64,
    lines: Vec<Damaged>,
    count: usize,
}

impl DamagedLines {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, SeenFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first lines that are no events, by their places, and how many there are.
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
            // Another file, or one that changed without having grown: somebody wrote over it.
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
                if let Err(error) = serde_json::from_slice::<Event>(line) {
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
