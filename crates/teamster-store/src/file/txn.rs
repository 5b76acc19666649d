//! One change of one team in files.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use teamster_fs::layout;
use teamster_types::event::NewEvent;
use teamster_types::failure::Failure;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::message::{Mailbox, Message};
use teamster_types::process::{Life, ProcessId};
use teamster_types::task::Task;
use teamster_types::team::TeamConfig;
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use super::claim_lock::ClaimLocks;
use super::commit::{self, Places, Staged};
use super::folder_lock::FolderLocks;
use super::held::Held;
use super::index::{Index, capability_bits, flag, hash_of};
use super::{FileStore, heartbeat, mailbox, native, read, rescan};
use crate::error::{Result, StoreError};
use crate::store::Signal;
use crate::txn::{Candidates, MailCursor, Position, Txn};

/// A change that is being made.
pub(super) struct FileTxn<'a> {
    store: &'a FileStore,
    name: &'a TeamName,
    held: Held,
    now: Time,
    folder_locks: FolderLocks,
    claim_locks: ClaimLocks,
    index: Option<Index>,
    rescanned: bool,
    /// Whether we did anything in the task folder, and to which tasks.
    stirred: bool,
    touched: Vec<TaskId>,
    config: Option<TeamConfig>,
    new_config: Option<TeamConfig>,
    /// New contents of tasks; `None` removes.
    tasks: BTreeMap<TaskId, Option<Task>>,
    /// Tasks that must not exist before the commit.
    created: HashSet<TaskId>,
    failures: BTreeMap<TaskId, Option<Failure>>,
    other: Vec<Staged>,
    mail: Vec<(Mailbox, Message)>,
    lines: Option<mailbox::Page>,
    events: Vec<NewEvent>,
}

