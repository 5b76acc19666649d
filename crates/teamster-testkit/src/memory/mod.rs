//! A back end of the store that keeps teams in memory: the same rules without a disk.

mod read;
mod txn;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use teamster_journal::{Event, EventActor, NewEvent};
use teamster_store::{
    Backend, Clock, DeletedTeam, ExportedMailbox, MailCursor, MailLine, Position, Result, Signal,
    StoreError, TeamExport, Txn, backend,
};
use teamster_types::failure::Failure;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::message::{Mailbox, Message};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::task::Task;
use teamster_types::team::{NewTeam, TeamConfig};
use teamster_types::transitions;
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use txn::MemTxn;

/// All data of one team.
#[derive(Debug)]
struct MemTeam {
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
struct MemTeams {
    teams: Mutex<BTreeMap<TeamName, MemTeam>>,
    changed: Condvar,
}

/// Decides whether a process is alive, in place of the operating system.
type LivenessCheck = dyn Fn(&ProcessId) -> ProcessState + Send + Sync;

/// A store that keeps teams in memory.
pub struct MemStore {
    shared: Arc<MemTeams>,
    clock: Arc<dyn Clock>,
    me: ProcessId,
    lease: Duration,
    lives: Arc<LivenessCheck>,
}

impl MemStore {
    /// Returns an empty store. `lives` decides which processes are alive; `me` is the process that claims.
    pub fn new(
        clock: Arc<dyn Clock>,
        me: ProcessId,
        lives: impl Fn(&ProcessId) -> ProcessState + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::default(),
            clock,
            me,
            lease: transitions::LEASE,
            lives: Arc::new(lives),
        }
    }

    /// Returns a store with the same teams that claims as another process.
    #[must_use]
    pub fn claiming_as(&self, me: ProcessId) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            clock: Arc::clone(&self.clock),
            me,
            lease: self.lease,
            lives: Arc::clone(&self.lives),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TeamName, MemTeam>> {
        self.shared
            .teams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, team: &TeamName, read: impl FnOnce(&MemTeam) -> T) -> Result<T> {
        self.lock().get(team).map(read).ok_or_else(|| no_team(team))
    }
}

fn no_team(team: &TeamName) -> StoreError {
    StoreError::not_found(format!("there is no team {team}"))
}

fn numbered(team: &TeamName, last: u64, new: NewEvent, now: Time, more: bool) -> Event {
    let mut event = new.placed(last + 1, teamster_fs::random_hex(), now, team.to_string());
    event.more = more;
    event
}

impl Backend for MemStore {
    fn change(
        &self,
        team: &TeamName,
        _what: &'static str,
        change: &mut dyn FnMut(&mut dyn Txn) -> Result<()>,
    ) -> Result<u64> {
        let mut teams = self.lock();
        let state = teams.get_mut(team).ok_or_else(|| no_team(team))?;
        let before = state.events.len() as u64;
        let mut txn = MemTxn::new(self, team, state);
        change(&mut txn)?;
        txn.commit();
        drop(teams);
        self.shared.changed.notify_all();
        Ok(before)
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
        let team = MemTeam {
            config: config.clone(),
            tasks: BTreeMap::new(),
            highest: 0,
            failures: HashMap::new(),
            mail: BTreeMap::new(),
            native: Vec::new(),
            cursors: HashMap::new(),
            signals: HashMap::new(),
            beats: BTreeMap::new(),
            events: vec![numbered(&new.name, 0, backend::created(new), now, false)],
        };
        teams.insert(new.name.clone(), team);
        Ok(config)
    }

    fn drop_team(&self, team: &TeamName, _actor: &EventActor, force: bool) -> Result<DeletedTeam> {
        let mut teams = self.lock();
        let state = teams.get(team).ok_or_else(|| no_team(team))?;
        let tasks: Vec<Task> = state.tasks.values().cloned().collect();
        let beats: Vec<Heartbeat> = state.beats.values().cloned().collect();
        backend::refuse_held(team, &tasks, &beats, &*self.lives, self.clock.now(), force)?;
        teams.remove(team);
        drop(teams);
        self.shared.changed.notify_all();
        Ok(DeletedTeam {
            trash: None,
            journal: None,
        })
    }

    fn snapshot_team(&self, team: &TeamName) -> Result<TeamExport> {
        self.with(team, |state| {
            let mailboxes = state.mail.iter().filter(|(_, lines)| !lines.is_empty());
            let mut mailboxes: Vec<ExportedMailbox> = mailboxes
                .map(|(mailbox, lines)| {
                    let cursor = state.cursors.get(mailbox).copied().unwrap_or_default();
                    ExportedMailbox {
                        mailbox: mailbox.clone(),
                        acked: cursor.acked.0,
                        delivered: cursor.delivered.0,
                        lines: lines.iter().cloned().map(MailLine::Message).collect(),
                    }
                })
                .collect();
            mailboxes.sort_by_key(|mailbox| mailbox.mailbox.label());
            let mut failures: Vec<Failure> = state.failures.values().cloned().collect();
            failures.sort_by(|one, other| one.task_id.cmp(&other.task_id));
            let mut signals: Vec<((WorkerName, bool), Signal)> =
                state.signals.clone().into_iter().collect();
            signals.sort_by(|(one, _), (other, _)| one.cmp(other));
            TeamExport {
                team: team.clone(),
                config: state.config.clone(),
                highest_task: (state.highest > 0).then(|| TaskId::from_number(state.highest)),
                tasks: state.tasks.values().cloned().collect(),
                failures,
                mailboxes,
                signals: signals
                    .into_iter()
                    .map(|((worker, _), signal)| (worker, signal))
                    .collect(),
                events: state.events.clone(),
            }
        })
    }

    fn restore_team(&self, export: &TeamExport) -> Result<()> {
        let mut teams = self.lock();
        if teams.contains_key(&export.team) {
            return Err(StoreError::conflict(format!(
                "there is a team {} already",
                export.team
            )));
        }
        let highest = export.highest_task.as_ref().map_or(0, TaskId::number);
        let mut state = MemTeam {
            config: export.config.clone(),
            tasks: BTreeMap::new(),
            highest: u64::try_from(highest).unwrap_or(u64::MAX),
            failures: HashMap::new(),
            mail: BTreeMap::new(),
            native: Vec::new(),
            cursors: HashMap::new(),
            signals: HashMap::new(),
            beats: BTreeMap::new(),
            events: export.events.clone(),
        };
        for task in &export.tasks {
            state.tasks.insert(task.id().clone(), task.clone());
        }
        for failure in &export.failures {
            state
                .failures
                .insert(failure.task_id.clone(), failure.clone());
        }
        for whole in &export.mailboxes {
            let messages = whole.lines.iter().filter_map(|line| match line {
                MailLine::Message(message) => Some(message.clone()),
                MailLine::Foreign(_) => None,
            });
            state.mail.insert(whole.mailbox.clone(), messages.collect());
            let cursor = MailCursor {
                acked: Position(whole.acked),
                delivered: Position(whole.delivered),
            };
            state.cursors.insert(whole.mailbox.clone(), cursor);
        }
        for (worker, signal) in &export.signals {
            let key = (worker.clone(), signal.drain);
            state.signals.insert(key, signal.clone());
        }
        teams.insert(export.team.clone(), state);
        Ok(())
    }
}
