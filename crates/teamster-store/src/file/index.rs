//! A cache of what the task files say, so that finding the next task does not read them all.
//!
//! It is one file of fixed-size records in the order of the ids. Only the holder of the team's lock writes it. Each
//! record carries the stamp of the file it was made from: whoever doubts compares, and reads the file. Losing the
//! index loses nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

use teamster_fs::{Cells, Dir, Stamp, layout};
use teamster_types::TaskId;
use teamster_types::task::{Status, Task};

use crate::error::Result;

const MAGIC: u64 = 0x7465_616d_0000_0003;
const HEADER: usize = 96;
pub(super) const RECORD: usize = 104;
/// Records that one read of a scan fetches.
const BATCH: usize = 512;

/// What the record says about its task.
pub(super) mod flag {
    pub(in crate::file) const IN_PROGRESS: u64 = 1;
    pub(in crate::file) const COMPLETED: u64 = 2;
    pub(in crate::file) const INTERNAL: u64 = 4;
    pub(in crate::file) const FAILED: u64 = 8;
    /// The file could not be understood.
    pub(in crate::file) const DAMAGED: u64 = 16;
    /// It waits for a task that is not done, as far as the index knows.
    pub(in crate::file) const BLOCKED: u64 = 32;
    /// The file is gone.
    pub(in crate::file) const REMOVED: u64 = 64;
}

/// What the index knows about one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) id: TaskId,
    pub(super) modified: i64,
    pub(super) inode: u64,
    pub(super) size: u64,
    /// Of the file's bytes.
    pub(super) hash: u64,
    /// Not before this moment (pending) or leased until then (in progress), in milliseconds.
    pub(super) when: i64,
    /// One bit for each required capability; 0 when none is required.
    pub(super) capabilities: u64,
    /// Hash of the owner's name; 0 without owner.
    pub(super) owner: u64,
    pub(super) flags: u64,
}

/// A hash that is the same in every process of this build.
pub(super) fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish().max(1)
}

/// The bits of these capabilities.
pub(super) fn capability_bits(capabilities: &[String]) -> u64 {
    capabilities
        .iter()
        .fold(0, |bits, name| bits | 1 << (hash_of(name) % 64))
}

impl Record {
    /// What `bytes`, read with this stamp, say.
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
                record.when = task
                    .moment("notBefore")
                    .map_or(0, teamster_types::Time::as_millis);
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
        record
    }

    pub(super) fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Done for those that wait for it.
    pub(super) fn is_done(&self) -> bool {
        self.has(flag::COMPLETED) && !self.has(flag::FAILED)
    }

    /// Whether the file is still the one it was made from.
    pub(super) fn fits(&self, stamp: &Stamp) -> bool {
        self.modified == stamp.modified
            && self.inode == stamp.inode
            && self.size == stamp.size
            && !self.has(flag::REMOVED)
    }

    fn to_bytes(&self) -> [u8; RECORD] {
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
        let sum = hash_of(&bytes[..RECORD - 8]);
        put(&mut bytes, RECORD - 8, sum);
        bytes
    }

    /// `None` when the bytes are not a whole record: a reader without the lock may meet one that is being written.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if get(bytes, RECORD - 8) != hash_of(&bytes[..RECORD - 8]) {
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

