//! How a transaction ends: commit or rollback.

use teamster_fs::{Durability, OrTrace as _, layout};
use teamster_journal::Event;
use teamster_types::task::Task;

use super::index::Index;
use super::note::ChangedTask;
use super::staged::{self, StagedFile, StagedFolders};
use super::txn::FileTxn;
use super::{journal, mailbox, rescan};
use crate::error::{Result, StoreError};

impl FileTxn<'_> {
    /// Commits the change, or leaves everything as it was. Returns the position before its first event.
    pub(super) fn commit(mut self) -> Result<u64> {
        let before = self.held.note.seq;
        let committed = self.try_commit();
        if committed.is_err() {
            self.abandon();
        }
        committed.map(|()| before)
    }

    fn try_commit(&mut self) -> Result<()> {
        if self.events.is_empty() {
            return self.end();
        }
        self.claim_locks.verify(&self.held)?;
        let staged = self.staged();
        self.held.note.tasks = changed_tasks(&staged);
        let events = std::mem::take(&mut self.events);
        let events = staged::numbered(&self.held, events, self.name.as_str(), self.now);
        self.held.announce()?;
        self.refuse_taken_ids()?;
        self.write_all(&staged, &events)?;
        // The change is committed. The next holder of the lock finishes what cannot be finished now.
        let finished = self.finish(&staged);
        if finished.ok_or_trace("finish a change").is_none() {
            self.held.leave_open();
        }
        Ok(())
    }

    /// Prepares the files, delivers the mail, and appends the events. On an error nothing is committed, unless a failed
    /// append could not be undone: then the next holder of the lock decides.
    fn write_all(&mut self, staged: &[StagedFile], events: &[Event]) -> Result<()> {
        let seq = self.held.note.seq + events.len() as u64;
        let sync = self.store.settings.sync;
        let prepared = StagedFolders::open(&self.held, staged)?
            .prepare(staged, seq, sync)
            // Syncing may have taken so long that Claude Code considered our lock folders abandoned. This is the last
            // chance to notice.
            .and_then(|()| self.folder_locks.verify(&self.held))
            .and_then(|()| self.held.check_lock())
            .and_then(|()| mailbox::append_all(self.store, &mut self.held, &self.mail));
        if let Err(error) = prepared {
            StagedFolders::open(&self.held, staged)?.undo(staged, seq);
            return Err(error);
        }
        // A line in a mailbox is itself a commit. If its event is lost in a crash, it is restored from the line.
        let delivered = !self.mail.is_empty();
        let event_sync = if delivered && staged.is_empty() {
            Durability::Fast
        } else {
            sync
        };
        let Err(error) = staged::append(&mut self.held, events, event_sync) else {
            return Ok(());
        };
        let taken_back = journal::size(&self.held.folders.team)? == self.held.note.journal;
        if delivered || !taken_back {
            // A delivered message is committed; a partly written event is resolved by the next holder of the lock.
            self.held.leave_open();
            return if delivered { Ok(()) } else { Err(error) };
        }
        StagedFolders::open(&self.held, staged)?.undo(staged, seq);
        Err(error)
    }

    /// Fails if another program has created a task with the same id in the meantime.
    fn refuse_taken_ids(&mut self) -> Result<()> {
        for id in self.tasks.keys().filter(|id| !self.opened.contains(*id)) {
            let there = self.held.folders.tasks.stamp(&layout::task_file(id))?;
            if there.is_some() {
                if let Some(index) = &mut self.index {
                    index.folder = 0;
                    index.save()?;
                }
                let taken = format!("task {id} was just created by another program");
                return Err(StoreError::busy(taken));
            }
        }
        Ok(())
    }

    fn finish(&mut self, staged: &[StagedFile]) -> Result<()> {
        StagedFolders::open(&self.held, staged)?.finish(staged, self.held.note.seq)?;
        let tasks = std::mem::take(&mut self.tasks);
        let noticed = std::mem::take(&mut self.noticed).into_iter();
        self.touched
            .extend(noticed.filter(|found| !tasks.contains_key(found.id())));
        self.touched.extend(
            tasks
                .into_iter()
                .map(|(id, task)| rescan::TouchedTask::by_us(id, task)),
        );
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        // The stamps of files are taken while foreign programs are still locked out, the folder's stamp once our locks
        // are gone.
        let index = self.follow_touched()?;
        self.claim_locks.release_all(&self.held)?;
        self.folder_locks.release(&self.held)?;
        self.settle_index(index)?;
        self.held.mark_clean()
    }

    /// Rolls the change back.
    pub(super) fn abandon(&mut self) {
        self.end()
            .or_trace("leave everything as it was before a change");
    }

    /// Updates the index with the changes of this transaction; `None` when nothing changed or there is no valid index.
    fn follow_touched(&mut self) -> Result<Option<Index>> {
        if !self.stirred || self.held.is_lost() {
            return Ok(None);
        }
        let mut index = self.take_index()?;
        if !index.valid {
            return Ok(None);
        }
        rescan::update_index(&self.held, &mut index, std::mem::take(&mut self.touched))?;
        Ok(Some(index))
    }

    /// Records the task folder's new modification time in the index, so that only changes by foreign programs cause a
    /// rescan.
    fn settle_index(&mut self, index: Option<Index>) -> Result<()> {
        let Some(mut index) = index else {
            return Ok(());
        };
        if index.folder == self.held.folder_before || self.rescanned {
            index.folder = self.held.folders.tasks.own_stamp()?.modified;
        }
        index.save()
    }

    /// Returns the files that the change writes and removes.
    fn staged(&mut self) -> Vec<StagedFile> {
        let mut staged = std::mem::take(&mut self.other);
        for (id, task) in &self.tasks {
            let bytes = task.as_ref().map(Task::to_file);
            let name = layout::task_file(id);
            staged.push(StagedFile {
                folder: None,
                name,
                bytes,
            });
        }
        for (id, failure) in std::mem::take(&mut self.failures) {
            let bytes = failure.and_then(|failure| serde_json::to_vec_pretty(&failure).ok());
            staged.push(StagedFile {
                folder: None,
                name: layout::failure_file(&id),
                bytes,
            });
        }
        if let Some(config) = self.new_config.take() {
            staged.push(StagedFile {
                folder: Some(""),
                name: layout::CONFIG.to_owned(),
                bytes: Some(config.to_file()),
            });
        }
        staged
    }
}

/// Returns the tasks among the staged files, for the lock's note.
fn changed_tasks(staged: &[StagedFile]) -> Vec<ChangedTask> {
    let of_tasks = staged.iter().filter(|file| file.folder.is_none());
    of_tasks
        .filter_map(|file| {
            let id = layout::task_of_file(&file.name)?;
            Some(ChangedTask::new(&id, file.bytes.as_deref()))
        })
        .collect()
}
