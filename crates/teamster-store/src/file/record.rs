//! One record of the index: what is known about one task, in a fixed number of bytes.

use teamster_fs::Stamp;
use teamster_types::TaskId;
use teamster_types::task::{Status, Task};

use crate::error::Result;

/// The size of a record.
pub(super) const RECORD: usize = 104;

/// Bits for the state of the task.
pub(super) mod flag {
    pub(in crate::file) const IN_PROGRESS: u64 = 1;
    pub(in crate::file) const COMPLETED: u64 = 2;
    pub(in crate::file) const INTERNAL: u64 = 4;
    pub(in crate::file) const FAILED: u64 = 8;
    /// The file could not be parsed.
    pub(in crate::file) const DAMAGED: u64 = 16;
    /// The task waits for a task that is not done, as far as the index knows.
    pub(in crate::file) const BLOCKED: u64 = 32;
    /// The file is gone.
    pub(in crate::file) const REMOVED: u64 = 64;
    /// The task is completed, but its work is not merged yet.
    pub(in crate::file) const UNMERGED: u64 = 128;
}

/// What the index knows about one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexRecord {
    pub(super) id: TaskId,
    pub(super) modified: i64,
    pub(super) inode: u64,
    pub(super) size: u64,
    /// The hash of the file's content.
    pub(super) hash: u64,
    /// The end of the retry delay (pending) or of the lease (in progress), in milliseconds.
    pub(super) when: i64,
    /// One bit for each required capability; 0 when none is required.
    pub(super) capabilities: u64,
    /// The hash of the owner's name; 0 without an owner.
    pub(super) owner: u64,
    pub(super) flags: u64,
}

/// Returns a hash that is the same in every build: hashes written by an older version must stay valid.
pub(super) fn hash_of(bytes: impl AsRef<[u8]>) -> u64 {
    let hash = bytes
        .as_ref()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    hash.max(1)
}

/// Returns the bits of these capabilities.
pub(super) fn capability_bits(capabilities: &[String]) -> u64 {
    capabilities
        .iter()
        .fold(0, |bits, name| bits | 1 << (hash_of(name) % 64))
}

impl IndexRecord {
    /// Returns the record of a task file with these bytes and this stamp.
    pub(super) fn of(
        id: &TaskId,
        bytes: &[u8],
        stamp: &Stamp,
        task: Result<&Task, ()>,
        blocked: bool,
    ) -> Self {
        let mut record = Self {
            id: id.clone(),
            modified: stamp.modified,
            inode: stamp.inode,
            size: stamp.size,
            hash: hash_of(bytes),
            when: 0,
            capabilities: 0,
            owner: 0,
            flags: 0,
        };
        let Ok(task) = task else {
            record.flags = flag::DAMAGED;
            return record;
        };
        record.owner = task.owner().map_or(0, hash_of);
        record.capabilities = capability_bits(&task.capabilities());
        match task.status() {
            Status::Pending => {
                record.when = task.not_before().map_or(0, teamster_types::Time::as_millis);
                record.flags |= if blocked { flag::BLOCKED } else { 0 };
            }
            Status::InProgress => {
                record.flags |= flag::IN_PROGRESS;
                record.when = task
                    .claim()
                    .map_or(i64::MAX, |claim| claim.leased_until.as_millis());
            }
            Status::Completed => record.flags |= flag::COMPLETED,
        }
        record.flags |= if task.is_internal() {
            flag::INTERNAL
        } else {
            0
        };
        record.flags |= if task.is_failed() { flag::FAILED } else { 0 };
        record.flags |= if task.is_unmerged() {
            flag::UNMERGED
        } else {
            0
        };
        record
    }

    pub(super) fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether the task is pending and has an owner.
    pub(super) fn is_assigned(&self) -> bool {
        RecordView(&self.to_bytes()).is_assigned()
    }

    /// Returns whether tasks that wait for this one may start.
    pub(super) fn is_done(&self) -> bool {
        self.has(flag::COMPLETED) && !self.has(flag::FAILED | flag::UNMERGED)
    }

    /// Returns whether the file is still the one that the record was made from.
    pub(super) fn fits(&self, stamp: &Stamp) -> bool {
        self.modified == stamp.modified
            && self.inode == stamp.inode
            && self.size == stamp.size
            && !self.has(flag::REMOVED)
    }

    pub(super) fn to_bytes(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        let id = self.id.as_str().as_bytes();
        bytes[0] = u8::try_from(id.len()).unwrap_or(0);
        bytes[1..=id.len()].copy_from_slice(id);
        let numbers = [
            self.modified.cast_unsigned(),
            self.inode,
            self.size,
            self.hash,
            self.when.cast_unsigned(),
            self.capabilities,
            self.owner,
            self.flags,
        ];
        for (place, number) in numbers.into_iter().enumerate() {
            put(&mut bytes, 24 + place * 8, number);
        }
        let sum = checksum(&bytes[..RECORD - 8]);
        put(&mut bytes, RECORD - 8, sum);
        bytes
    }

    /// Parses a record; `None` when the bytes are not complete, because a reader without the lock may see a partial
    /// write.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if get(bytes, RECORD - 8) != checksum(&bytes[..RECORD - 8]) {
            return None;
        }
        let length = usize::from(bytes[0]);
        let id = std::str::from_utf8(bytes.get(1..=length)?)
            .ok()?
            .parse()
            .ok()?;
        let number = |place: usize| get(bytes, 24 + place * 8);
        Some(Self {
            id,
            modified: number(0).cast_signed(),
            inode: number(1),
            size: number(2),
            hash: number(3),
            when: number(4).cast_signed(),
            capabilities: number(5),
            owner: number(6),
            flags: number(7),
        })
    }
}

/// A record read directly from its bytes, for scans over thousands of records. Only for the index's single writer,
/// which knows that the bytes are complete.
#[derive(Clone, Copy)]
pub(super) struct RecordView<'a>(pub(super) &'a [u8]);

impl RecordView<'_> {
    pub(super) fn when(self) -> i64 {
        get(self.0, 24 + 4 * 8).cast_signed()
    }

    pub(super) fn capabilities(self) -> u64 {
        get(self.0, 24 + 5 * 8)
    }

    pub(super) fn owner(self) -> u64 {
        get(self.0, 24 + 6 * 8)
    }

    pub(super) fn has(self, flag: u64) -> bool {
        get(self.0, 24 + 7 * 8) & flag != 0
    }

    /// Returns whether the task is pending and has an owner.
    pub(super) fn is_assigned(self) -> bool {
        self.owner() != 0 && !self.has(flag::IN_PROGRESS | flag::COMPLETED | flag::REMOVED)
    }
}

/// Returns a checksum that detects torn records; it needs no other strength.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(8).fold(1, |sum, word| {
        (sum ^ get(word, 0))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    })
}

pub(super) fn put(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

pub(super) fn get(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
