//! The heartbeat of a worker: a thread that writes it, renews the lease of the worker's task and polls for signals,
//! independently of what the bridge is doing.
//!
//! Neither the thread nor the bridge waits for the other: they share a few facts under a lock that is held only briefly,
//! and the thread reports to the bridge through its one channel.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use teamster_fs::OrTrace as _;
use teamster_fs::proc::Machine;
use teamster_store::{
    ChangeCounters, Listen, OutgoingMessage, Recipient, Store, StoreError, StoreErrorKind,
};
use teamster_types::TaskId;
use teamster_types::heartbeat::{Heartbeat, ProviderLimit, StoreRefusal, WorkerStatus};
use teamster_types::json::Object;
use teamster_types::task::Token;

use super::BridgeEvent;
use super::reporter::WorkerIdentity;
use crate::limits::WorkerLimits;

/// After this long without activity in the team, a worker without a task polls half as often: each poll wakes a process,
/// and a hundred workers may be waiting. Changes by other programs are still noticed within two seconds, however busy the
/// machine is.
const QUIET_AFTER: Duration = Duration::from_secs(5);

/// The facts that the heartbeat reports, and whether the thread is to end.
#[derive(Debug)]
struct Vitals {
    status: WorkerStatus,
    holding: Option<(TaskId, Token)>,
    errors: u32,
    session: Option<String>,
    limit: Option<ProviderLimit>,
    refusal: Option<StoreRefusal>,
    /// When the agent last gave a sign of life, by the monotonic clock.
    last_event: Option<Instant>,
    /// Whether to write a heartbeat immediately instead of at the next interval.
    urgent: bool,
    over: bool,
}

/// What the bridge and its heartbeat thread share.
#[derive(Debug)]
struct SharedVitals {
    vitals: Mutex<Vitals>,
    changed: Condvar,
}

/// The bridge's side of the heartbeat. Dropping it ends the thread and leaves the last heartbeat in place.
pub(super) struct HeartbeatThread {
    store: Arc<dyn Store>,
    identity: WorkerIdentity,
    shared: Arc<SharedVitals>,
    thread: Option<JoinHandle<()>>,
}

