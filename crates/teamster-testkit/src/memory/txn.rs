//! A transaction on one team in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use teamster_journal::{Event, NewEvent};
use teamster_store::{Candidates, MailCursor, Position, Result, Signal, Txn, TxnContext};
use teamster_types::failure::Failure;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::message::{Mailbox, Message};
use teamster_types::paths::Reservations;
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::task::{Status, Task};
use teamster_types::team::TeamConfig;
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use super::{MemStore, MemTeam, numbered};

/// A transaction in progress: writes are buffered here until it commits.
pub(super) struct MemTxn<'a> {
    store: &'a MemStore,
    name: &'a TeamName,
    team: &'a mut MemTeam,
    now: Time,
    config: Option<TeamConfig>,
    tasks: BTreeMap<TaskId, Option<Task>>,
    failures: HashMap<TaskId, Option<Failure>>,
    mail: Vec<(Mailbox, Message)>,
    native: Vec<(String, Message)>,
    cursors: HashMap<Mailbox, MailCursor>,
    signals: Vec<(WorkerName, Signal)>,
    events: Vec<NewEvent>,
}

impl<'a> MemTxn<'a> {
    pub(super) fn new(store: &'a MemStore, name: &'a TeamName, team: &'a mut MemTeam) -> Self {
        Self {
            now: store.clock.now(),
            store,
            name,
            team,
            config: None,
            tasks: BTreeMap::new(),
            failures: HashMap::new(),
            mail: Vec::new(),
            native: Vec::new(),
            cursors: HashMap::new(),
            signals: Vec::new(),
            events: Vec::new(),
        }
    }

    pub(super) fn commit(self) {
        if self.events.is_empty() {
            return;
        }
        if let Some(config) = self.config {
            self.team.config = config;
        }
        for (id, task) in self.tasks {
            self.team.highest = self
                .team
                .highest
                .max(u64::try_from(id.number()).unwrap_or(0));
            match task {
                Some(task) => self.team.tasks.insert(id, task),
                None => self.team.tasks.remove(&id),
            };
        }
        for (id, failure) in self.failures {
            match failure {
                Some(failure) => self.team.failures.insert(id, failure),
                None => self.team.failures.remove(&id),
            };
        }
        for (mailbox, message) in self.mail {
            self.team.mail.entry(mailbox).or_default().push(message);
        }
        self.team.native.extend(self.native);
        self.team.cursors.extend(self.cursors);
        for (worker, signal) in self.signals {
            self.team.signals.insert((worker, signal.drain), signal);
        }
        let count = self.events.len();
        for (place, event) in self.events.into_iter().enumerate() {
            let last = self.team.events.last().map_or(0, |event| event.seq);
            self.team.events.push(numbered(
                self.name,
                last,
                event,
                self.now,
                place + 1 < count,
            ));
        }
    }
}

