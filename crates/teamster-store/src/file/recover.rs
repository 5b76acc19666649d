//! Making a team whole after a holder of its lock was killed, or the machine went down.

use std::collections::HashSet;

use teamster_fs::{Dir, layout};
use teamster_types::event::Event;
use teamster_types::message::Mailbox;
use teamster_types::process::{Life, ProcessId};
use teamster_types::{TaskId, TeamName};

use super::held::Held;
use super::index::Index;
use super::{FileStore, claim_lock, folder_lock, journal, mailbox, rescan, team};
use crate::error::Result;

/// Finishes what was committed, removes what was not, and leaves a clean note.
pub(super) fn recover(store: &FileStore, name: &TeamName, held: &mut Held) -> Result<()> {
    let tail = journal::tail(&held.folders.team)?;
    if tail.size != journal::size(&held.folders.team)? {
        held.folders.team.truncate(layout::JOURNAL, tail.size)?;
    }
    // What the note says stays said until it is done: a process may be killed here, too.
    let rebooted = held.note.boot != store.machine.boot_id();
    let last = tail.events.last();
    if held.note.seq != last.map_or(0, |event| event.seq) {
        held.note.mail.clear();
    }
    store.machine.boot_id().clone_into(&mut held.note.boot);
    held.note.seq = last.map_or(0, |event| event.seq);
    held.note.journal = tail.size;
    if last.is_some_and(|event| event.kind == "team.deleted") {
        return team::finish_delete(store, name, held);
    }
    finish_staged(store, held)?;
    for folder in std::mem::take(&mut held.note.folders) {
        folder_lock::put_back(held, &folder, "0")?;
    }
    for claim in std::mem::take(&mut held.note.claims) {
        claim_lock::remove_ours(held, &claim)?;
    }
    mailbox::roll_forward(store, held, rebooted)?;
    held.note.mail.clear();
    let own = own_tasks(&held.note.tasks, &tail.events);
    let mut index = Index::open(&held.folders.tasks, store.machine.boot_id())?;
    rescan::rescan(store, held, &mut index, &own)?;
    held.announce()?;
    held.all_clean()
}

/// Tasks that the killed process was changing.
fn own_tasks(noted: &[String], events: &[Event]) -> HashSet<TaskId> {
    let also = events
        .iter()
        .filter_map(|event| event.data.get("also")?.as_object());
    let others = also.flat_map(|also| also.keys().cloned());
    noted
        .iter()
        .cloned()
        .chain(others)
        .filter_map(|id| id.parse().ok())
        .chain(events.iter().filter_map(|event| event.task_id.clone()))
        .collect()
}

/// Files that the journal has committed get their new content; others never existed.
fn finish_staged(store: &FileStore, held: &Held) -> Result<()> {
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

fn sweep(store: &FileStore, held: &Held, dir: &Dir) -> Result<()> {
    let mut staged: Vec<(u64, String, String, bool)> = Vec::new();
    for entry in dir.entries()? {
        if let Some((file, seq, gone)) = layout::staged(&entry.name) {
            staged.push((seq, file.to_owned(), entry.name.clone(), gone));
        } else if let Some(pid) = layout::temp_owner(&entry.name)
            && is_gone(store, pid)
        {
            dir.remove(&entry.name)?;
        }
    }
    staged.sort_unstable();
    for (seq, file, name, gone) in staged {
        if seq > held.note.seq {
            dir.remove(&name)?;
        } else if gone {
            dir.remove(&file)?;
            dir.remove(&name)?;
        } else {
            dir.rename(&name, dir, &file)?;
        }
    }
    Ok(())
}

/// Whether a temp file's writer is gone. Our own temp files under the lock are never met here.
fn is_gone(store: &FileStore, pid: u32) -> bool {
    let me = store.machine.me();
    pid == me.pid
        || store.machine.life(&ProcessId {
            pid,
            process_start_time: 0,
            ..me.clone()
        }) == Life::Gone
}

/// The mailbox that a note or a file name speaks of.
pub(super) fn mailbox_of(folder: &str, owner: &str) -> Option<Mailbox> {
    match (folder, owner) {
        (layout::INBOX, "lead") => Some(Mailbox::Lead),
        (layout::INBOX, worker) => Some(Mailbox::Inbox(worker.parse().ok()?)),
        (layout::OUTBOX, worker) => Some(Mailbox::Outbox(worker.parse().ok()?)),
        _ => None,
    }
}
