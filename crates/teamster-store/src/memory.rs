//! The store in memory: the same rules without a disk, for tests and simulations.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use teamster_types::event::{Event, NewEvent};
use teamster_types::failure::Failure;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::message::{Mailbox, Message};
use teamster_types::process::{Life, ProcessId};
use teamster_types::progress::Progress;
use teamster_types::redact::redact_json;
use teamster_types::steps;
use teamster_types::task::{Status, Task};
use teamster_types::team::{NewTeam, TeamConfig};
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use crate::clock::Clock;
use crate::error::{Result, StoreError};
use crate::rules::no_task;
use crate::store::{Damaged, DeletedTeam, Filed, JournalPage, Read, Signal, TaskList, TeamEntry};
use crate::txn::{Backend, Candidates, MailCursor, Position, Txn};
use crate::watch::{Change, Watch};

#[derive(Debug)]
struct Team {
    config: TeamConfig,
    tasks: BTreeMap<TaskId, Task>,
    highest: u64,
    failures: HashMap<TaskId, Failure>,
    mail: BTreeMap<Mailbox, Vec<Message>>,
    native: Vec<(String, Message)>,
    cursors: HashMap<Mailbox, MailCursor>,
    signals: HashMap<(WorkerName, bool), Signal>,
    beats: BTreeMap<WorkerName, Heartbeat>,
    events: Vec<Event>,
}

#[derive(Default)]
struct Shared {
    teams: Mutex<BTreeMap<TeamName, Team>>,
    changed: Condvar,
}

/// Decides whether a process lives, in place of the machine.
type Lives = dyn Fn(&ProcessId) -> Life + Send + Sync;

/// Teams in memory.
pub struct MemStore {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    me: ProcessId,
    lease: Duration,
    lives: Box<Lives>,
}

