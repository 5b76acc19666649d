//! Detects what other programs did to the task files.

use std::collections::{HashMap, HashSet};

use teamster_fs::{Stamp, layout};
use teamster_journal::payload::TaskChange;
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_types::TaskId;
use teamster_types::task::{Status, Task};

use super::FileStore;
use super::held_team::HeldTeam;
use super::index::Index;
use super::record::{IndexRecord, flag, hash_of};
use super::staged;
use crate::error::Result;
use crate::rebuild;

/// The maximum interval between two comparisons of the files with the index, in milliseconds.
pub(super) const EVERY: i64 = 5_000;

/// A task file as it is now.
struct FoundTask {
    id: TaskId,
    bytes: Vec<u8>,
    stamp: Stamp,
    task: Result<Task, String>,
}

fn read(held: &HeldTeam, id: &TaskId) -> Result<Option<FoundTask>> {
    let name = layout::task_file(id);
    let (bytes, stamp) = match held.folders.tasks.read(&name) {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(None),
        // A link or a folder in place of a task is reported as damaged, and the other tasks are still read.
        Err(error) if error.is_unsafe() => {
            let Some(stamp) = held.folders.tasks.stamp(&name)? else {
                return Ok(None);
            };
            let task = Err(error.to_string());
            return Ok(Some(FoundTask {
                id: id.clone(),
                bytes: Vec::new(),
                stamp,
                task,
            }));
        }
        Err(error) => return Err(error.into()),
    };
    let task = Task::parse(id, &bytes);
    Ok(Some(FoundTask {
        id: id.clone(),
        bytes,
        stamp,
        task,
    }))
}

/// Compares every task file with the index, and journals the changes of foreign programs. Returns true when anything
/// was new.
///
/// `own` holds the tasks that a killed teamster process was changing, with the hash of what it wrote (0: it removed the
/// file). A file with that content is not a foreign change.
pub(super) fn rescan(
    store: &FileStore,
    held: &mut HeldTeam,
    index: &mut Index,
    own: &HashMap<TaskId, u64>,
) -> Result<bool> {
    if !index.valid {
        return rebuild_index(store, held, index).map(|()| true);
    }
    // Taken before the listing, so that a file created during it is found by the next rescan.
    let folder = held.folders.tasks.own_stamp()?.modified;
    let records = index.all()?;
    index.recount(&records);
    let mut known: HashMap<TaskId, IndexRecord> = records
        .into_iter()
        .map(|record| (record.id.clone(), record))
        .collect();
    let mut events = Vec::new();
    let mut changed: Vec<FoundTask> = Vec::new();
    for entry in held.folders.tasks.entries()? {
        let Some(id) = layout::task_of_file(&entry.name) else {
            continue;
        };
        let Some(stamp) = held.folders.tasks.stamp(&entry.name)? else {
            continue;
        };
        let record = known.remove(&id);
        if record.as_ref().is_some_and(|record| record.fits(&stamp)) {
            continue;
        }
        let Some(found) = read(held, &id)? else {
            continue;
        };
        let before = record.filter(|record| !record.has(flag::REMOVED));
        let hash = hash_of(&found.bytes[..]);
        let same = before.as_ref().is_some_and(|before| before.hash == hash);
        if !same && own.get(&id) != Some(&hash) {
            events.extend(foreign_event(&found, before.as_ref()));
        }
        changed.push(found);
    }
    let gone: Vec<IndexRecord> = known
        .into_values()
        .filter(|record| !record.has(flag::REMOVED))
        .collect();
    for record in &gone {
        if own.get(&record.id) != Some(&0) {
            events.push(
                NewEvent::new(
                    EventActor::Foreign,
                    EventKind::TaskDeleted(TaskChange::removed(status_of(record))),
                )
                .task(&record.id),
            );
        }
    }
    let news = !changed.is_empty() || !gone.is_empty();
    if news {
        // The index is about to change; the next holder must know if this process is killed halfway.
        held.announce()?;
    }
    if !events.is_empty() {
        keep_ids(store, held, index, &gone)?;
        staged::journal_now(store, held, &events)?;
    }
    for record in gone {
        index.put(&IndexRecord {
            flags: flag::REMOVED,
            ..record
        })?;
    }
    for found in &changed {
        index.put(&record_of(index, found)?)?;
    }
    refresh_blocked(held, index)?;
    index.folder = folder;
    index.scanned = teamster_fs::proc::uptime();
    index.save()?;
    Ok(news)
}

