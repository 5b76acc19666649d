//! The note in the team's lock file: where the journal ends, and what the holder is about to touch.
//!
//! It is changed in place and not synced, so it is trusted only when it says `clean`, comes from the current boot of
//! the machine, and agrees with the journal's size. It also shows people who holds the lock.

use serde::{Deserialize, Serialize};
use teamster_fs::{FsError, InPlaceFile};
use teamster_types::TaskId;

use super::record::hash_of;

/// The size that all notes but those of a huge broadcast fit into.
const USUAL: usize = 4096;

/// What the holder of the lock records for the next one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LockNote {
    /// Whether nothing is left to finish or undo.
    pub(super) clean: bool,
    /// The boot it was written in.
    pub(super) boot: String,
    /// The last event.
    pub(super) seq: u64,
    /// The size of the journal's live segment.
    pub(super) journal: u64,
    /// The process that holds the lock.
    pub(super) pid: u32,
    /// The operation of the holder, as the command line names it.
    pub(super) what: String,
    /// Tasks whose files are being changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tasks: Vec<ChangedTask>,
    /// Lock folders that were placed beside files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) folders: Vec<OwnLockFolder>,
    /// Claim locks that were created.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) claims: Vec<OwnClaimLock>,
    /// Mailboxes that are being appended to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) mail: Vec<OpenMailbox>,
}

/// A task file that we write, told from a foreign one by its content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ChangedTask {
    /// The task.
    pub(super) id: String,
    /// The hash of the new content; 0 when the file is removed.
    pub(super) hash: u64,
    /// Whether the change is known to be committed: a recovery found that out, and was killed in turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) committed: bool,
}

impl ChangedTask {
    /// Returns the entry for a task that gets this content, or is removed.
    pub(super) fn new(id: &TaskId, bytes: Option<&[u8]>) -> Self {
        Self {
            id: id.to_string(),
            hash: bytes.map_or(0, hash_of),
            committed: false,
        }
    }
}

/// A lock folder that we placed, told from a foreign one by its exact modification time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OwnLockFolder {
    /// The folder that it was placed in: `tasks` or `inboxes`.
    pub(super) within: String,
    /// Its name.
    pub(super) name: String,
    /// Its modification time in nanoseconds.
    pub(super) mark: i64,
}

/// A claim lock that we created, told from a foreign one by its nonce.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OwnClaimLock {
    /// The task.
    pub(super) id: String,
    /// The nonce in the lock file.
    pub(super) nonce: String,
}

/// A mailbox that is being appended to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenMailbox {
    /// The folder of the mailbox: `inbox` or `outbox`.
    pub(super) folder: String,
    /// The name of the owner: a worker, or the lead.
    pub(super) owner: String,
    /// The size of its file before the append.
    pub(super) size: u64,
}

impl LockNote {
    /// Reads the note. An unreadable note counts as not clean.
    pub(super) fn read(cells: &InPlaceFile) -> Result<Self, FsError> {
        let mut buffer = vec![0; USUAL];
        let mut filled = cells.read(&mut buffer, 0)?;
        while filled == buffer.len() && !buffer.contains(&b'\n') {
            buffer.resize(filled * 4, 0);
            filled = cells.read(&mut buffer, 0)?;
        }
        let line = buffer[..filled]
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        Ok(serde_json::from_slice(line).unwrap_or_default())
    }

    /// Writes the note over the old one; anything after its line end is ignored.
    pub(super) fn write(&self, cells: &InPlaceFile) -> Result<(), FsError> {
        cells.write(&teamster_types::json::to_line(self), 0)
    }
}
