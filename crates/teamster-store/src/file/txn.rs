//! The transaction of the file store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use teamster_fs::layout;
use teamster_journal::{Event, NewEvent};
use teamster_types::failure::{Failure, LONGEST_BACKOFF};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::message::{Mailbox, Message};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::task::Task;
use teamster_types::team::TeamConfig;
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use super::claim_lock::ClaimLocks;
use super::folder_lock::{self, FolderLocks};
use super::held_team::HeldTeam;
use super::index::Index;
use super::note::ChangedTask;
use super::record::{IndexRecord, RecordView, capability_bits, flag, hash_of};
use super::staged::StagedFile;
use super::{FileStore, heartbeat, mailbox, native, read, rescan};
use crate::backend::{Candidates, MailCursor, Position, Txn, TxnContext};
use crate::error::{Result, StoreError};
use crate::store::Signal;

/// A transaction that is in progress.
pub(super) struct FileTxn<'a> {
    pub(super) store: &'a FileStore,
    pub(super) name: &'a TeamName,
    pub(super) held: HeldTeam,
    pub(super) now: Time,
    pub(super) folder_locks: FolderLocks,
    pub(super) claim_locks: ClaimLocks,
    pub(super) index: Option<Index>,
    pub(super) rescanned: bool,
    /// Whether this transaction touched the task folder, and which tasks it touched.
    pub(super) stirred: bool,
    pub(super) touched: Vec<rescan::TouchedTask>,
    /// Tasks that foreign programs have changed; the index is updated when the journal is.
    pub(super) noticed: Vec<rescan::TouchedTask>,
    /// The heartbeats, read at most once.
    beats: Option<Vec<Heartbeat>>,
    pub(super) config: Option<Arc<TeamConfig>>,
    pub(super) new_config: Option<TeamConfig>,
    /// New contents of tasks; `None` removes.
    pub(super) tasks: BTreeMap<TaskId, Option<Task>>,
    /// Tasks that existed when they were opened; any other task that is put is new.
    pub(super) opened: HashSet<TaskId>,
    pub(super) failures: BTreeMap<TaskId, Option<Failure>>,
    pub(super) other: Vec<StagedFile>,
    pub(super) mail: Vec<(Mailbox, Message)>,
    pub(super) lines: Option<mailbox::MailPage>,
    pub(super) events: Vec<NewEvent>,
}

impl<'a> FileTxn<'a> {
    pub(super) fn new(store: &'a FileStore, name: &'a TeamName, held: HeldTeam) -> Self {
        Self {
            store,
            name,
            held,
            now: store.clock.now(),
            folder_locks: FolderLocks::default(),
            claim_locks: ClaimLocks::default(),
            index: None,
            rescanned: false,
            stirred: false,
            touched: Vec::new(),
            noticed: Vec::new(),
            beats: None,
            config: None,
            new_config: None,
            tasks: BTreeMap::new(),
            opened: HashSet::new(),
            failures: BTreeMap::new(),
            other: Vec::new(),
            mail: Vec::new(),
            lines: None,
            events: Vec::new(),
        }
    }

    pub(super) fn take_index(&mut self) -> Result<Index> {
        match self.index.take() {
            Some(index) => Ok(index),
            None => Index::open(&self.held.folders.tasks, self.store.machine.boot_id()),
        }
    }

    /// Returns the index, after a rescan of the files if it may be out of date.
    fn fresh_index(&mut self) -> Result<&mut Index> {
        let mut index = self.take_index()?;
        let age = teamster_fs::proc::uptime() - index.scanned;
        let doubtful =
            !index.valid || index.folder != self.held.folder_before || age >= rescan::EVERY;
        if doubtful && !self.rescanned {
            self.rescanned = true;
            self.stirred = true;
            rescan::rescan(self.store, &mut self.held, &mut index, &HashMap::new())?;
        }
        Ok(self.index.insert(index))
    }

    fn lock_out(&mut self, file: &str) -> Result<()> {
        self.stirred = true;
        let random = teamster_fs::random_hex();
        self.folder_locks
            .take(&mut self.held, "tasks", file, self.now, &random)
    }