fn put(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

fn get(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// The index, open for its one writer.
#[derive(Debug)]
pub(super) struct Index {
    cells: Cells,
    count: u64,
    /// Every record before this one is completed or gone.
    first_open: u64,
    /// The task folder's modification time after our last write.
    pub(super) folder: i64,
    /// When every file was last compared, in milliseconds since boot.
    pub(super) scanned: i64,
    /// Grows with each change of a record.
    pub(super) generation: u64,
    /// The generation at which all blocked tasks were last judged anew.
    pub(super) judged: u64,
    max_id: Option<TaskId>,
    boot: u64,
    /// Whether it can be believed.
    pub(super) valid: bool,
}

impl Index {
    /// Opens the index of a task folder; not valid when it is new, torn, or from another boot.
    pub(super) fn open(tasks: &Dir, boot: &str) -> Result<Self> {
        let cells = tasks.open_cells(layout::INDEX)?;
        let mut header = [0; HEADER];
        let filled = cells.read(&mut header, 0)?;
        let boot = hash_of(boot);
        let size = cells.stamp().size;
        let count = get(&header, 16);
        let whole = HEADER as u64 + count.saturating_mul(RECORD as u64) <= size;
        let valid = filled == HEADER
            && get(&header, 0) == MAGIC
            && get(&header, 8) == boot
            && whole
            && get(&header, HEADER - 8) == hash_of(&header[..HEADER - 8]);
        let length = usize::from(header[64]);
        let max_id = header
            .get(65..65 + length)
            .and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
        Ok(Self {
            cells,
            count: if valid { count } else { 0 },
            first_open: get(&header, 24),
            folder: get(&header, 32).cast_signed(),
            scanned: get(&header, 40).cast_signed(),
            generation: get(&header, 48),
            judged: get(&header, 56),
            max_id: if valid { max_id } else { None },
            boot,
            valid,
        })
    }

    /// Writes the header; what it says is believed from then on.
    pub(super) fn save(&mut self) -> Result<()> {
        let mut header = [0; HEADER];
        let numbers = [
            MAGIC,
            self.boot,
            self.count,
            self.first_open,
            self.folder.cast_unsigned(),
            self.scanned.cast_unsigned(),
            self.generation,
            self.judged,
        ];
        for (place, number) in numbers.into_iter().enumerate() {
            put(&mut header, place * 8, number);
        }
        if let Some(id) = &self.max_id {
            let id = id.as_str().as_bytes();
            header[64] = u8::try_from(id.len()).unwrap_or(0);
            header[65..65 + id.len()].copy_from_slice(id);
        }
        let sum = hash_of(&header[..HEADER - 8]);
        put(&mut header, HEADER - 8, sum);
        self.cells.write(&header, 0)?;
        self.valid = true;
        Ok(())
    }

    /// The highest id it has seen.
    pub(super) fn max_id(&self) -> Option<&TaskId> {
        self.max_id.as_ref()
    }

    /// No id up to this one is ever handed out again.
    pub(super) fn raise_max_id(&mut self, id: Option<TaskId>) {
        self.max_id = self.max_id.take().max(id);
    }

    /// The record of a task and its place.
    pub(super) fn get(&self, id: &TaskId) -> Result<Option<(u64, Record)>> {
        // Ids are nearly always 1, 2, 3, …, so the first guess is nearly always right.
        let guess = u64::try_from(id.number())
            .unwrap_or(u64::MAX)
            .wrapping_sub(1);
        if guess < self.count
            && let Some(record) = self.at(guess)?
            && record.id == *id
        {
            return Ok(Some((guess, record)));
        }
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let Some(record) = self.at(middle)? else {
                return Ok(None);
            };
            match record.id.cmp(id) {
                std::cmp::Ordering::Equal => return Ok(Some((middle, record))),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    fn at(&self, place: u64) -> Result<Option<Record>> {
        let mut bytes = [0; RECORD];
        let filled = self.cells.read(&mut bytes, offset(place))?;
        Ok(if filled == RECORD {
            Record::from_bytes(&bytes)
        } else {
            None
        })
    }

    /// Sets what is known about a task.
    pub(super) fn put(&mut self, record: &Record) -> Result<()> {
        self.generation += 1;
        if let Some((place, _)) = self.get(&record.id)? {
            self.cells.write(&record.to_bytes(), offset(place))?;
            self.first_open = self.first_open.min(place);
            return Ok(());
        }
        let last = if self.count == 0 {
            None
        } else {
            self.at(self.count - 1)?
        };
        if self.count == 0 || last.is_some_and(|last| last.id < record.id) {
            self.cells.write(&record.to_bytes(), offset(self.count))?;
            self.count += 1;
            self.max_id = self.max_id.take().max(Some(record.id.clone()));
            return Ok(());
        }
        let mut all = self.all()?;
        all.push(record.clone());
        self.rewrite(all)
    }

    /// Every record, in the order of ids.
    pub(super) fn all(&self) -> Result<Vec<Record>> {
        let mut all = Vec::with_capacity(usize::try_from(self.count).unwrap_or(0));
        self.scan(0, |_, record| {
            all.push(record);
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    /// Begins anew with these records.
    pub(super) fn rewrite(&mut self, mut records: Vec<Record>) -> Result<()> {
        records.sort_by(|a, b| a.id.cmp(&b.id));
        // Until the header is written again nobody may believe what lies between the old and the new.
        self.cells.write(&[0; 8], 0)?;
        let bytes: Vec<u8> = records.iter().flat_map(Record::to_bytes).collect();
        self.cells.write(&bytes, HEADER as u64)?;
        self.cells.resize((HEADER + bytes.len()) as u64)?;
        self.count = records.len() as u64;
        self.first_open = 0;
        self.generation += 1;
        self.max_id = self
            .max_id
            .take()
            .max(records.pop().map(|record| record.id));
        self.save()
    }

    /// Visits records from a place on until told to stop.
    pub(super) fn scan(
        &self,
        from: u64,
        mut visit: impl FnMut(u64, Record) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut buffer = vec![0; BATCH * RECORD];
        let mut place = from;
        while place < self.count {
            let wanted = usize::try_from(self.count - place)
                .unwrap_or(BATCH)
                .min(BATCH)
                * RECORD;
            let filled = self.cells.read(&mut buffer[..wanted], offset(place))?;
            for bytes in buffer[..filled].chunks_exact(RECORD) {
                if let Some(record) = Record::from_bytes(bytes)
                    && visit(place, record).is_break()
                {
                    return Ok(());
                }
                place += 1;
            }
            if filled < wanted {
                break;
            }
        }
        Ok(())
    }

    /// The first record from a place on that `wanted` likes. Leading records that are over are not visited again.
    pub(super) fn find(
        &mut self,
        from: Option<u64>,
        mut wanted: impl FnMut(&Record) -> bool,
    ) -> Result<Option<(u64, Record)>> {
        let over = flag::COMPLETED | flag::REMOVED;
        let start = from.unwrap_or(self.first_open);
        let mut leading = from.is_none();
        let mut first_open = self.first_open;
        let mut found = None;
        self.scan(start, |place, record| {
            leading = leading && record.has(over);
            if leading {
                first_open = place + 1;
            }
            if wanted(&record) {
                found = Some((place, record));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        self.first_open = first_open;
        Ok(found)
    }
}

fn offset(place: u64) -> u64 {
    HEADER as u64 + place * RECORD as u64
}

/// What a reader without the lock finds in the index; only records whose stamp still fits may be believed.
pub(super) fn read_all(tasks: &Dir) -> Result<Vec<Record>> {
    let Some((bytes, _)) = tasks.read(layout::INDEX)? else {
        return Ok(Vec::new());
    };
    if bytes.len() < HEADER || get(&bytes, 0) != MAGIC {
        return Ok(Vec::new());
    }
    Ok(bytes[HEADER..]
        .chunks_exact(RECORD)
        .filter_map(Record::from_bytes)
        .collect())
}
