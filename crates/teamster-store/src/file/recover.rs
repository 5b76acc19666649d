//! Recovers a team after a holder of its lock was killed or the machine crashed.

use std::collections::HashMap;

use teamster_fs::{Dir, FileKind, layout};
use teamster_journal::EventType;
use teamster_types::message::Mailbox;
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::{TaskId, TeamName};

use super::held_team::HeldTeam;
use super::index::Index;
use super::note::ChangedTask;
use super::{FileStore, claim_lock, folder_lock, journal, mailbox, rescan, team};
use crate::error::Result;

/// Finishes what was committed, removes what was not, and writes a clean note.
pub(super) fn recover(store: &FileStore, name: &TeamName, held: &mut HeldTeam) -> Result<()> {
    let tail = journal::tail(&held.folders.team)?;
    if tail.size != journal::size(&held.folders.team)? {
        held.folders.team.truncate(layout::JOURNAL, tail.size)?;
    }
    // The note is kept until the recovery is complete, because this process may be killed as well.
    let rebooted = held.note.boot != store.machine.boot_id();
    let last = tail.events.last();
    let seq = last.map_or(0, |event| event.seq);
    if held.note.seq == seq {
        // Nothing was committed, so a missing file was not removed by us.
        let tasks = &mut held.note.tasks;
        tasks.retain(|task| task.committed || task.hash != 0);
    } else {
        held.note.mail.clear();
        for task in &mut held.note.tasks {
            task.committed = true;
        }
    }
    store.machine.boot_id().clone_into(&mut held.note.boot);
    held.note.seq = seq;
    held.note.journal = tail.size;
    if last.is_some_and(|event| event.is(EventType::TeamDeleted)) {
        return team::finish_delete(store, name, held);
    }
    if rebooted {
        finish_staged(store, held)?;
        mailbox::journal_lost_messages(store, held)?;
    } else {
        // A delivered message commits the files that belong to it.
        mailbox::roll_forward(store, held)?;
        finish_staged(store, held)?;
    }
    held.note.mail.clear();
    for folder in std::mem::take(&mut held.note.folders) {
        folder_lock::put_back(held, &folder, "0")?;
    }
    for claim in std::mem::take(&mut held.note.claims) {
        claim_lock::remove_ours(held, &claim)?;
    }
    let own = own_tasks(&held.note.tasks);
    let mut index = Index::open(&held.folders.tasks, store.machine.boot_id())?;
    index.invalidate_blocked();
    rescan::rescan(store, held, &mut index, &own)?;
    held.announce()?;
    held.mark_clean()
}

/// Returns the tasks that the killed process was changing, with the hashes of what it wrote.
fn own_tasks(noted: &[ChangedTask]) -> HashMap<TaskId, u64> {
    let noted = noted.iter();
    noted
        .filter_map(|task| Some((task.id.parse().ok()?, task.hash)))
        .collect()
}

/// Moves staged files of the last commit into place, and removes all others.
fn finish_staged(store: &FileStore, held: &HeldTeam) -> Result<()> {
    sweep(store, held, &held.folders.tasks)?;
    sweep(store, held, &held.folders.team)?;
    for folder in [
        layout::INBOX,
        layout::OUTBOX,
        layout::SIGNALS,
        layout::NATIVE_INBOXES,
        layout::BLOBS,
    ] {
        if let Some(dir) = held.folders.team.child(folder)? {
            sweep(store, held, &dir)?;
        }
    }
    Ok(())
}

/// Finishes the staged files of the last commit in one folder, and removes other staged files and the temp files of
/// dead processes. Folders are left alone.
fn sweep(store: &FileStore, held: &HeldTeam, dir: &Dir) -> Result<()> {
    for entry in dir.entries()? {
        let name = &entry.name;
        let staged = layout::staged(name);
        let dead = layout::temp_owner(name).is_some_and(|pid| is_gone(store, pid));
        if staged.is_none() && !dead {
            continue;
        }
        let kind = dir.stamp(name)?.map(|stamp| stamp.kind);
        match staged {
            _ if kind == Some(FileKind::Folder) => {}
            Some((file, seq, gone)) if seq == held.note.seq && kind == Some(FileKind::File) => {
                if gone {
                    dir.remove(file)?;
                    dir.remove(name)?;
                } else {
                    dir.rename(name, dir, file)?;
                }
            }
            _ => drop(dir.remove(name)?),
        }
    }
    Ok(())
}

/// Returns whether the writer of a temp file is gone. This process has no temp file here, so one with its pid was left
/// by an earlier process.
fn is_gone(store: &FileStore, pid: u32) -> bool {
    let me = store.machine.me();
    pid == me.pid
        || store.machine.process_state(&ProcessId {
            pid,
            process_start_time: 0,
            ..me.clone()
        }) == ProcessState::Gone
}

/// Returns the mailbox with this folder and owner.
pub(super) fn mailbox_of(folder: &str, owner: &str) -> Option<Mailbox> {
    match (folder, owner) {
        (layout::INBOX, "lead") => Some(Mailbox::Lead),
        (layout::INBOX, worker) => Some(Mailbox::Inbox(worker.parse().ok()?)),
        (layout::OUTBOX, worker) => Some(Mailbox::Outbox(worker.parse().ok()?)),
        _ => None,
    }
}