    /// Locks Claude Code out of one of its inboxes.
    fn lock_inbox(&mut self, name: &str) -> Result<()> {
        let random = teamster_fs::random_hex();
        let file = native::file(name);
        let (held, within) = (&mut self.held, layout::NATIVE_INBOXES);
        self.folder_locks
            .take(held, within, &file, self.now, &random)
    }

    /// Reads a task for writing, and journals a change by a foreign program.
    fn read_to_change(&mut self, id: &TaskId) -> Result<Option<Task>> {
        let name = layout::task_file(id);
        let Some((bytes, stamp)) = self.held.folders.tasks.read(&name)? else {
            return Ok(None);
        };
        let task = Task::parse(id, &bytes).map_err(|error| read::damaged(&name, &error))?;
        let index = self.take_index()?;
        // Without a valid index nothing is compared: the next rebuild compares every file with the journal.
        if index.valid {
            let known = index.get(id)?.map(|(_, record)| record);
            let known = known.filter(|record| !record.has(flag::REMOVED));
            if known.as_ref().map(|record| record.hash) != Some(hash_of(&bytes[..])) {
                self.events
                    .push(rescan::foreign_change(&task, known.as_ref()));
                self.noticed
                    .push(rescan::TouchedTask::by_others(task.clone(), bytes, stamp));
            }
        }
        self.opened.insert(id.clone());
        self.index = Some(index);
        Ok(Some(task))
    }
}

/// Returns the highest id that Claude Code says was handed out.
pub(super) fn high_water_mark(held: &HeldTeam) -> Result<Option<TaskId>> {
    let mark = held.folders.tasks.read(layout::HIGH_WATER_MARK)?;
    Ok(mark
        .and_then(|(bytes, _)| std::str::from_utf8(&bytes).ok()?.trim().parse().ok())
        .filter(TaskId::is_ordinary))
}

