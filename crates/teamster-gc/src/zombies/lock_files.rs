//! Locks and temp files in a team's folders, and whether the processes that created them are gone.

use std::time::Duration;

use serde_json::Value;
use teamster_fs::{Dir, FileKind, FsError, Stamp, layout};
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::{TaskId, Time};

use super::scanner::ZombieScanner;

/// The age from which an untouched lock or temp file counts as abandoned: Claude Code touches its lock folders every
/// few seconds, and a claim lock exists only while a claim is made.
pub(super) const ABANDONED: Duration = Duration::from_secs(30);

/// A lock or temp file.
#[derive(Debug)]
pub(super) struct LockFile {
    pub(super) name: String,
    pub(super) stamp: Stamp,
    pub(super) age: Duration,
    pub(super) state: LockFileState,
    /// What the file is, as evidence.
    pub(super) what: Phrase,
}

/// Whether a lock or temp file is still in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockFileState {
    /// The process that created it is alive, or has touched it recently.
    InUse,
    /// The process that created it cannot be judged from here.
    Unsure,
    /// The process that created it is gone, or is not recorded and has not touched it for too long.
    Abandoned,
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
            (None, FileKind::File) if is_claim_lock(&name) => claim_lock(scanner, dir, &name, age)?,
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

fn temp_file(scanner: &ZombieScanner<'_>, pid: u32, age: Duration) -> (LockFileState, Phrase) {
    let state = if age >= ABANDONED && is_gone(scanner, pid) {
        LockFileState::Abandoned
    } else {
        LockFileState::InUse
    };
    (
        state,
        Phrase::new(PhraseCode::TempFileLeft, [("pid", &pid)]),
    )
}

fn lock_folder(age: Duration) -> (LockFileState, Phrase) {
    let state = if age >= ABANDONED {
        LockFileState::Abandoned
    } else {
        LockFileState::InUse
    };
    (state, Phrase::new(PhraseCode::LockFolderLeft, []))
}

fn claim_lock(
    scanner: &ZombieScanner<'_>,
    dir: &Dir,
    name: &str,
    age: Duration,
) -> Result<Option<(LockFileState, Phrase)>, FsError> {
    let Some((bytes, _)) = dir.read(name)? else {
        return Ok(None);
    };
    let content: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let Some(process) = process_of(&content) else {
        let state = if age >= ABANDONED {
            LockFileState::Abandoned
        } else {
            LockFileState::InUse
        };
        return Ok(Some((state, Phrase::new(PhraseCode::ClaimLockUnnamed, []))));
    };
    // Where the timestamp is in seconds instead of milliseconds, the age of the file is used.
    let made = content.get("timestamp").and_then(Value::as_i64);
    let made = made.filter(|made| *made > 100_000_000_000);
    let age = made.map_or(age, |made| {
        scanner.options.now.since(Time::from_millis(made))
    });
    let state = match scanner.options.machine.process_state(&process) {
        ProcessState::Gone if age >= ABANDONED => LockFileState::Abandoned,
        ProcessState::Unknown => LockFileState::Unsure,
        _ => LockFileState::InUse,
    };
    let what = Phrase::new(PhraseCode::ClaimLockLeft, [("pid", &process.pid)]);
    Ok(Some((state, what)))
}

/// Parses a number, which may be written as a string.
fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Returns the process that made the claim. Another program may write no more than its pid.
fn process_of(content: &Value) -> Option<ProcessId> {
    let text = |key: &str| {
        let value = content.get(key).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    Some(ProcessId {
        pid: number(content.get("pid"))?.try_into().ok()?,
        process_start_time: number(content.get("processStartTime")).unwrap_or(0),
        boot_id: text("bootId"),
        pid_ns: text("pidNs"),
        host: text("host"),
    })
}
