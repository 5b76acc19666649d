//! Reads from memory: direct reads, a listener for one worker, and a watcher that waits for changes.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use teamster_journal::{EventKind, EventType};
use teamster_store::backend::no_task;
use teamster_store::{
    Change, ChangeCounters, Damaged, JournalPage, Listen, ListenerUpdate, ReadStore, Result,
    Signal, StoredMessage, TaskList, TeamEntry, Watch,
};
use teamster_types::failure::Failure;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::progress::Progress;
use teamster_types::task::Task;
use teamster_types::team::TeamConfig;
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use super::{MemStore, MemTeam, MemTeams, no_team};

impl ReadStore for MemStore {
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

    fn messages(&self, team: &TeamName) -> Result<Vec<StoredMessage>> {
        self.with(team, |team| {
            let receipt = |kind: EventType, label: &str, behind: u64| {
                let mut moved = team.events.iter().filter(|event| event.is(kind));
                let moved = moved.find(|event| match event.payload() {
                    EventKind::MessageDelivered(moved) | EventKind::MessageAcked(moved) => {
                        moved.mailbox == label && moved.up_to >= behind
                    }
                    _ => false,
                });
                moved.map(|event| event.ts)
            };
            let mut found = Vec::new();
            for (mailbox, mail) in &team.mail {
                let label = mailbox.label();
                found.extend((1..).zip(mail).map(|(behind, message)| StoredMessage {
                    mailbox: label.clone(),
                    message: message.clone(),
                    delivered_at: receipt(EventType::MessageDelivered, &label, behind),
                    acked_at: receipt(EventType::MessageAcked, &label, behind),
                }));
            }
            found.extend(team.native.iter().map(|(name, message)| StoredMessage {
                mailbox: format!("inboxes/{name}"),
                message: message.clone(),
                delivered_at: None,
                acked_at: None,
            }));
            found
        })
    }

    fn undelivered(&self, team: &TeamName, before: Time) -> Result<Vec<StoredMessage>> {
        let old = |filed: &StoredMessage| {
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

    fn remove_heartbeat(&self, team: &TeamName, worker: &WorkerName) -> Result<()> {
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

    fn process_state(&self, process: &ProcessId) -> ProcessState {
        (self.lives)(process)
    }

    fn signals(&self, team: &TeamName, worker: &WorkerName) -> Result<Vec<Signal>> {
        self.with(team, |team| team.signals_for(worker))
    }

    fn listen(&self, team: &TeamName, worker: &WorkerName) -> Result<Box<dyn Listen>> {
        self.with(team, |_| ())?;
        Ok(Box::new(MemListener {
            shared: Arc::clone(&self.shared),
            team: team.clone(),
            worker: worker.clone(),
        }))
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

/// Listens for changes that concern one worker.
struct MemListener {
    shared: Arc<MemTeams>,
    team: TeamName,
    worker: WorkerName,
}

impl Listen for MemListener {
    fn poll(&mut self) -> Result<ListenerUpdate> {
        let teams = self.shared.teams.lock();
        let teams = teams.unwrap_or_else(PoisonError::into_inner);
        let team = teams.get(&self.team).ok_or_else(|| no_team(&self.team))?;
        Ok(ListenerUpdate {
            pulse: ChangeCounters {
                journal: team.events.last().map_or(0, |event| event.seq),
                tasks: team.tasks.values().map(Task::version).sum(),
                client_inbox: 0,
                // Only the store writes here, and all its writes have an event.
                mail: 0,
            },
            signals: team.signals_for(&self.worker),
            wants_logs: false,
        })
    }
}

impl MemTeam {
    /// Returns the pending stop signals of a worker.
    fn signals_for(&self, worker: &WorkerName) -> Vec<Signal> {
        [false, true]
            .iter()
            .filter_map(|drain| self.signals.get(&(worker.clone(), *drain)).cloned())
            .collect()
    }
}

/// Watches one team: the journal after `seen`, and heartbeats that differ from `beats`.
struct MemWatch {
    shared: Arc<MemTeams>,
    team: TeamName,
    seen: u64,
    beats: BTreeMap<WorkerName, Heartbeat>,
}

impl MemWatch {
    fn look(&mut self, team: &MemTeam) -> Vec<Change> {
        let new = team.events.iter().filter(|event| event.seq > self.seen);
        let mut changes: Vec<Change> = new
            .map(|event| Change::Event(Box::new(event.clone())))
            .collect();
        self.seen = team.events.last().map_or(self.seen, |event| event.seq);
        let beating = team
            .beats
            .iter()
            .filter(|(worker, beat)| self.beats.get(*worker) != Some(*beat))
            .map(|(worker, _)| worker);
        let gone = self
            .beats
            .keys()
            .filter(|worker| !team.beats.contains_key(*worker));
        changes.extend(beating.chain(gone).cloned().map(Change::Beat));
        self.beats.clone_from(&team.beats);
        changes
    }
}

impl Watch for MemWatch {
    fn wait(&mut self, patience: Duration) -> Result<Vec<Change>> {
        let shared = Arc::clone(&self.shared);
        let deadline = Instant::now() + patience;
        let mut teams = shared.teams.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let team = teams.get(&self.team).ok_or_else(|| no_team(&self.team))?;
            let changes = self.look(team);
            let left = deadline.saturating_duration_since(Instant::now());
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