impl<'a> FileTxn<'a> {
    pub(super) fn new(store: &'a FileStore, name: &'a TeamName, held: Held) -> Self {
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
            config: None,
            new_config: None,
            tasks: BTreeMap::new(),
            created: HashSet::new(),
            failures: BTreeMap::new(),
            other: Vec::new(),
            mail: Vec::new(),
            lines: None,
            events: Vec::new(),
        }
    }

    /// Makes the change real, or leaves everything as it was.
    pub(super) fn commit(mut self) -> Result<()> {
        let committed = self.try_commit();
        if committed.is_err() {
            self.abandon();
        }
        committed
    }

    fn try_commit(&mut self) -> Result<()> {
        if self.events.is_empty() {
            return self.end();
        }
        self.claim_locks.verify(&self.held)?;
        let staged = self.staged();
        self.held.note.tasks = commit::task_ids(&staged)
            .iter()
            .map(ToString::to_string)
            .collect();
        let events = commit::numbered(
            &self.held,
            std::mem::take(&mut self.events),
            self.name.as_str(),
            self.now,
        );
        if !self.mail.is_empty() {
            mailbox::append_all(self.store, &mut self.held, &self.mail)?;
            // The lines are the commit. An event that is lost with the machine is written again from them.
            if commit::append(&mut self.held, &events, teamster_fs::Sync::Fast).is_err()
                && staged.is_empty()
            {
                self.held.leave_open();
                return Ok(());
            }
        }
        if !staged.is_empty() {
            self.commit_files(&staged, &events)?;
        } else if self.mail.is_empty() {
            self.held.announce()?;
            commit::append(&mut self.held, &events, self.store.settings.sync)?;
        }
        // From here on it has happened. What cannot be finished now is finished by the next holder of the lock.
        if self.finish(&staged).is_err() {
            self.held.leave_open();
        }
        Ok(())
    }

    fn commit_files(
        &mut self,
        staged: &[Staged],
        events: &[teamster_types::event::Event],
    ) -> Result<()> {
        let seq = self.held.note.seq + events.len() as u64;
        self.held.announce()?;
        for id in &self.created {
            if self
                .held
                .folders
                .tasks
                .stamp(&layout::task_file(id))?
                .is_some()
            {
                if let Some(index) = &mut self.index {
                    index.folder = 0;
                    index.save()?;
                }
                return Err(StoreError::busy(format!(
                    "task {id} was made by another program at this moment"
                )));
            }
        }
        let sync = self.store.settings.sync;
        let places = Places::open(&self.held, staged)?;
        let prepared = places.prepare(staged, seq, sync);
        if let Err(error) = prepared {
            places.undo(staged, seq);
            return Err(error);
        }
        if let Err(error) = commit::append(&mut self.held, events, sync) {
            Places::open(&self.held, staged)?.undo(staged, seq);
            return Err(error);
        }
        Ok(())
    }

    fn finish(&mut self, staged: &[Staged]) -> Result<()> {
        Places::open(&self.held, staged)?.finish(staged, self.held.note.seq)?;
        self.touched.extend(commit::task_ids(staged));
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.claim_locks.release_all(&self.held)?;
        self.folder_locks.release(&self.held)?;
        self.settle_index()?;
        self.held.all_clean()
    }

    /// Leaves everything as it was.
    pub(super) fn abandon(&mut self) {
        let _ = self.end();
    }

    /// Brings the index up to date with what we did, so that only what others do makes anybody look again.
    fn settle_index(&mut self) -> Result<()> {
        if !self.stirred {
            return Ok(());
        }
        let mut index = self.take_index()?;
        if index.valid {
            let undisturbed = index.folder == self.held.folder_before || self.rescanned;
            rescan::follow(&self.held, &mut index, &self.touched)?;
            if undisturbed {
                index.folder = self.held.folders.tasks.own_stamp()?.modified;
            }
            index.save()?;
        }
        Ok(())
    }

    fn take_index(&mut self) -> Result<Index> {
        match self.index.take() {
            Some(index) => Ok(index),
            None => Index::open(&self.held.folders.tasks, self.store.machine.boot_id()),
        }
    }

    /// The index, after a look at the files if anything speaks for one.
    fn fresh_index(&mut self) -> Result<&mut Index> {
        let mut index = self.take_index()?;
        let age = teamster_fs::proc::uptime() - index.scanned;
        let doubtful =
            !index.valid || index.folder != self.held.folder_before || age >= rescan::EVERY;
        if doubtful && !self.rescanned {
            self.rescanned = true;
            self.stirred = true;
            rescan::rescan(self.store, &mut self.held, &mut index, &HashSet::new())?;
        }
        Ok(self.index.insert(index))
    }

    /// What the change writes and removes.
    fn staged(&mut self) -> Vec<Staged> {
        let mut staged = std::mem::take(&mut self.other);
        for (id, task) in std::mem::take(&mut self.tasks) {
            let bytes = task.map(|task| task.to_file());
            staged.push(Staged {
                folder: None,
                name: layout::task_file(&id),
                bytes,
            });
        }
        for (id, failure) in std::mem::take(&mut self.failures) {
            let bytes = failure.and_then(|failure| serde_json::to_vec_pretty(&failure).ok());
            staged.push(Staged {
                folder: None,
                name: layout::failure_file(&id),
                bytes,
            });
        }
        if let Some(config) = self.new_config.take() {
            staged.push(Staged {
                folder: Some(""),
                name: layout::CONFIG.to_owned(),
                bytes: Some(config.to_file()),
            });
        }
        staged
    }

    fn lock_out(&mut self, file: &str) -> Result<()> {
        self.stirred = true;
        let random = teamster_fs::random_hex();
        self.folder_locks
            .take(&mut self.held, "tasks", file, self.now, &random)
    }

    /// Reads a task that nobody of ours is changing, and notices if a foreign program changed it.
    fn read_to_change(&mut self, id: &TaskId) -> Result<Option<Task>> {
        let name = layout::task_file(id);
        let Some((bytes, _)) = self.held.folders.tasks.read(&name)? else {
            return Ok(None);
        };
        let task = Task::parse(id, &bytes).map_err(|error| read::damaged(&name, &error))?;
        let index = self.take_index()?;
        if index.valid
            && let Some((_, record)) = index.get(id)?
            && record.hash != hash_of(&bytes[..])
            && !record.has(flag::REMOVED)
        {
            self.events.push(rescan::foreign_change(&task, &record));
        }
        self.index = Some(index);
        Ok(Some(task))
    }
}

/// The highest id that Claude Code says was handed out.
pub(super) fn high_water_mark(held: &Held) -> Result<Option<TaskId>> {
    let mark = held.folders.tasks.read(layout::HIGH_WATER_MARK)?;
    Ok(mark.and_then(|(bytes, _)| std::str::from_utf8(&bytes).ok()?.trim().parse().ok()))
}