impl Txn for MemTxn<'_> {
    fn context(&self) -> TxnContext<'_> {
        TxnContext {
            team: self.name,
            now: self.now,
            process: &self.store.me,
            lease: self.store.lease,
            reservations: Reservations::default(),
        }
    }

    fn events_from(&mut self, from: u64) -> Result<Vec<Event>> {
        let events = self.team.events.iter();
        Ok(events.filter(|event| event.seq >= from).cloned().collect())
    }

    fn config(&mut self) -> Result<Arc<TeamConfig>> {
        self.open_config().map(Arc::new)
    }

    fn open_config(&mut self) -> Result<TeamConfig> {
        let staged = self.config.clone();
        Ok(staged.unwrap_or_else(|| self.team.config.clone()))
    }

    fn put_config(&mut self, config: TeamConfig) {
        self.config = Some(config);
    }

    fn read_task(&mut self, id: &TaskId) -> Result<Option<Task>> {
        Ok(match self.tasks.get(id) {
            Some(staged) => staged.clone(),
            None => self.team.tasks.get(id).cloned(),
        })
    }

    fn put(&mut self, task: Task) {
        self.tasks.insert(task.id().clone(), Some(task));
    }

    fn remove(&mut self, id: &TaskId) -> Result<()> {
        self.tasks.insert(id.clone(), None);
        self.failures.insert(id.clone(), None);
        Ok(())
    }

    fn new_id(&mut self) -> Result<TaskId> {
        Ok(TaskId::from_number(self.team.highest + 1))
    }

    fn failure(&mut self, id: &TaskId) -> Result<Option<Failure>> {
        Ok(match self.failures.get(id) {
            Some(staged) => staged.clone(),
            None => self.team.failures.get(id).cloned(),
        })
    }

    fn put_failure(&mut self, id: &TaskId, failure: Option<Failure>) {
        self.failures.insert(id.clone(), failure);
    }

    fn next_candidate(
        &mut self,
        which: Candidates,
        worker: &WorkerName,
        _capabilities: &[String],
        lost: &[WorkerName],
        after: Option<&TaskId>,
    ) -> Result<Option<TaskId>> {
        let suits = |task: &Task| match (which, task.status()) {
            (_, Status::Completed) => false,
            (Candidates::Own, status) => {
                status == Status::Pending && task.owner() == Some(worker.as_str())
            }
            (Candidates::Free, Status::Pending) => task
                .owner()
                .is_none_or(|owner| lost.iter().any(|worker| worker.as_str() == owner)),
            (Candidates::Free, Status::InProgress) => task
                .claim()
                .is_some_and(|claim| claim.leased_until <= self.now),
        };
        let found = self
            .team
            .tasks
            .values()
            .filter(|task| {
                after.is_none_or(|after| task.id() > after) && !self.tasks.contains_key(task.id())
            })
            .find(|task| suits(task));
        Ok(found.map(|task| task.id().clone()))
    }

    fn in_progress(&mut self) -> Result<Vec<TaskId>> {
        let tasks = self.team.tasks.values();
        let at_work = tasks.filter(|task| task.status() == Status::InProgress);
        Ok(at_work.map(|task| task.id().clone()).collect())
    }

    fn has_assigned(&mut self) -> Result<bool> {
        let mut tasks = self.team.tasks.values();
        Ok(tasks.any(|task| task.status() == Status::Pending && task.owner().is_some()))
    }

    fn process_state(&self, process: &ProcessId) -> ProcessState {
        (self.store.lives)(process)
    }

    fn heartbeat(&mut self, worker: &WorkerName) -> Result<Option<Heartbeat>> {
        Ok(self.team.beats.get(worker).cloned())
    }

    fn heartbeats(&mut self) -> Result<Vec<Heartbeat>> {
        Ok(self.team.beats.values().cloned().collect())
    }

    fn event(&mut self, event: NewEvent) {
        self.events.push(event);
    }

    fn put_unjournalled(&mut self, task: Task) -> Result<()> {
        self.team.tasks.insert(task.id().clone(), task);
        Ok(())
    }

    fn has_mailbox(&mut self, mailbox: &Mailbox) -> Result<bool> {
        Ok(self.team.mail.contains_key(mailbox))
    }

    fn outboxes(&mut self) -> Result<Vec<WorkerName>> {
        let boxes = self.team.mail.keys();
        Ok(boxes
            .filter_map(|mailbox| {
                if let Mailbox::Outbox(worker) = mailbox {
                    Some(worker.clone())
                } else {
                    None
                }
            })
            .collect())
    }

    fn deliver(&mut self, mailbox: &Mailbox, message: Message) -> Result<()> {
        self.mail.push((mailbox.clone(), message));
        Ok(())
    }

    fn deliver_native(&mut self, name: &str, message: &Message) -> Result<()> {
        self.native.push((name.to_owned(), message.clone()));
        Ok(())
    }

    fn cursor(&mut self, mailbox: &Mailbox) -> Result<MailCursor> {
        let staged = self
            .cursors
            .get(mailbox)
            .or_else(|| self.team.cursors.get(mailbox));
        Ok(staged.copied().unwrap_or_default())
    }

    fn put_cursor(&mut self, mailbox: &Mailbox, cursor: MailCursor) -> Result<()> {
        self.cursors.insert(mailbox.clone(), cursor);
        Ok(())
    }

    fn lines(
        &mut self,
        mailbox: &Mailbox,
        from: Position,
        limit: usize,
    ) -> Result<Vec<(Position, Result<Message, String>)>> {
        let mail = self
            .team
            .mail
            .get(mailbox)
            .map_or(&[][..], |mail| &mail[..]);
        let lines = (1..)
            .zip(mail)
            .skip(usize::try_from(from.0).unwrap_or(usize::MAX))
            .take(limit);
        Ok(lines
            .map(|(behind, message)| (Position(behind), Ok(message.clone())))
            .collect())
    }

    fn put_signal(&mut self, worker: &WorkerName, signal: Option<&Signal>) -> Result<()> {
        match signal {
            Some(signal) => self.signals.push((worker.clone(), signal.clone())),
            None => self.team.signals.retain(|(owner, _), _| owner != worker),
        }
        Ok(())
    }
}