/// Builds a new index from the files, and journals where they differ from the journal.
fn rebuild_index(store: &FileStore, held: &mut HeldTeam, index: &mut Index) -> Result<()> {
    held.announce()?;
    let folder = held.folders.tasks.own_stamp()?.modified;
    let mut told = rebuild::Tasks::default();
    let mut from = 1;
    loop {
        let page = store.places.read(&held.folders.team, from, 2_000)?;
        let Some(last) = page.events.last() else {
            break;
        };
        from = last.seq + 1;
        page.events.iter().for_each(|event| told.apply(event));
    }
    let mut found = Vec::new();
    let mut events = Vec::new();
    for entry in held.folders.tasks.entries()? {
        let Some(id) = layout::task_of_file(&entry.name) else {
            continue;
        };
        let Some(file) = read(held, &id)? else {
            continue;
        };
        let before = told.take(&id);
        if let Ok(task) = &file.task
            && !before
                .as_ref()
                .is_some_and(|before| rebuild::is_same_task(before, task))
        {
            let change = TaskChange::between(before.as_ref(), Some(task));
            let what = if before.is_some() {
                EventKind::TaskUpdated(change)
            } else {
                EventKind::TaskCreated(change)
            };
            events.push(NewEvent::new(EventActor::Foreign, what).task(&id));
        }
        found.push(file);
    }
    for gone in told.remaining() {
        let deleted = EventKind::TaskDeleted(TaskChange::between(Some(&gone), None));
        events.push(NewEvent::new(EventActor::Foreign, deleted).task(gone.id()));
    }
    if !events.is_empty() {
        staged::journal_now(store, held, &events)?;
    }
    let done: HashSet<&TaskId> = found
        .iter()
        .filter(|file| {
            let task = file.task.as_ref();
            task.is_ok_and(|task| task.is_done() && !task.is_unmerged())
        })
        .map(|file| &file.id)
        .collect();
    let records = found
        .iter()
        .map(|file| {
            let blocked = file
                .task
                .as_ref()
                .is_ok_and(|task| task.blocked_by().iter().any(|id| !done.contains(id)));
            IndexRecord::of(
                &file.id,
                &file.bytes,
                &file.stamp,
                file.task.as_ref().map_err(|_| ()),
                blocked,
            )
        })
        .collect();
    index.rewrite(records)?;
    index.raise_max_id(told.highest());
    index.folder = folder;
    index.scanned = teamster_fs::proc::uptime();
    index.judged = index.generation;
    index.save()
}

/// Returns the event for a foreign change of a task file; `None` when the file is damaged.
fn foreign_event(found: &FoundTask, before: Option<&IndexRecord>) -> Option<NewEvent> {
    let task = found.task.as_ref().ok()?;
    Some(foreign_change(task, before))
}

/// Returns the event for a task that a foreign program created or changed. Its previous content is unknown, so the
/// event holds the whole task.
pub(super) fn foreign_change(task: &Task, before: Option<&IndexRecord>) -> NewEvent {
    let change = TaskChange::between(None, Some(task));
    let what = match before {
        Some(before) => EventKind::TaskUpdated(change.whole(status_of(before))),
        None => EventKind::TaskCreated(change),
    };
    NewEvent::new(EventActor::Foreign, what).task(task.id())
}

fn status_of(record: &IndexRecord) -> Status {
    if record.has(flag::COMPLETED) {
        Status::Completed
    } else if record.has(flag::IN_PROGRESS) {
        Status::InProgress
    } else {
        Status::Pending
    }
}

/// Raises the high-water mark, so that an id freed by a foreign program is never assigned again.
fn keep_ids(store: &FileStore, held: &HeldTeam, index: &Index, gone: &[IndexRecord]) -> Result<()> {
    let ordinary = gone
        .iter()
        .map(|record| &record.id)
        .filter(|id| id.is_ordinary());
    let highest = ordinary.max();
    if let Some(highest) = highest
        && index.max_id().is_none_or(|max| highest >= max)
        && super::txn::high_water_mark(held)?.is_none_or(|mark| *highest > mark)
    {
        held.folders.tasks.replace(
            layout::HIGH_WATER_MARK,
            highest.as_str().as_bytes(),
            store.settings.sync,
        )?;
    }
    Ok(())
}

