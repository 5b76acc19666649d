//! Changes that came too late for the lock.
//!
//! A writer appends its change as one line to `pending.jsonl`, under a lock on that very file, which is held for one
//! write only. The next holder of the state's lock takes the file away by renaming it, applies every line, replaces
//! the taken file by the outcome (the whole content of every state file that is another one now), writes these files,
//! and removes it.
//!
//! A holder that is killed leaves either the lines, which were not applied yet, or the outcome, which may be written
//! any number of times. So no line is lost and none counts twice, whatever the lines say.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use teamster_fs::{Dir, FileKind, Lock, Sync, Waited, layout};

use super::StateError;
use super::desk::{Desk, Output};
use super::ops::Change;

/// The lock of the pending file is held for one write or one rename; longer means that its holder is stopped.
const PATIENCE: Duration = Duration::from_millis(80);

/// What a taken file was replaced by.
#[derive(Deserialize, Serialize)]
struct Outcome {
    outcome: Vec<File>,
}

#[derive(Deserialize, Serialize)]
struct File {
    /// A name in the folder of sessions; `None`: the shown state.
    session: Option<String>,
    /// `None`: it is removed.
    content: Option<String>,
}

/// Leaves a change for the next holder of the state's lock.
pub(super) fn leave(bkit: &Dir, change: &Change) -> Result<(), StateError> {
    let lock = match Lock::wait(bkit, layout::PENDING, PATIENCE, false)? {
        Waited::Held(lock) => lock,
        Waited::TimedOut => {
            return Err(StateError::Busy {
                lock: bkit.join(layout::PENDING),
                waited: PATIENCE,
            });
        }
    };
    let mut line = teamster_types::json::to_line(change);
    // Whoever was killed in the middle of a line spoils only that line.
    if !ends_with_a_line(bkit)? {
        line.insert(0, b'\n');
    }
    bkit.append(layout::PENDING, &line, Sync::Fast)?;
    drop(lock);
    Ok(())
}

fn ends_with_a_line(bkit: &Dir) -> Result<bool, StateError> {
    let size = bkit.stamp(layout::PENDING)?.map_or(0, |stamp| stamp.size);
    let Some(last) = size.checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [b'\n'];
    bkit.read_at(layout::PENDING, &mut byte, last)?;
    Ok(byte == *b"\n")
}

/// Applies what others left. The caller holds the state's lock.
pub(super) fn finish(bkit: &Dir) -> Result<(), StateError> {
    if is_there(bkit, layout::PENDING_CLAIMED)? {
        finish_claimed(bkit)?;
    }
    if is_there(bkit, layout::PENDING)? && claim(bkit)? {
        finish_claimed(bkit)?;
    }
    Ok(())
}

/// Something else than a file under that name is nobody's change.
fn is_there(bkit: &Dir, name: &str) -> Result<bool, StateError> {
    let stamp = bkit.stamp(name)?;
    Ok(stamp.is_some_and(|stamp| stamp.kind == FileKind::File))
}

/// Takes the file away, so that later changes go to a new one. False when somebody is stopped while writing to it;
/// the next holder will try again.
fn claim(bkit: &Dir) -> Result<bool, StateError> {
    match Lock::wait(bkit, layout::PENDING, PATIENCE, false)? {
        Waited::TimedOut => Ok(false),
        Waited::Held(_lock) => {
            bkit.rename(layout::PENDING, bkit, layout::PENDING_CLAIMED)?;
            Ok(true)
        }
    }
}

fn finish_claimed(bkit: &Dir) -> Result<(), StateError> {
    let Some((bytes, _)) = bkit.read(layout::PENDING_CLAIMED)? else {
        return Ok(());
    };
    let outcome = match serde_json::from_slice::<Outcome>(&bytes) {
        Ok(outcome) => outcome.outcome.into_iter().map(Output::from).collect(),
        Err(_) => apply(bkit, &bytes)?,
    };
    for output in &outcome {
        output.write(bkit)?;
    }
    bkit.remove(layout::PENDING_CLAIMED)?;
    Ok(())
}

/// Applies the lines in memory and puts the outcome in their place.
fn apply(bkit: &Dir, bytes: &[u8]) -> Result<Vec<Output>, StateError> {
    let mut desk = Desk::new(bkit);
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(change) = serde_json::from_slice::<Change>(line) {
            match desk.change(&change.cleaned()) {
                // A session that can have no file was refused, and will be again.
                Ok(_) | Err(StateError::Session(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    let outputs = desk.outputs();
    let outcome = Outcome {
        outcome: outputs.iter().map(File::from).collect(),
    };
    let bytes = serde_json::to_vec(&outcome).unwrap_or_default();
    bkit.replace(layout::PENDING_CLAIMED, &bytes, Sync::Fast)?;
    Ok(outputs)
}

impl From<File> for Output {
    fn from(file: File) -> Self {
        Self {
            side: file.session,
            bytes: file.content.map(String::into_bytes),
        }
    }
}

impl From<&Output> for File {
    fn from(output: &Output) -> Self {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        Self {
            session: output.side.clone(),
            content: output.bytes.as_ref().map(text),
        }
    }
}
