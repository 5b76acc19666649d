//! Claude Code's own locks: a folder `{file}.lock/` beside the file, gone when free, its modification time kept fresh.
//!
//! A folder holds no name of its owner, and we must never remove a foreign one. So ours are made elsewhere, given a
//! modification time that nothing else has, noted, and only then moved to their place, where the move fails if
//! somebody else's stands there. A killed process's folder is recognised by that time. (Making and removing a folder
//! costs four times as much as moving one, so they are kept and used again.)

use teamster_fs::{Dir, layout};
use teamster_types::Time;

use super::held_team::HeldTeam;
use super::note::PlacedFolder;
use crate::error::{Result, StoreError};

/// A foreign lock folder that nobody has touched for so long belongs to a dead process; its client gives up after 10 s.
const ABANDONED: std::time::Duration = std::time::Duration::from_secs(30);

/// The place of locks in the team's own folder.
pub(super) const TEAM: &str = "team";

/// Lock folders that a change holds.
#[derive(Debug, Default)]
pub(super) struct FolderLocks {
    placed: Vec<(PlacedFolder, String)>,
    pool: Option<Dir>,
}

impl FolderLocks {
    /// Locks `file` in `within` against Claude Code. Busy when it has the lock.
    pub(super) fn take(
        &mut self,
        held: &mut HeldTeam,
        within: &str,
        file: &str,
        now: Time,
        random: &str,
    ) -> Result<()> {
        let name = layout::native_lock(file);
        if self
            .placed
            .iter()
            .any(|(folder, _)| folder.name == name && folder.within == within)
        {
            return Ok(());
        }
        let pool = match self.pool.take() {
            Some(pool) => pool,
            None => held.folders.team.child_or_create(layout::LOCK_FOLDERS)?,
        };
        let spare = self.placed.len().to_string();
        pool.make_dir(&spare)?;
        let mark = mark(now, random);
        pool.set_modified(&spare, mark)?;
        let placed = PlacedFolder {
            within: within.to_owned(),
            name: name.clone(),
            mark,
        };
        held.note.folders.push(placed.clone());
        held.announce()?;
        let taken = at_place(held, within, |place| {
            if pool.rename_new(&spare, place, &name)? {
                return Ok(());
            }
            let age = clear_abandoned(place, &name, now)?;
            Err(StoreError::busy(format!(
                "{} is being written by another program (its lock folder {name} is {age} s old); nothing was changed",
                place.join(file).display()
            ))
            .hint("try again in a moment"))
        });
        self.pool = Some(pool);
        if taken.is_err() {
            held.note.folders.pop();
        } else {
            self.placed.push((placed, spare));
        }
        taken
    }

    /// Refuses to go on if one of ours is not ours any more: its client thought us dead and took it over.
    pub(super) fn verify(&self, held: &HeldTeam) -> Result<()> {
        for (folder, _) in &self.placed {
            let there = at_place(held, &folder.within, |place| Ok(place.stamp(&folder.name)?))?;
            if there.is_none_or(|stamp| stamp.modified != folder.mark) {
                return Err(StoreError::busy(format!(
                    "the lock folder {} was taken over by another program; nothing was changed",
                    folder.name
                ))
                .hint("try again in a moment"));
            }
        }
        Ok(())
    }

    /// Gives all of them back.
    pub(super) fn release(&mut self, held: &HeldTeam) -> Result<()> {
        let mut first_error = None;
        for (folder, spare) in self.placed.drain(..) {
            if let Err(error) = put_back(held, &folder, &spare) {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}

/// Returns a modification time of now whose last nine digits nothing else has.
fn mark(now: Time, random: &str) -> i64 {
    let noise = i64::from_str_radix(random.get(..7).unwrap_or("0"), 16).unwrap_or(0);
    now.as_millis() / 1000 * 1_000_000_000 + noise
}

fn at_place<T>(held: &HeldTeam, within: &str, then: impl FnOnce(&Dir) -> Result<T>) -> Result<T> {
    match within {
        "tasks" => then(&held.folders.tasks),
        TEAM => then(&held.folders.team),
        folder => then(&held.folders.team.child_or_create(folder)?),
    }
}

/// Moves a lock folder back to the pool, if it is still ours.
pub(super) fn put_back(held: &HeldTeam, folder: &PlacedFolder, spare: &str) -> Result<()> {
    at_place(held, &folder.within, |place| {
        match place.stamp(&folder.name)? {
            Some(stamp) if stamp.modified == folder.mark => {
                let pool = held.folders.team.child_or_create(layout::LOCK_FOLDERS)?;
                if !place.rename_new(&folder.name, &pool, spare)? {
                    place.remove_dir(&folder.name)?;
                }
            }
            // Another program thought it abandoned and took it over; it is not ours to touch any more.
            _ => {}
        }
        Ok(())
    })
}

/// Removes a foreign lock folder that was abandoned long ago. Its age in seconds.
fn clear_abandoned(place: &Dir, name: &str, now: Time) -> Result<u64> {
    let Some(stamp) = place.stamp(name)? else {
        return Ok(0);
    };
    let age = now.since(Time::from_millis(stamp.modified / 1_000_000));
    if age >= ABANDONED {
        place.remove_dir(name)?;
    }
    Ok(age.as_secs())
}
