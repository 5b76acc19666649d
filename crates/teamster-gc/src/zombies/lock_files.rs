//! Locks and temp files in a team's folders, and whether the processes that created them are gone.

use std::time::Duration;

use teamster_fs::{Dir, FileKind, FsError, Stamp, layout};
use teamster_types::claim_lock::{ABANDONED_AFTER, FoundClaimLock, LockUse};
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::{TaskId, Time};

use super::scanner::ZombieScanner;

/// A lock or temp file.
#[derive(Debug)]
pub(super) struct LockFile {
    pub(super) name: String,
    pub(super) stamp: Stamp,
    pub(super) age: Duration,
    pub(super) state: LockUse,
    /// What the file is, as evidence.
    pub(super) what: Phrase,
}

/// Returns every lock and temp file in a folder.
pub(super) fn in_folder(scanner: &ZombieScanner<'_>, dir: &Dir) -> Result<Vec<LockFile>, FsError> {
    let mut found = Vec::new();
    for entry in dir.entries()? {
        let name = entry.name;
        let is_lock = name
            .strip_suffix(".lock")
            .is_some_and(|rest| !rest.is_empty());
        let temp = layout::temp_owner(&name);
        if !is_lock && temp.is_none() {
            continue;
        }
        let Some(stamp) = dir.stamp(&name)? else {
            continue;
        };
        let age = scanner.age(stamp.modified);
        let judged = match (temp, stamp.kind) {
            (Some(pid), FileKind::File) => Some(temp_file(scanner, pid, age)),
            (None, FileKind::Folder) => Some(lock_folder(age)),
            (None, FileKind::File) if is_claim_lock(&name) => claim_lock(scanner, dir, &name)?,
            _ => None,
        };
        if let Some((state, what)) = judged {
            found.push(LockFile {
                name,
                stamp,
                age,
                state,
                what,
            });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn is_claim_lock(name: &str) -> bool {
    let id = name.strip_suffix(".lock").unwrap_or_default();
    id.parse::<TaskId>().is_ok()
}

/// Returns whether the process `pid` of this machine is gone; a file name contains no more than a pid.
pub(super) fn is_gone(scanner: &ZombieScanner<'_>, pid: u32) -> bool {
    let process = ProcessId {
        pid,
        process_start_time: 0,
        ..scanner.options.machine.me().clone()
    };
    scanner.options.machine.process_state(&process) == ProcessState::Gone
}

fn temp_file(scanner: &ZombieScanner<'_>, pid: u32, age: Duration) -> (LockUse, Phrase) {
    let state = if age >= ABANDONED_AFTER && is_gone(scanner, pid) {
        LockUse::Abandoned
    } else {
        LockUse::InUse
    };
    (
        state,
        Phrase::new(PhraseCode::TempFileLeft, [("pid", &pid)]),
    )
}

fn lock_folder(age: Duration) -> (LockUse, Phrase) {
    let state = if age >= ABANDONED_AFTER {
        LockUse::Abandoned
    } else {
        LockUse::InUse
    };
    (state, Phrase::new(PhraseCode::LockFolderLeft, []))
}

fn claim_lock(
    scanner: &ZombieScanner<'_>,
    dir: &Dir,
    name: &str,
) -> Result<Option<(LockUse, Phrase)>, FsError> {
    let Some((bytes, stamp)) = dir.read(name)? else {
        return Ok(None);
    };
    let written = Time::from_millis(stamp.modified / 1_000_000);
    let lock = FoundClaimLock::parse(&bytes, written);
    let state = lock.state(scanner.options.now, |process| {
        scanner.options.machine.process_state(process)
    });
    let what = match lock.process {
        Some(process) => Phrase::new(PhraseCode::ClaimLockLeft, [("pid", &process.pid)]),
        None => Phrase::new(PhraseCode::ClaimLockUnnamed, []),
    };
    Ok(Some((state, what)))
}
