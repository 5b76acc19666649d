//! The heart of a worker: a thread that beats, keeps the lease and looks for signals, whatever the worker itself does.
//!
//! It never waits for the worker, and the worker never waits for it: they share a few facts under a lock that is held
//! for moments, and news go to the worker through its one channel.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use teamster_fs::proc::Machine;
use teamster_store::{Kind, Listen, Pulse, Signal, Store};
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};
use teamster_types::task::Token;
use teamster_types::{TaskId, TeamName, WorkerName};

use super::Event;
use crate::limits::WorkerLimits;

/// A worker without a task, in whose team nothing has happened for so long, looks half as often,
const QUIET: Duration = Duration::from_secs(5);
/// and after so long a fifth as often: each look wakes a process, and a hundred of them may be waiting.
const LONG_QUIET: Duration = Duration::from_secs(15);

/// News from the heart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Something happened in the team.
    Changed,
    /// Somebody wants the worker to stop.
    Stop(Signal),
    /// The task is no longer ours, and why.
    Lost(TaskId, String),
    /// The team is gone.
    NoTeam,
}

/// What the heart tells the world.
#[derive(Debug)]
struct Vitals {
    status: WorkerStatus,
    holding: Option<(TaskId, Token)>,
    errors: u32,
    session: Option<String>,
    /// When the agent last gave a sign of life, by a clock that nobody can set.
    last_event: Option<Instant>,
    /// A change that others should see now and not at the next beat.
    urgent: bool,
    over: bool,
}

/// Who the worker is.
#[derive(Clone, Debug)]
pub(super) struct WorkerIdentity {
    pub(super) team: TeamName,
    pub(super) name: WorkerName,
    pub(super) provider: String,
    pub(super) launch: String,
}

#[derive(Debug)]
struct SharedVitals {
    vitals: Mutex<Vitals>,
    changed: Condvar,
}

/// The worker's side of its heart.
#[derive(Debug)]
pub(super) struct HeartbeatThread {
    shared: Arc<SharedVitals>,
    thread: Option<JoinHandle<()>>,
}