impl MemStore {
    /// An empty store. `lives` tells which processes are alive; `me` is who claims.
    pub fn new(
        clock: Arc<dyn Clock>,
        me: ProcessId,
        lives: impl Fn(&ProcessId) -> Life + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::default(),
            clock,
            me,
            lease: steps::LEASE,
            lives: Box::new(lives),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TeamName, Team>> {
        self.shared
            .teams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, team: &TeamName, read: impl FnOnce(&Team) -> T) -> Result<T> {
        self.lock().get(team).map(read).ok_or_else(|| no_team(team))
    }
}

fn no_team(team: &TeamName) -> StoreError {
    StoreError::not_found(format!("there is no team {team}"))
}

fn numbered(team: &TeamName, last: u64, new: NewEvent, now: Time, more: bool) -> Event {
    let mut data = serde_json::Value::Object(new.data);
    redact_json(&mut data);
    Event {
        seq: last + 1,
        id: teamster_fs::random_hex(),
        ts: now,
        team: team.to_string(),
        kind: new.kind.to_owned(),
        actor: new.actor,
        task_id: new.task_id,
        more,
        data: data.as_object().cloned().unwrap_or_default(),
    }
}

impl Backend for MemStore {
    fn change(
        &self,
        team: &TeamName,
        _what: &'static str,
        change: &mut dyn FnMut(&mut dyn Txn) -> Result<()>,
    ) -> Result<()> {
        let mut teams = self.lock();
        let state = teams.get_mut(team).ok_or_else(|| no_team(team))?;
        let mut txn = MemTxn {
            store: self,
            name: team,
            team: state,
            now: self.clock.now(),
            config: None,
            tasks: BTreeMap::new(),
            failures: HashMap::new(),
            mail: Vec::new(),
            native: Vec::new(),
            cursors: HashMap::new(),
            signals: Vec::new(),
            events: Vec::new(),
        };
        change(&mut txn)?;
        txn.commit();
        drop(teams);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn new_team(&self, new: &NewTeam, base: Option<&str>) -> Result<TeamConfig> {
        let mut teams = self.lock();
        if teams.contains_key(&new.name) {
            return Err(StoreError::conflict(format!(
                "there is a team {} already",
                new.name
            )));
        }
        let now = self.clock.now();
        let config = TeamConfig::new(new, base, &self.me, now);
        let event = NewEvent::new("team.created", "user").with("project", &new.project);
        let team = Team {
            config: config.clone(),
            tasks: BTreeMap::new(),
            highest: 0,
            failures: HashMap::new(),
            mail: BTreeMap::new(),
            native: Vec::new(),
            cursors: HashMap::new(),
            signals: HashMap::new(),
            beats: BTreeMap::new(),
            events: vec![numbered(&new.name, 0, event, now, false)],
        };
        teams.insert(new.name.clone(), team);
        Ok(config)
    }

    fn drop_team(&self, team: &TeamName, _actor: &str) -> Result<DeletedTeam> {
        self.lock().remove(team).ok_or_else(|| no_team(team))?;
        self.shared.changed.notify_all();
        Ok(DeletedTeam {
            trash: None,
            journal: None,
        })
    }
}

struct MemTxn<'a> {
    store: &'a MemStore,
    name: &'a TeamName,
    team: &'a mut Team,
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

impl MemTxn<'_> {
    fn commit(self) {
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
    fn now(&self) -> Time {
        self.now
    }

    fn random(&mut self) -> String {
        teamster_fs::random_hex()
    }

    fn me(&self) -> ProcessId {
        self.store.me.clone()
    }

    fn lease(&self) -> Duration {
        self.store.lease
    }

    fn team(&self) -> &TeamName {
        self.name
    }

    fn config(&mut self) -> Result<TeamConfig> {
        Ok(self
            .config
            .clone()
            .unwrap_or_else(|| self.team.config.clone()))
    }

    fn put_config(&mut self, config: TeamConfig) {
        self.config = Some(config);
    }

    fn look(&mut self, id: &TaskId) -> Result<Option<Task>> {
        Ok(match self.tasks.get(id) {
            Some(staged) => staged.clone(),
            None => self.team.tasks.get(id).cloned(),
        })
    }

    fn open(&mut self, id: &TaskId) -> Result<Option<Task>> {
        self.look(id)
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
        after: Option<&TaskId>,
    ) -> Result<Option<TaskId>> {
        let suits = |task: &Task| match (which, task.status()) {
            (_, Status::Completed) => false,
            (Candidates::Own, status) => {
                status == Status::Pending && task.owner() == Some(worker.as_str())
            }
            (Candidates::Free, Status::Pending) => task.owner().is_none(),
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

    fn refresh(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn hold_claim(&mut self, _id: &TaskId, _worker: &WorkerName) -> Result<bool> {
        Ok(true)
    }

    fn drop_claim(&mut self, _id: &TaskId) -> Result<()> {
        Ok(())
    }

    fn life(&self, process: &ProcessId) -> Life {
        (self.store.lives)(process)
    }

    fn has_fresh_heartbeat(&mut self, worker: &WorkerName) -> Result<bool> {
        let beat = self.team.beats.get(worker);
        Ok(beat.is_some_and(|beat| self.now.since(beat.last_poll_at) < steps::HEARTBEAT_FRESH))
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

impl Read for MemStore {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn teams(&self) -> Result<Vec<TeamEntry>> {
        let teams = self.lock();
        Ok(teams
            .iter()
            .map(|(name, team)| TeamEntry {
                name: name.to_string(),
                config: Ok(team.config.clone()),
            })
            .collect())
    }

    fn team(&self, team: &TeamName) -> Result<TeamConfig> {
        self.with(team, |team| team.config.clone())
    }

    fn task(&self, team: &TeamName, id: &TaskId) -> Result<Task> {
        self.with(team, |state| state.tasks.get(id).cloned())?
            .ok_or_else(|| no_task(team, id))
    }

    fn tasks(&self, team: &TeamName) -> Result<TaskList> {
        self.with(team, |team| TaskList {
            tasks: team.tasks.values().cloned().collect(),
            problems: Vec::new(),
        })
    }

    fn progress(&self, team: &TeamName) -> Result<(Progress, Vec<Damaged>)> {
        self.with(team, |team| (Progress::of(team.tasks.values()), Vec::new()))
    }

    fn failure(&self, team: &TeamName, id: &TaskId) -> Result<Option<Failure>> {
        self.with(team, |team| team.failures.get(id).cloned())
    }

    fn messages(&self, team: &TeamName) -> Result<Vec<Filed>> {
        self.with(team, |team| {
            let receipt = |kind: &str, label: &str, behind: u64| {
                let moved = team.events.iter().filter(|event| event.kind == kind);
                moved
                    .filter(|event| event.data.get("box").and_then(|of| of.as_str()) == Some(label))
                    .find(|event| {
                        event
                            .data
                            .get("upTo")
                            .and_then(serde_json::Value::as_u64)
                            .is_some_and(|up_to| up_to >= behind)
                    })
                    .map(|event| event.ts)
            };
            let mut found = Vec::new();
            for (mailbox, mail) in &team.mail {
                let label = mailbox.label();
                found.extend((1..).zip(mail).map(|(behind, message)| Filed {
                    mailbox: label.clone(),
                    message: message.clone(),
                    delivered_at: receipt("message.delivered", &label, behind),
                    acked_at: receipt("message.acked", &label, behind),
                }));
            }
            found.extend(team.native.iter().map(|(name, message)| Filed {
                mailbox: format!("inboxes/{name}"),
                message: message.clone(),
                delivered_at: None,
                acked_at: None,
            }));
            found
        })
    }

    fn undelivered(&self, team: &TeamName, before: Time) -> Result<Vec<Filed>> {
        let old = |filed: &Filed| {
            filed.delivered_at.is_none()
                && filed.message.timestamp().is_some_and(|sent| sent < before)
        };
        Ok(self
            .messages(team)?
            .into_iter()
            .filter(|filed| !filed.mailbox.starts_with("inboxes/") && old(filed))
            .collect())
    }

    fn beat(&self, heartbeat: &Heartbeat) -> Result<()> {
        let mut teams = self.lock();
        let team = teams
            .get_mut(&heartbeat.team_name)
            .ok_or_else(|| no_team(&heartbeat.team_name))?;
        team.beats
            .insert(heartbeat.worker_name.clone(), heartbeat.clone());
        drop(teams);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn end_beat(&self, team: &TeamName, worker: &WorkerName) -> Result<()> {
        let mut teams = self.lock();
        teams
            .get_mut(team)
            .ok_or_else(|| no_team(team))?
            .beats
            .remove(worker);
        drop(teams);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn heartbeats(&self, team: &TeamName) -> Result<(Vec<Heartbeat>, Vec<Damaged>)> {
        self.with(team, |team| {
            (team.beats.values().cloned().collect(), Vec::new())
        })
    }

    fn life(&self, process: &ProcessId) -> Life {
        (self.lives)(process)
    }

    fn signals(&self, team: &TeamName, worker: &WorkerName) -> Result<Vec<Signal>> {
        self.with(team, |team| {
            [false, true]
                .iter()
                .filter_map(|drain| team.signals.get(&(worker.clone(), *drain)).cloned())
                .collect()
        })
    }

    fn position(&self, team: &TeamName) -> Result<u64> {
        self.with(team, |team| team.events.last().map_or(0, |event| event.seq))
    }

    fn events(&self, team: &TeamName, from: u64, limit: usize) -> Result<JournalPage> {
        self.with(team, |team| {
            let events = team
                .events
                .iter()
                .filter(|event| event.seq >= from)
                .take(limit)
                .cloned()
                .collect();
            JournalPage {
                events,
                damaged: Vec::new(),
            }
        })
    }

    fn last_events(&self, team: &TeamName, count: usize) -> Result<JournalPage> {
        let last = self.position(team)?;
        self.events(team, (last + 1).saturating_sub(count as u64), count)
    }

    fn watch(&self, team: &TeamName, after: u64) -> Result<Box<dyn Watch>> {
        let beats = self.with(team, |team| team.beats.clone())?;
        Ok(Box::new(MemWatch {
            shared: Arc::clone(&self.shared),
            team: team.clone(),
            seen: after,
            beats,
        }))
    }
}

struct MemWatch {
    shared: Arc<Shared>,
    team: TeamName,
    seen: u64,
    beats: BTreeMap<WorkerName, Heartbeat>,
}

impl MemWatch {
    fn look(&mut self, team: &Team) -> Vec<Change> {
        let new = team.events.iter().filter(|event| event.seq > self.seen);
        let mut changes: Vec<Change> = new
            .map(|event| Change::Event(Box::new(event.clone())))
            .collect();
        self.seen = team.events.last().map_or(self.seen, |event| event.seq);
        let changed = team
            .beats
            .iter()
            .filter(|(worker, beat)| self.beats.get(*worker) != Some(*beat))
            .map(|(worker, _)| worker);
        let gone = self
            .beats
            .keys()
            .filter(|worker| !team.beats.contains_key(*worker));
        changes.extend(changed.chain(gone).cloned().map(Change::Beat));
        self.beats.clone_from(&team.beats);
        changes
    }
}

impl Watch for MemWatch {
    fn wait(&mut self, patience: Duration) -> Result<Vec<Change>> {
        let shared = Arc::clone(&self.shared);
        let deadline = std::time::Instant::now() + patience;
        let mut teams = shared.teams.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let team = teams.get(&self.team).ok_or_else(|| no_team(&self.team))?;
            let changes = self.look(team);
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if !changes.is_empty() || left.is_zero() {
                return Ok(changes);
            }
            teams = shared
                .changed
                .wait_timeout(teams, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}