impl Txn for FileTxn<'_> {
    fn context(&self) -> TxnContext<'_> {
        TxnContext {
            team: self.name,
            now: self.now,
            process: &self.store.me,
            lease: self.store.settings.lease,
            reservations: self.store.settings.reservations,
        }
    }

    fn events_from(&mut self, from: u64) -> Result<Vec<Event>> {
        let team = &self.held.folders.team;
        Ok(self.store.places.read(team, from, usize::MAX)?.events)
    }

    fn config(&mut self) -> Result<Arc<TeamConfig>> {
        if let Some(config) = &self.config {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(read::config(&self.held.folders.team, self.name)?);
        self.config = Some(Arc::clone(&config));
        Ok(config)
    }

    fn open_config(&mut self) -> Result<TeamConfig> {
        let random = teamster_fs::random_hex();
        self.folder_locks.take(
            &mut self.held,
            folder_lock::TEAM,
            layout::CONFIG,
            self.now,
            &random,
        )?;
        self.config = None;
        self.config().map(Arc::unwrap_or_clone)
    }

    fn put_config(&mut self, config: TeamConfig) {
        self.config = Some(Arc::new(config.clone()));
        self.new_config = Some(config);
    }

    fn read_task(&mut self, id: &TaskId) -> Result<Option<Task>> {
        if let Some(staged) = self.tasks.get(id) {
            return Ok(staged.clone());
        }
        read::task(&self.held.folders.tasks, id)
    }

    fn open(&mut self, id: &TaskId) -> Result<Option<Task>> {
        if let Some(staged) = self.tasks.get(id) {
            return Ok(staged.clone());
        }
        self.lock_out(&layout::task_file(id))?;
        self.read_to_change(id)
    }

    fn put(&mut self, task: Task) {
        self.stirred = true;
        self.tasks.insert(task.id().clone(), Some(task));
    }

    fn remove(&mut self, id: &TaskId) -> Result<()> {
        self.lock_out(".lock")?;
        self.tasks.insert(id.clone(), None);
        if self
            .held
            .folders
            .tasks
            .stamp(&layout::failure_file(id))?
            .is_some()
        {
            self.failures.insert(id.clone(), None);
        }
        if high_water_mark(&self.held)?.is_none_or(|mark| *id > mark) {
            let bytes = Some(id.as_str().as_bytes().to_vec());
            self.other.push(StagedFile {
                folder: None,
                name: layout::HIGH_WATER_MARK.to_owned(),
                bytes,
            });
        }
        Ok(())
    }

    fn new_id(&mut self) -> Result<TaskId> {
        self.lock_out(".lock")?;
        let seen = self.fresh_index()?.max_id().cloned();
        let highest = seen.max(high_water_mark(&self.held)?);
        let id = match highest {
            Some(highest) => highest.next(),
            None => Some(TaskId::from_number(1)),
        };
        let id = id.ok_or_else(|| {
            StoreError::refused(format!("team {} has used up all task ids", self.name))
        })?;
        Ok(id)
    }

    fn failure(&mut self, id: &TaskId) -> Result<Option<Failure>> {
        if let Some(staged) = self.failures.get(id) {
            return Ok(staged.clone());
        }
        read::failure(&self.held.folders.tasks, id)
    }

    fn put_failure(&mut self, id: &TaskId, failure: Option<Failure>) {
        self.failures.insert(id.clone(), failure);
    }

    fn next_candidate(
        &mut self,
        which: Candidates,
        worker: &WorkerName,
        capabilities: &[String],
        lost: &[WorkerName],
        after: Option<&TaskId>,
    ) -> Result<Option<TaskId>> {
        let now = self.now.as_millis();
        let me = hash_of(worker.as_str());
        let bits = capability_bits(capabilities);
        let lost: Vec<u64> = lost.iter().map(|worker| hash_of(worker.as_str())).collect();
        let general = capabilities
            .iter()
            .any(|capability| capability == "general");
        let index = self.fresh_index()?;
        if which == Candidates::Own && !index.has_assigned() {
            return Ok(None);
        }
        let from = match after {
            Some(id) => index.get(id)?.map(|(place, _)| place + 1),
            None => None,
        };
        let out = flag::COMPLETED | flag::INTERNAL | flag::DAMAGED | flag::BLOCKED | flag::REMOVED;
        let longest_pause = i64::try_from(LONGEST_BACKOFF.as_millis()).unwrap_or(i64::MAX);
        let wanted = |record: RecordView<'_>| {
            // A delay longer than the maximum was set before the clock was set back.
            let left = record.when().saturating_sub(now);
            let waits = left > 0 && (record.has(flag::IN_PROGRESS) || left <= longest_pause);
            if record.has(out) || waits {
                return false;
            }
            match which {
                Candidates::Own => !record.has(flag::IN_PROGRESS) && record.owner() == me,
                Candidates::Free => {
                    let required = record.capabilities();
                    let able = general || required == 0 || required & bits != 0;
                    let owner = record.owner();
                    able && (owner == 0 || record.has(flag::IN_PROGRESS) || lost.contains(&owner))
                }
            }
        };
        Ok(index.find(from, wanted)?.map(|record| record.id))
    }

    fn in_progress(&mut self) -> Result<Vec<TaskId>> {
        let mut found = Vec::new();
        self.fresh_index()?.find(None, |record| {
            if record.has(flag::IN_PROGRESS) {
                found.extend(IndexRecord::from_bytes(record.0).map(|record| record.id));
            }
            false
        })?;
        Ok(found)
    }

    fn has_assigned(&mut self) -> Result<bool> {
        Ok(self.fresh_index()?.has_assigned())
    }

    fn refresh(&mut self) -> Result<bool> {
        if self.rescanned {
            return Ok(false);
        }
        self.rescanned = true;
        self.stirred = true;
        let mut index = self.take_index()?;
        let news = rescan::rescan(self.store, &mut self.held, &mut index, &HashMap::new());
        self.index = Some(index);
        news
    }

    fn lock_claim(&mut self, id: &TaskId, worker: &WorkerName) -> Result<bool> {
        self.stirred = true;
        self.claim_locks.take(
            self.store,
            &mut self.held,
            id,
            worker,
            self.now,
            teamster_fs::random_hex(),
        )
    }

    fn unlock_claim(&mut self, id: &TaskId) -> Result<()> {
        self.claim_locks.release(&self.held, id)
    }

    fn process_state(&self, process: &ProcessId) -> ProcessState {
        self.store.machine.process_state(process)
    }

    fn heartbeat(&mut self, worker: &WorkerName) -> Result<Option<Heartbeat>> {
        let config = self.config()?;
        heartbeat::read(config.project(), self.name, worker)
    }

    fn heartbeats(&mut self) -> Result<Vec<Heartbeat>> {
        if self.beats.is_none() {
            let config = self.config()?;
            self.beats = Some(heartbeat::read_all(config.project(), self.name)?.0);
        }
        Ok(self.beats.clone().unwrap_or_default())
    }

    fn event(&mut self, event: NewEvent) {
        self.events.push(event);
    }

    fn put_unjournalled(&mut self, task: Task) -> Result<()> {
        if !self.events.is_empty() {
            // The events of foreign changes are journalled with this write, in one commit.
            self.put(task);
            return Ok(());
        }
        let bytes = task.to_file();
        let changed = ChangedTask::new(task.id(), Some(&bytes));
        self.held.note.tasks.push(changed);
        self.held.check_lock()?;
        self.held.announce()?;
        self.stirred = true;
        let sync = self.store.settings.sync;
        let name = layout::task_file(task.id());
        self.held.folders.tasks.replace(&name, &bytes, sync)?;
        let id = task.id().clone();
        self.touched
            .push(rescan::TouchedTask::by_us(id, Some(task)));
        Ok(())
    }

    fn has_mailbox(&mut self, mailbox: &Mailbox) -> Result<bool> {
        mailbox::exists(&self.held.folders.team, mailbox)
    }

    fn outboxes(&mut self) -> Result<Vec<WorkerName>> {
        mailbox::outboxes(&self.held.folders.team)
    }

    fn deliver(&mut self, mailbox: &Mailbox, message: Message) -> Result<()> {
        let message = message.with("seq", (self.held.note.seq + 1).into());
        self.mail.push((mailbox.clone(), message));
        Ok(())
    }

    fn deliver_native(&mut self, name: &str, message: &Message) -> Result<()> {
        self.lock_inbox(name)?;
        let staged = native::with_message(&self.held.folders.team, name, message)?;
        self.other.push(staged);
        Ok(())
    }

    fn take_native(&mut self, name: &str, for_good: bool) -> Result<Vec<Value>> {
        if !native::has_mail(&self.held.folders.team, name, for_good)? {
            return Ok(Vec::new());
        }
        self.lock_inbox(name)?;
        let (letters, staged) = native::taken(&self.held.folders.team, name, for_good)?;
        self.other.push(staged);
        Ok(letters)
    }

    fn cursor(&mut self, mailbox: &Mailbox) -> Result<MailCursor> {
        mailbox::cursor(&self.held.folders.team, mailbox)
    }

    fn put_cursor(&mut self, mailbox: &Mailbox, cursor: MailCursor) -> Result<()> {
        self.other.push(mailbox::staged_cursor(
            &self.held.folders.team,
            mailbox,
            cursor,
        )?);
        Ok(())
    }

    fn lines(
        &mut self,
        mailbox: &Mailbox,
        from: Position,
        limit: usize,
    ) -> Result<Vec<(Position, Result<Message, String>)>> {
        mailbox::lines(
            &self.held.folders.team,
            mailbox,
            from,
            limit,
            &mut self.lines,
        )
    }

    fn put_signal(&mut self, worker: &WorkerName, signal: Option<&Signal>) -> Result<()> {
        if let Some(signal) = signal {
            let bytes = serde_json::to_vec_pretty(signal).ok();
            let name = layout::signal_file(worker, signal.drain);
            self.other.push(StagedFile {
                folder: Some(layout::SIGNALS),
                name,
                bytes,
            });
            return Ok(());
        }
        if let Some(signals) = self.held.folders.team.child(layout::SIGNALS)? {
            for drain in [false, true] {
                signals.remove(&layout::signal_file(worker, drain))?;
            }
        }
        Ok(())
    }
}