impl HeartbeatThread {
    /// Begins to beat. The first beat is written before this returns.
    pub(super) fn start(
        store: Arc<dyn Store>,
        machine: Arc<Machine>,
        who: WorkerIdentity,
        limits: &WorkerLimits,
        news: Sender<Event>,
    ) -> teamster_store::Result<Self> {
        let shared = Arc::new(SharedVitals {
            vitals: Mutex::new(Vitals {
                status: WorkerStatus::Ready,
                holding: None,
                errors: 0,
                session: None,
                last_event: None,
                urgent: false,
                over: false,
            }),
            changed: Condvar::new(),
        });
        let mut beater = HeartbeatLoop {
            listener: store.listen(&who.team, &who.name)?,
            stirred: Instant::now(),
            store,
            machine,
            who,
            limits: limits.clone(),
            news,
            shared: Arc::clone(&shared),
            asked: Vec::new(),
            pulse: Pulse::default(),
        };
        beater.beat()?;
        let thread = std::thread::spawn(move || beater.live());
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vitals)) {
        change(&mut self.shared.vitals());
        self.shared.changed.notify_one();
    }

    /// What the worker is doing.
    pub(super) fn is(&self, status: WorkerStatus) {
        self.change(|vitals| {
            vitals.urgent |= vitals.status != status;
            vitals.status = status;
        });
    }

    /// The worker took a task, whose lease is kept from now on. Its agent is not there yet.
    pub(super) fn holds(&self, task: &TaskId, token: &Token) {
        self.change(|vitals| {
            vitals.holding = Some((task.clone(), token.clone()));
            vitals.status = WorkerStatus::Ready;
            vitals.session = None;
            vitals.last_event = None;
            vitals.urgent = true;
        });
    }

    /// The worker has no task any more.
    pub(super) fn lets_go(&self, errors: u32) {
        self.change(|vitals| {
            vitals.holding = None;
            vitals.status = WorkerStatus::Polling;
            vitals.errors = errors;
            vitals.session = None;
            vitals.last_event = None;
            vitals.urgent = true;
        });
    }

    /// The agent gave a sign of life.
    pub(super) fn agent_spoke(&self, session: Option<&str>) {
        let mut vitals = self.shared.vitals();
        vitals.last_event = Some(Instant::now());
        if vitals.status != WorkerStatus::Executing || session.is_some() {
            vitals.status = WorkerStatus::Executing;
            if session.is_some() {
                vitals.session = session.map(str::to_owned);
            }
            vitals.urgent = true;
            drop(vitals);
            self.shared.changed.notify_one();
        }
    }

    /// Stops beating, and takes the heartbeat away: the orderly end.
    pub(super) fn stop(
        mut self,
        store: &dyn Store,
        who: &WorkerIdentity,
    ) -> teamster_store::Result<()> {
        self.end();
        store.end_beat(&who.team, &who.name)
    }

    fn end(&mut self) {
        self.change(|vitals| vitals.over = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for HeartbeatThread {
    fn drop(&mut self) {
        self.end();
    }
}

impl SharedVitals {
    fn vitals(&self) -> MutexGuard<'_, Vitals> {
        self.vitals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's side.
struct HeartbeatLoop {
    store: Arc<dyn Store>,
    machine: Arc<Machine>,
    who: WorkerIdentity,
    limits: WorkerLimits,
    news: Sender<Event>,
    shared: Arc<SharedVitals>,
    /// Signals that the worker knows of.
    asked: Vec<(String, bool)>,
    listener: Box<dyn Listen>,
    pulse: Pulse,
    /// When something last happened.
    stirred: Instant,
}

impl HeartbeatLoop {
    fn live(&mut self) {
        let (mut beaten, mut renewed) = (Instant::now(), Instant::now());
        let mut held: Option<TaskId> = None;
        let mut last_looked = Instant::now();
        loop {
            let look = self.pace(held.is_some());
            let next_look = look.saturating_sub(last_looked.elapsed());
            let next_beat = self.limits.beat.saturating_sub(beaten.elapsed());
            // A beat that fails again and again must not keep us busy.
            let next_beat = next_beat.max(self.limits.look);
            let (urgent, over, holding) = self.wait(next_look.min(next_beat));
            if over {
                return;
            }
            if urgent {
                self.stirred = Instant::now();
            }
            // A beat that is due soon is written now: one waking is cheaper than two.
            if urgent || beaten.elapsed() + self.limits.look / 2 >= self.limits.beat {
                // A beat that could not be written is tried again soon: others judge us by it.
                if self.beat().is_ok() {
                    beaten = Instant::now();
                }
            }
            if last_looked.elapsed() >= look {
                last_looked = Instant::now();
                self.look();
            }
            let task = holding.as_ref().map(|(task, _)| task.clone());
            if task != held {
                held = task;
                renewed = Instant::now();
            }
            if let Some((task, token)) = holding
                && renewed.elapsed() >= self.limits.renew
                && self.renew(&task, &token)
            {
                renewed = Instant::now();
            }
        }
    }

    /// How often to look now.
    fn pace(&self, has_task: bool) -> Duration {
        let times = match self.stirred.elapsed() {
            quiet if has_task || quiet < QUIET => 1,
            quiet if quiet < LONG_QUIET => 2,
            _ => 5,
        };
        self.limits.look * times
    }

    /// Waits for something urgent, at most `patience`.
    fn wait(&self, patience: Duration) -> (bool, bool, Option<(TaskId, Token)>) {
        let vitals = self.shared.vitals();
        let (mut vitals, _) = self
            .shared
            .changed
            .wait_timeout_while(vitals, patience, |vitals| !vitals.urgent && !vitals.over)
            .unwrap_or_else(PoisonError::into_inner);
        let urgent = std::mem::take(&mut vitals.urgent);
        (urgent, vitals.over, vitals.holding.clone())
    }

    fn beat(&self) -> teamster_store::Result<()> {
        let me = self.machine.me();
        let now = self.store.now();
        let heartbeat = {
            let vitals = self.shared.vitals();
            Heartbeat {
                worker_name: self.who.name.clone(),
                team_name: self.who.team.clone(),
                provider: self.who.provider.clone(),
                pid: me.pid,
                last_poll_at: now,
                current_task_id: vitals.holding.as_ref().map(|(task, _)| task.clone()),
                consecutive_errors: vitals.errors,
                status: vitals.status,
                process_start_time: Some(me.process_start_time),
                boot_id: Some(me.boot_id.clone()),
                pid_ns: Some(me.pid_ns.clone()),
                host: Some(me.host.clone()),
                agent_session_id: vitals.session.clone(),
                // The wall clock may have been set since: readers get the age that the event really has.
                last_event_at: vitals.last_event.map(|at| now.before(at.elapsed())),
                launch: Some(self.who.launch.clone()),
            }
        };
        self.store.beat(&heartbeat)
    }

    /// Looks for signals and for news. What cannot be read now is looked for again soon.
    ///
    /// Another program's signal is only a file, so it is looked for even when the journal says nothing.
    fn look(&mut self) {
        let heard = match self.listener.hear() {
            Ok(heard) => heard,
            Err(error) if error.kind == Kind::NotFound => return self.tell(News::NoTeam),
            Err(_) => return,
        };
        for signal in heard.signals {
            let known = (signal.request_id.clone(), signal.drain);
            if !self.asked.contains(&known) {
                self.asked.push(known);
                self.stirred = Instant::now();
                self.tell(News::Stop(signal));
            }
        }
        if heard.pulse != self.pulse {
            self.pulse = heard.pulse;
            self.stirred = Instant::now();
            self.tell(News::Changed);
        }
    }

    /// Keeps the lease; whether that is settled for now.
    fn renew(&self, task: &TaskId, token: &Token) -> bool {
        match self.store.renew(&self.who.team, task, token, None) {
            Ok(_) => true,
            Err(error) if error.busy => false,
            Err(error) if matches!(error.kind, Kind::Conflict | Kind::NotFound) => {
                self.tell(News::Lost(task.clone(), error.message));
                true
            }
            Err(_) => false,
        }
    }

    fn tell(&self, news: News) {
        let _ = self.news.send(Event::Heart(news));
    }
}
