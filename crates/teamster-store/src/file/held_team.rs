//! The team's lock while it is held, with the end of the journal.

use std::time::Duration;

use teamster_fs::{Dir, Lock, LockWait, layout};
use teamster_types::TeamName;

use super::note::LockNote;
use super::{FileStore, TeamFolders, journal, recover};
use crate::error::{Result, StoreError};

/// The state of a lock holder: the open folders, the lock, and a team that is consistent.
pub(super) struct HeldTeam {
    pub(super) folders: TeamFolders,
    pub(super) lock: Lock,
    pub(super) note: LockNote,
    /// The task folder's modification time before this holder changed anything in it.
    pub(super) folder_before: i64,
    /// Whether the note on disk says that a change is under way.
    noted: bool,
    /// Whether the next holder has something to finish.
    open: bool,
    /// Whether the lock file was removed by another program.
    lost: bool,
}

impl HeldTeam {
    /// Waits for the lock, then recovers the team if its last holder was killed. Returns a busy error when the lock is
    /// not free within `patience`.
    pub(super) fn take(
        store: &FileStore,
        team: &TeamName,
        what: &'static str,
        patience: Duration,
    ) -> Result<Self> {
        let folders = store.folders(team)?;
        store.refuse_newer(team, &folders.team)?;
        let lock = match Lock::wait(&folders.tasks, layout::TEAM_LOCK, patience, false)? {
            LockWait::Held(lock) => lock,
            LockWait::TimedOut => return Err(timed_out(team, &folders.tasks)),
        };
        // The team may have been removed in the meantime; the open folder is then in the trash.
        if !folders.are_current(team)? {
            return Err(StoreError::busy(format!("team {team} was just removed")));
        }
        let folder = folders.tasks.own_stamp()?;
        let note = LockNote::read(lock.notes())?;
        let size = journal::size(&folders.team)?;
        let clean = note.clean && note.boot == store.machine.boot_id() && note.journal == size;
        let mut held = Self {
            folders,
            lock,
            note,
            folder_before: folder.modified,
            noted: true,
            open: false,
            lost: false,
        };
        if clean {
            held.noted = false;
        } else {
            recover::recover(store, team, &mut held)?;
            held.folder_before = held.folders.tasks.own_stamp()?.modified;
        }
        held.note = LockNote {
            clean: false,
            boot: store.machine.boot_id().to_owned(),
            seq: held.note.seq,
            journal: held.note.journal,
            pid: std::process::id(),
            what: what.to_owned(),
            ..LockNote::default()
        };
        Ok(held)
    }

    /// Writes the note to disk; called before any change that a killed process could leave unfinished.
    pub(super) fn announce(&mut self) -> Result<()> {
        self.note.clean = false;
        self.noted = true;
        Ok(self.note.write(self.lock.notes())?)
    }

    /// Fails when the lock file was removed: other processes would lock a new file, so the lock is no longer exclusive.
    pub(super) fn check_lock(&mut self) -> Result<()> {
        let there = self.folders.tasks.stamp(layout::TEAM_LOCK)?;
        if there.is_some_and(|there| there.inode == self.lock.notes().stamp().inode) {
            return Ok(());
        }
        self.lost = true;
        Err(StoreError::busy(format!(
            "{} was removed by another program; nothing was changed",
            self.folders.tasks.join(layout::TEAM_LOCK).display()
        )))
    }

    /// Returns whether the lock file was found to be removed.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Leaves the note as it is, for the next holder to finish what it says.
    pub(super) fn leave_open(&mut self) {
        self.open = true;
    }

    /// Writes a clean note, unless the note on disk is still clean or something is left for the next holder.
    pub(super) fn mark_clean(&mut self) -> Result<()> {
        if !self.noted || self.open {
            return Ok(());
        }
        let note = LockNote {
            clean: true,
            boot: self.note.boot.clone(),
            seq: self.note.seq,
            journal: self.note.journal,
            ..LockNote::default()
        };
        note.write(self.lock.notes())?;
        self.noted = false;
        Ok(())
    }
}

fn timed_out(team: &TeamName, tasks: &Dir) -> StoreError {
    let holder = tasks
        .open_in_place(layout::TEAM_LOCK)
        .and_then(|cells| LockNote::read(&cells))
        .ok()
        .filter(|note| !note.clean && note.pid != 0)
        .map_or_else(String::new, |note| {
            format!(" by pid {} ({})", note.pid, note.what)
        });
    StoreError::busy(format!(
        "the lock of team {team} is held{holder}; nothing was changed"
    ))
    .hint("try again; the lock is released when its process ends")
}