impl HeartbeatThread {
    /// Starts the thread. The first heartbeat is written before this returns. Fails if another launch has become this worker
    /// since the heartbeat of `seen` was found to be stale.
    pub(super) fn start(
        store: Arc<dyn Store>,
        machine: Arc<Machine>,
        identity: WorkerIdentity,
        limits: &WorkerLimits,
        seen: Option<&str>,
        events: Sender<BridgeEvent>,
    ) -> teamster_store::Result<Self> {
        let shared = Arc::new(SharedVitals {
            vitals: Mutex::new(Vitals {
                status: WorkerStatus::Ready,
                holding: None,
                errors: 0,
                session: None,
                limit: None,
                refusal: None,
                last_event: None,
                urgent: false,
                over: false,
            }),
            changed: Condvar::new(),
        });
        let mut heartbeat = HeartbeatLoop {
            listener: store.listen(&identity.team, &identity.name)?,
            stirred: Instant::now(),
            store: Arc::clone(&store),
            machine,
            identity: identity.clone(),
            limits: limits.clone(),
            events,
            shared: Arc::clone(&shared),
            asked: Vec::new(),
            pulse: ChangeCounters::default(),
            told: Instant::now(),
        };
        if !store.register_launch(&heartbeat.current(), seen)? {
            return Err(StoreError::conflict(format!(
                "{} of team {} is already running",
                identity.name, identity.team
            ))
            .hint("choose another name with --name"));
        }
        let thread = std::thread::spawn(move || heartbeat.run());
        Ok(Self {
            store,
            identity,
            shared,
            thread: Some(thread),
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vitals)) {
        change(&mut self.shared.vitals());
        self.shared.changed.notify_one();
    }

    /// Sets the worker's current status.
    pub(super) fn set_status(&self, status: WorkerStatus) {
        self.change(|vitals| {
            vitals.urgent |= vitals.status != status;
            vitals.status = status;
        });
    }

    /// Sets the provider limit that the worker waits for, or `None`.
    pub(super) fn set_limit(&self, limit: Option<ProviderLimit>) {
        self.change(|vitals| {
            vitals.urgent |= vitals.limit != limit;
            vitals.limit = limit;
        });
    }

    /// Sets why the store refused the last change, or `None`.
    pub(super) fn set_refusal(&self, refusal: Option<StoreRefusal>) {
        self.change(|vitals| {
            // A refusal that is not repeated soon is no longer believed.
            vitals.urgent |= vitals.refusal != refusal;
            vitals.refusal = refusal;
        });
    }

    /// Notes that the worker holds a task, whose lease is renewed from now on. Its agent does not run yet.
    pub(super) fn begin_task(&self, task: &TaskId, token: &Token) {
        self.change(|vitals| {
            vitals.holding = Some((task.clone(), token.clone()));
            vitals.status = WorkerStatus::Ready;
            vitals.session = None;
            vitals.last_event = None;
            vitals.urgent = true;
        });
    }

    /// Notes that the worker no longer holds a task, after this many errors in a row.
    pub(super) fn end_task(&self, errors: u32) {
        self.change(|vitals| {
            vitals.holding = None;
            vitals.status = WorkerStatus::Polling;
            vitals.errors = errors;
            vitals.session = None;
            vitals.last_event = None;
            vitals.urgent = true;
        });
    }

    /// Notes that the agent gave a sign of life, with its session where it named one.
    pub(super) fn note_activity(&self, session: Option<&str>) {
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

    /// Ends the thread and removes the heartbeat, for an orderly exit.
    pub(super) fn stop(mut self) -> teamster_store::Result<()> {
        self.end();
        self.store
            .remove_heartbeat(&self.identity.team, &self.identity.name)
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

/// The thread's side of the heartbeat.
struct HeartbeatLoop {
    store: Arc<dyn Store>,
    machine: Arc<Machine>,
    identity: WorkerIdentity,
    limits: WorkerLimits,
    events: Sender<BridgeEvent>,
    shared: Arc<SharedVitals>,
    /// Signals that were already sent to the bridge, each by its id and whether it drains.
    asked: Vec<(String, bool)>,
    listener: Box<dyn Listen>,
    pulse: ChangeCounters,
    /// When the team or the worker was last active.
    stirred: Instant,
    /// When the lead was last sent a heartbeat message.
    told: Instant,
}

impl HeartbeatLoop {
    fn run(&mut self) {
        let (mut beaten, mut renewed) = (Instant::now(), Instant::now());
        let mut held: Option<TaskId> = None;
        let mut last_looked = Instant::now();
        loop {
            let look = self.pace(held.is_some());
            let next_look = look.saturating_sub(last_looked.elapsed());
            let next_beat = self.limits.beat.saturating_sub(beaten.elapsed());
            // A heartbeat that keeps failing must not cause a busy loop.
            let next_beat = next_beat.max(self.limits.look);
            let (urgent, over, holding) = self.wait(next_look.min(next_beat));
            if over {
                return;
            }
            if urgent {
                self.stirred = Instant::now();
            }
            // A heartbeat or poll that is due soon is done now: one wakeup is cheaper than two.
            if urgent || beaten.elapsed() + self.limits.look / 2 >= self.limits.beat {
                // A failed heartbeat is retried soon, because other processes judge the worker by it.
                let written = self.beat();
                if written.ok_or_trace("write the heartbeat").is_some() {
                    beaten = Instant::now();
                }
            }
            self.tell_lead_if_due();
            if last_looked.elapsed() >= look / 2 {
                last_looked = Instant::now();
                self.poll();
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

    /// Returns the current poll interval.
    fn pace(&self, has_task: bool) -> Duration {
        let times = match self.stirred.elapsed() {
            quiet if has_task || quiet < QUIET_AFTER => 1,
            _ => 2,
        };
        self.limits.look * times
    }

    /// Waits at most `patience` for an urgent change; returns whether there is one, whether the thread is to end, and the task
    /// that the worker holds.
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
        self.store.beat(&self.current())
    }

    /// Returns the current heartbeat.
    fn current(&self) -> Heartbeat {
        let me = self.machine.me();
        let now = self.store.now();
        let vitals = self.shared.vitals();
        Heartbeat {
            worker_name: self.identity.name.clone(),
            team_name: self.identity.team.clone(),
            provider: self.identity.provider.clone(),
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
            // The wall clock may have been changed since, so the time is computed from the event's real age.
            last_event_at: vitals.last_event.map(|at| now.before(at.elapsed())),
            // A running agent is not limited, whichever limit another worker has hit.
            limit: (vitals.limit.clone()).filter(|_| vitals.status != WorkerStatus::Executing),
            store_refusal: vitals.refusal.clone(),
            launch: Some(self.identity.launch.clone()),
        }
    }

    /// Sends the lead a heartbeat message if one is configured and due. A message that cannot be sent is not retried; the
    /// next one follows.
    fn tell_lead_if_due(&mut self) {
        let every = self.limits.beat_messages;
        if every.is_none_or(|every| self.told.elapsed() < every) {
            return;
        }
        self.told = Instant::now();
        let mut extra = Object::new();
        {
            let vitals = self.shared.vitals();
            extra.insert("status".into(), vitals.status.as_str().into());
            if let Some((task, _)) = &vitals.holding {
                extra.insert("taskId".into(), task.as_str().into());
            }
        }
        let message = OutgoingMessage {
            from: self.identity.name.to_string(),
            to: Recipient::Lead,
            kind: "heartbeat".to_owned(),
            content: String::new(),
            extra,
        };
        let sent = self.store.send(&self.identity.team, &message);
        sent.or_trace("send a heartbeat message");
    }

    /// Polls for signals and for changes of the team. If they cannot be read now, the next poll tries again.
    ///
    /// Another program's signal is only a file, so it is looked for even when the journal has no new event.
    fn poll(&mut self) {
        let heard = match self.listener.poll() {
            Ok(heard) => heard,
            Err(error) if error.kind == StoreErrorKind::NotFound => {
                return self.send(BridgeEvent::TeamGone);
            }
            Err(error) => {
                tracing::debug!("cannot look for news: {error}");
                return;
            }
        };
        for signal in heard.signals {
            let known = (signal.request_id.clone(), signal.drain);
            if !self.asked.contains(&known) {
                self.asked.push(known);
                self.stirred = Instant::now();
                self.send(BridgeEvent::StopRequested(signal));
            }
        }
        if heard.wants_logs {
            self.send(BridgeEvent::LogsWanted);
        }
        if heard.pulse != self.pulse {
            let has_mail = heard.pulse.mail != self.pulse.mail;
            self.pulse = heard.pulse;
            self.stirred = Instant::now();
            self.send(BridgeEvent::TeamChanged { has_mail });
        }
    }

    /// Renews the lease; returns whether it is renewed or known to be lost.
    fn renew(&self, task: &TaskId, token: &Token) -> bool {
        match self.store.renew(&self.identity.team, task, token, None) {
            Ok(_) => true,
            Err(error)
                if !error.busy
                    && matches!(
                        error.kind,
                        StoreErrorKind::Conflict | StoreErrorKind::NotFound
                    ) =>
            {
                self.send(BridgeEvent::ClaimLost(task.clone(), error.message));
                true
            }
            Err(error) => {
                tracing::debug!("cannot renew the lease of task {task} now: {error}");
                false
            }
        }
    }

    fn send(&self, event: BridgeEvent) {
        let _ = self.events.send(event);
    }
}