impl Txn for FileTxn<'_> {
    fn now(&self) -> Time {
        self.now
    }

    fn random(&mut self) -> String {
        teamster_fs::random_hex()
    }

    fn me(&self) -> ProcessId {
        self.store.machine.me().clone()
    }

    fn lease(&self) -> Duration {
        self.store.settings.lease
    }

    fn team(&self) -> &TeamName {
        self.name
    }

    fn config(&mut self) -> Result<TeamConfig> {
        if self.config.is_none() {
            self.config = Some(read::config(&self.held.folders.team, self.name)?);
        }
        match &self.config {
            Some(config) => Ok(config.clone()),
            None => Err(super::no_team(self.name)),
        }
    }

    fn put_config(&mut self, config: TeamConfig) {
        self.config = Some(config.clone());
        self.new_config = Some(config);
    }

    fn look(&mut self, id: &TaskId) -> Result<Option<Task>> {
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
            self.other.push(Staged {
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
        self.created.insert(id.clone());
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
        after: Option<&TaskId>,
    ) -> Result<Option<TaskId>> {
        let now = self.now.as_millis();
        let me = hash_of(worker.as_str());
        let bits = capability_bits(capabilities);
        let general = capabilities
            .iter()
            .any(|capability| capability == "general");
        let staged: HashSet<TaskId> = self.tasks.keys().cloned().collect();
        let index = self.fresh_index()?;
        let from = match after {
            Some(id) => index.get(id)?.map(|(place, _)| place + 1),
            None => None,
        };
        let out = flag::COMPLETED | flag::INTERNAL | flag::DAMAGED | flag::BLOCKED | flag::REMOVED;
        let found = index.find(from, |record| {
            if record.has(out) || staged.contains(&record.id) {
                return false;
            }
            match which {
                Candidates::Own => {
                    !record.has(flag::IN_PROGRESS) && record.owner == me && record.when <= now
                }
                Candidates::Free => {
                    let free = record.owner == 0 || record.has(flag::IN_PROGRESS);
                    let able =
                        general || record.capabilities == 0 || record.capabilities & bits != 0;
                    free && able && record.when <= now
                }
            }
        })?;
        Ok(found.map(|(_, record)| record.id))
    }

    fn refresh(&mut self) -> Result<bool> {
        if self.rescanned {
            return Ok(false);
        }
        self.rescanned = true;
        self.stirred = true;
        let mut index = self.take_index()?;
        let news = rescan::rescan(self.store, &mut self.held, &mut index, &HashSet::new());
        self.index = Some(index);
        news
    }

    fn hold_claim(&mut self, id: &TaskId, worker: &WorkerName) -> Result<bool> {
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

    fn drop_claim(&mut self, id: &TaskId) -> Result<()> {
        self.claim_locks.release(&self.held, id)
    }

    fn life(&self, process: &ProcessId) -> Life {
        self.store.machine.life(process)
    }

    fn has_fresh_heartbeat(&mut self, worker: &WorkerName) -> Result<bool> {
        let config = self.config()?;
        let beat = heartbeat::read(config.project(), self.name, worker)?;
        Ok(beat.is_some_and(|beat| {
            self.now.since(beat.last_poll_at) < teamster_types::steps::HEARTBEAT_FRESH
        }))
    }

    fn heartbeats(&mut self) -> Result<Vec<Heartbeat>> {
        let config = self.config()?;
        Ok(heartbeat::read_all(config.project(), self.name)?.0)
    }

    fn event(&mut self, event: NewEvent) {
        self.events.push(event);
    }

    fn put_unjournalled(&mut self, task: Task) -> Result<()> {
        self.held.note.tasks.push(task.id().to_string());
        self.held.announce()?;
        self.stirred = true;
        self.touched.push(task.id().clone());
        Ok(self.held.folders.tasks.replace(
            &layout::task_file(task.id()),
            &task.to_file(),
            self.store.settings.sync,
        )?)
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
        let random = teamster_fs::random_hex();
        self.folder_locks.take(
            &mut self.held,
            layout::NATIVE_INBOXES,
            &native::file(name),
            self.now,
            &random,
        )?;
        let staged = native::with_message(&self.held.folders.team, name, message)?;
        self.other.push(staged);
        Ok(())
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
            self.other.push(Staged {
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
