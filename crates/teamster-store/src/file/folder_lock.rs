//! Claude Code's locks: a folder `{file}.lock/` beside the file, which exists while the lock is held and whose
//! modification time is kept fresh.
//!
//! A lock folder does not name its owner, and we must never remove a foreign one. So we create ours elsewhere, give it
//! a unique modification time, record it in the lock's note, and only then move it into place; the move fails if
//! another lock is there. The lock folder of a killed process is recognized by that time. (Creating and removing a
//! folder costs four times as much as moving one, so the folders are reused.)

use teamster_fs::{Dir, layout};
use teamster_types::Time;

use super::held_team::HeldTeam;
use super::note::OwnLockFolder;
use crate::error::{Result, StoreError};

/// The age at which an untouched foreign lock folder is abandoned: its process is dead. Claude Code itself gives up
/// after 10 s.
const ABANDONED: std::time::Duration = std::time::Duration::from_secs(30);

/// The value of `within` for locks in the team's own folder.
pub(super) const TEAM: &str = "team";

/// Lock folders that a change holds.
#[derive(Debug, Default)]
pub(super) struct FolderLocks {
    placed: Vec<(OwnLockFolder, String)>,
    pool: Option<Dir>,
}

impl FolderLocks {
    /// Locks `file` in `within` against Claude Code. Returns a busy error when Claude Code holds the lock.
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
        let placed = OwnLockFolder {
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

    /// Fails if Claude Code considered one of our lock folders abandoned and took it over.
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

    /// Releases all locks.
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

/// Returns the current second as a modification time with random nanoseconds, which identifies the folder.
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

/// Moves a lock folder back to the pool, unless another program has taken it over.
pub(super) fn put_back(held: &HeldTeam, folder: &OwnLockFolder, spare: &str) -> Result<()> {
    at_place(held, &folder.within, |place| {
        match place.stamp(&folder.name)? {
            Some(stamp) if stamp.modified == folder.mark => {
                let pool = held.folders.team.child_or_create(layout::LOCK_FOLDERS)?;
                if !place.rename_new(&folder.name, &pool, spare)? {
                    place.remove_dir(&folder.name)?;
                }
            }
            // Another program considered the folder abandoned and took it over; it must not be touched any more.
            _ => {}
        }
        Ok(())
    })
}

/// Removes a foreign lock folder if it is abandoned. Returns its age in seconds.
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
