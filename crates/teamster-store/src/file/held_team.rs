//! The team's lock, held, with the place where the journal ends.

use std::time::Duration;

use teamster_fs::{Dir, Lock, Waited, layout};
use teamster_types::TeamName;

use super::note::LockNote;
use super::{FileStore, TeamFolders, journal, recover};
use crate::error::{Result, StoreError};

/// What a lock holder has: the folders, the lock, and a team that is whole.
pub(super) struct HeldTeam {
    pub(super) folders: TeamFolders,
    pub(super) lock: Lock,
    pub(super) note: LockNote,
    /// The task folder's modification time before this holder changed anything in it.
    pub(super) folder_before: i64,
    /// Whether the note on disk says that something is going on.
    noted: bool,
    /// Whether something is left for the next holder to finish.
    open: bool,
    /// Whether the lock file was taken away.
    lost: bool,
}

impl HeldTeam {
    /// Waits for the lock, then makes the team whole if its last holder was killed. Busy when somebody else has it all
    /// the time.
    pub(super) fn take(
        store: &FileStore,
        team: &TeamName,
        what: &'static str,
        patience: Duration,
    ) -> Result<Self> {
        let folders = store.folders(team)?;
        store.refuse_newer(team, &folders.team)?;
        let lock = match Lock::wait(&folders.tasks, layout::TEAM_LOCK, patience, false)? {
            Waited::Held(lock) => lock,
            Waited::TimedOut => return Err(timed_out(team, &folders.tasks)),
        };
        // The team may have been removed while we waited; its folder is then somewhere else.
        if !folders.are_current(team)? {
            return Err(StoreError::busy(format!(
                "team {team} was removed at this moment"
            )));
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

    /// Says on disk what is going on; called before anything is left that a killed process could leave behind.
    pub(super) fn announce(&mut self) -> Result<()> {
        self.note.clean = false;
        self.noted = true;
        Ok(self.note.write(self.lock.notes())?)
    }

    /// Refuses to go on when the lock file was taken away: whoever comes now locks another one, and we are not alone.
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

    /// Tells whether the lock was found to be taken away.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Leaves the note as it is, for the next holder to finish what it says.
    pub(super) fn leave_open(&mut self) {
        self.open = true;
    }

    /// Says that nothing is left to finish, unless nothing was begun.
    pub(super) fn all_clean(&mut self) -> Result<()> {
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
    .hint("try again; a lock is freed by itself when its process ends")
}