/// Returns the record of a task that was just read or written.
fn record_of(index: &Index, found: &FoundTask) -> Result<IndexRecord> {
    let blocked = match &found.task {
        Ok(task) => is_blocked(index, task)?,
        Err(_) => false,
    };
    Ok(IndexRecord::of(
        &found.id,
        &found.bytes,
        &found.stamp,
        found.task.as_ref().map_err(|_| ()),
        blocked,
    ))
}

/// Returns whether a task waits for a task that is not done, as far as the index knows.
fn is_blocked(index: &Index, task: &Task) -> Result<bool> {
    for blocker in task.blocked_by() {
        let done = index
            .get(blocker)?
            .is_some_and(|(_, record)| record.is_done());
        if !done {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Re-evaluates every blocked task, unless nothing changed since the last time.
fn refresh_blocked(held: &HeldTeam, index: &mut Index) -> Result<()> {
    if index.judged == index.generation {
        return Ok(());
    }
    for record in index
        .all()?
        .into_iter()
        .filter(|record| record.has(flag::BLOCKED))
    {
        refresh(held, index, &record.id)?;
    }
    index.judged = index.generation;
    Ok(())
}

/// Re-evaluates whether one task is blocked. A foreign change of its file is left for a rescan to journal.
fn refresh(held: &HeldTeam, index: &mut Index, id: &TaskId) -> Result<()> {
    let (Some((_, known)), Some(found)) = (index.get(id)?, read(held, id)?) else {
        return Ok(());
    };
    let now = record_of(index, &found)?;
    let record = if now.hash == known.hash {
        now
    } else {
        let flags = (known.flags & !flag::BLOCKED) | (now.flags & flag::BLOCKED);
        IndexRecord {
            flags,
            ..known.clone()
        }
    };
    if known != record {
        index.put(&record)?;
    }
    Ok(())
}

/// A task whose file is known to differ from the index.
pub(super) struct TouchedTask {
    id: TaskId,
    /// The task; `None` when it was removed.
    task: Option<Task>,
    /// The content and stamp of the file, if another program wrote it.
    found: Option<(Vec<u8>, Stamp)>,
}

impl TouchedTask {
    /// Returns the entry for a task that this process wrote or removed.
    pub(super) fn by_us(id: TaskId, task: Option<Task>) -> Self {
        Self {
            id,
            task,
            found: None,
        }
    }

    /// Returns the entry for a task that another program wrote.
    pub(super) fn by_others(task: Task, bytes: Vec<u8>, stamp: Stamp) -> Self {
        Self {
            id: task.id().clone(),
            task: Some(task),
            found: Some((bytes, stamp)),
        }
    }

    pub(super) fn id(&self) -> &TaskId {
        &self.id
    }
}

/// Updates the index for these tasks, and for the tasks that wait for them.
pub(super) fn update_index(
    held: &HeldTeam,
    index: &mut Index,
    touched: Vec<TouchedTask>,
) -> Result<()> {
    let ids: Vec<TaskId> = touched.iter().map(|change| change.id.clone()).collect();
    let mut freed: Vec<TaskId> = Vec::new();
    for TouchedTask { id, task, found } in touched {
        let known = index.get(&id)?.map(|(_, record)| record);
        let content = match (&task, found) {
            (Some(_), Some(found)) => Some(found),
            (Some(task), None) => {
                let stamp = held.folders.tasks.stamp(&layout::task_file(&id))?;
                stamp.map(|stamp| (task.to_file(), stamp))
            }
            (None, _) => None,
        };
        let (Some(task), Some((bytes, stamp))) = (task, content) else {
            if let Some(record) = known {
                index.put(&IndexRecord {
                    flags: flag::REMOVED,
                    ..record
                })?;
            }
            continue;
        };
        let found = FoundTask {
            id,
            bytes,
            stamp,
            task: Ok(task),
        };
        let record = record_of(index, &found)?;
        let was_done = known.is_some_and(|known| known.is_done());
        if record.is_done() != was_done
            && let Ok(task) = &found.task
        {
            freed.extend(task.blocks().iter().filter(|id| !ids.contains(id)).cloned());
        }
        index.put(&record)?;
    }
    for id in freed {
        refresh(held, index, &id)?;
    }
    Ok(())
}
