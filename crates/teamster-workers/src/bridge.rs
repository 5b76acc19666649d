//! A worker's own process: it claims tasks, has its agent do them, and hands over what came of it.
//!
//! ```text
//! signals → mail → claim → workplace made ready → agent → work kept → task completed, failed or given back → …
//! ```
//!
//! One thread does all that; the [`heart`] beats beside it. Everything that happens, from the agent's lines to a stop
//! signal, comes through one channel, so that nothing is waited for while something else happens.

mod asked;
mod attempt;
mod finish;
mod heart;
mod idle;
mod log;
mod news;
mod work;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use teamster_agents::{Driver, Permissions};
use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_isolate::child::ChildEvent;
use teamster_isolate::process_tree;
use teamster_journal::payload::{WorkerSpawned, WorkerStopped};
use teamster_journal::{EventKind, NewEvent};
use teamster_store::{Kind, Outgoing, Recipient, Signal, Store, StoreError};
use teamster_types::heartbeat::WorkerStatus;
use teamster_types::json::Object;
use teamster_types::message::Message;
use teamster_types::{TaskId, Time};

use crate::record::{self, Record, Wanted};
use crate::rules::Rules;
use crate::seat::Seat;
use crate::workplace::{NoPlace, Workplace};
use asked::Answered;
use heart::{Heart, News, Who};

/// Everything that reaches a bridge.
#[derive(Debug)]
enum Event {
    /// From the heart.
    Heart(News),
    /// From the agent of this attempt.
    Agent(u64, ChildEvent),
}

/// Makes the place where a worker works, and says what it does. It is called by whoever has the worker's seat.
pub type MakePlace =
    Box<dyn FnOnce(&mut dyn FnMut(&str)) -> Result<Box<dyn Workplace>, NoPlace> + Send>;

/// What a bridge needs.
pub struct Setup {
    /// Where tasks come from.
    pub store: Arc<dyn Store>,
    /// The worker's seat. Who made the workplace ready held it before.
    pub seat: Seat,
    /// The project.
    pub project: PathBuf,
    /// Who it is, and with which agent.
    pub wanted: Wanted,
    /// How often it was started anew since it last ended in order.
    pub restarts: u32,
    /// What its agent is called.
    pub provider: String,
    /// The agent.
    pub driver: Box<dyn Driver>,
    /// What it may do.
    pub permissions: Permissions,
    /// Where it works.
    pub workplace: MakePlace,
    /// How long things may take.
    pub rules: Rules,
    /// The number of this launch.
    pub launch: String,
    /// Variables that the agent gets besides its own.
    pub exported: Vec<(OsString, OsString)>,
    /// Our own program.
    pub teamster: PathBuf,
    /// What everybody in its place is told before each task.
    pub told: String,
    /// Whether it may begin another task: a run may have used up what it may cost.
    pub may_begin: MayBegin,
    /// Where it says what it does: the pane, or a log.
    pub say: Box<dyn FnMut(&str) + Send>,
}

/// Whether another task may be begun now.
pub type MayBegin = Box<dyn FnMut() -> bool + Send>;

/// Why a bridge did not begin, or ended otherwise than it should.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of ours could not be used.
    #[error(transparent)]
    Files(#[from] teamster_fs::FsError),
    /// There is no place to work in.
    #[error(transparent)]
    Place(#[from] NoPlace),
}

/// A worker's own process.
pub struct Bridge {
    store: Arc<dyn Store>,
    machine: Arc<Machine>,
    who: Who,
    driver: Option<Box<dyn Driver>>,
    model: Option<String>,
    permissions: Permissions,
    workplace: Box<dyn Workplace>,
    rules: Rules,
    exported: Vec<(OsString, OsString)>,
    teamster: PathBuf,
    path: OsString,
    project: Dir,
    told_always: String,
    may_begin: MayBegin,
    say: Box<dyn FnMut(&str) + Send>,
    heart: Heart,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// Runs of the agent so far.
    attempts: u64,
    /// Failures in a row,
    errors: u32,
    /// troubles in a row that were not the task's,
    troubles: u32,
    /// and the end of the pause after the last one.
    paused_until: Option<Instant>,
    /// The lead knows that it has nothing to do.
    said_idle: bool,
    holding: Option<TaskId>,
    /// Somebody did something to the task that is held.
    touched: bool,
    stop: Option<Signal>,
    gone: bool,
    began: Time,
    /// The last event before it began.
    began_after: u64,
    /// The last event that was looked at.
    seen: u64,
    mail: Vec<Message>,
    /// So many of them were put into the last prompt.
    told: usize,
    /// Messages for the bridge itself that were obeyed. They are read again until they are acknowledged.
    obeyed: HashSet<String>,
    /// Answers of people that the agent has not got yet.
    answers: Vec<Answered>,
    /// Answers that were read, by the ids of their messages: what is not acknowledged is read again.
    known_answers: HashSet<String>,
    last_told: Option<Instant>,
    lost_lines: u64,
    /// Held for the bridge's life; the kernel frees it at its death.
    _seat: Seat,
}

impl Bridge {
    /// Makes the workplace ready and begins to beat.
    pub fn open(mut setup: Setup) -> Result<Self, BridgeError> {
        let Wanted { team, worker, .. } = setup.wanted.clone();
        // The seat is held: another process of this worker would have its worktree pulled away under its agent.
        let workplace = (setup.workplace)(&mut setup.say)?;
        process_tree::adopt_orphans();
        let machine = Arc::new(Machine::read());
        let project = Dir::open_or_create_root(&setup.project)?;
        // A signal that was meant for an earlier bridge of this name is not for us.
        setup.store.clear_signals(&team, &worker)?;
        let who = Who {
            team,
            name: worker,
            provider: setup.provider,
            launch: setup.launch,
        };
        let record = Record {
            launch: who.launch.clone(),
            process: machine.me().clone(),
            started_at: setup.store.now(),
            restarts: setup.restarts,
            wanted: setup.wanted,
        };
        record::write(&project, &record)?;
        let seen = setup.store.position(&who.team)?;
        let (sender, events) = channel();
        let heart = Heart::start(
            Arc::clone(&setup.store),
            Arc::clone(&machine),
            who.clone(),
            &setup.rules,
            sender.clone(),
        )?;
        let mut bridge = Self {
            store: setup.store,
            machine,
            who,
            driver: Some(setup.driver),
            model: record.wanted.model,
            permissions: setup.permissions,
            workplace,
            rules: setup.rules,
            exported: setup.exported,
            teamster: setup.teamster,
            path: std::env::var_os("PATH").unwrap_or_default(),
            project,
            told_always: setup.told,
            may_begin: setup.may_begin,
            say: setup.say,
            heart,
            events,
            sender,
            attempts: 0,
            errors: 0,
            troubles: 0,
            said_idle: false,
            paused_until: None,
            holding: None,
            touched: false,
            stop: None,
            gone: false,
            began: record.started_at,
            began_after: seen,
            seen,
            mail: Vec::new(),
            told: 0,
            obeyed: HashSet::new(),
            answers: Vec::new(),
            known_answers: HashSet::new(),
            last_told: None,
            lost_lines: 0,
            _seat: setup.seat,
        };
        bridge.listen_to_the_system();
        let me = bridge.machine.me().clone();
        let event = bridge.event(EventKind::WorkerSpawned(WorkerSpawned {
            process: Some(me),
            launch: bridge.who.launch.clone(),
            provider: bridge.who.provider.clone(),
        }));
        bridge.store.record(&bridge.who.team, event)?;
        bridge.send("ready", "", Object::new());
        Ok(bridge)
    }

    /// Works until it is told to stop.
    pub fn run(mut self) -> Result<(), BridgeError> {
        self.heart.is(WorkerStatus::Polling);
        self.read_mail();
        let mut tried: Option<Instant> = None;
        while self.stop.is_none() && !self.gone {
            if self.may_work() && (self.may_begin)() && !self.is_called_back() {
                tried = Some(Instant::now());
                match self.claim() {
                    Ok(Some(claimed)) => {
                        self.said_idle = false;
                        self.work(&claimed);
                        continue;
                    }
                    Ok(None) => self.say_idle(),
                    Err(error) if error.kind == Kind::NotFound => {
                        self.gone = true;
                        continue;
                    }
                    Err(error) => self.tell(&format!("cannot claim: {error}")),
                }
            }
            if self.stop.is_none() {
                self.wait(tried);
            }
        }
        self.leave()
    }

    /// Whether somebody wants it to stop. The heart tells that a moment later, and no task may begin in that moment.
    fn is_called_back(&mut self) -> bool {
        let signals = self.store.signals(&self.who.team, &self.who.name);
        for signal in signals.unwrap_or_default() {
            self.asked_to_stop(signal);
        }
        self.stop.is_some()
    }

    /// Ctrl-C and a polite end are wishes like any other; a terminal that closes lets the current task be finished.
    fn listen_to_the_system(&self) {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]) else {
            return;
        };
        let (sender, store) = (self.sender.clone(), Arc::clone(&self.store));
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let reason = match signal {
                    SIGHUP => "its terminal was closed",
                    SIGINT => "Ctrl-C",
                    _ => "the system asked it to end",
                };
                let _ = sender.send(Event::Heart(News::Stop(Signal {
                    request_id: String::new(),
                    reason: reason.to_owned(),
                    timestamp: store.now(),
                    drain: signal == SIGHUP,
                })));
            }
        });
    }

    /// Whether it takes tasks now.
    fn may_work(&self) -> bool {
        !self.is_quarantined()
            && self
                .paused_until
                .is_none_or(|until| Instant::now() >= until)
    }

    fn is_quarantined(&self) -> bool {
        self.errors >= self.rules.quarantine_errors
    }

    /// Says goodbye: the answer to whoever asked, no heartbeat, nothing left running.
    fn leave(mut self) -> Result<(), BridgeError> {
        self.heart.is(WorkerStatus::Shutdown);
        if let Err(error) = process_tree::ProcessTree::below_me(&self.machine, &self.who.launch)
            .end(self.rules.grace)
        {
            self.tell(&error.to_string());
        }
        let stop = self.stop.take();
        if !self.gone {
            if let Some(stop) = &stop {
                let kind = if stop.drain {
                    "drain_ack"
                } else {
                    "shutdown_ack"
                };
                let mut extra = Object::new();
                extra.insert("requestId".into(), stop.request_id.clone().into());
                extra.insert("approve".into(), true.into());
                extra.insert("reason".into(), stop.reason.clone().into());
                self.send(kind, "", extra);
            }
            let reason = stop.as_ref().map_or("", |stop| stop.reason.as_str());
            let event = self.event(EventKind::WorkerStopped(WorkerStopped {
                reason: reason.to_owned(),
                ..WorkerStopped::default()
            }));
            self.store.record(&self.who.team, event)?;
        }
        let Self {
            store,
            who,
            heart,
            gone,
            project,
            ..
        } = self;
        record::remove(&project, &who.team, &who.name, &who.launch)?;
        let ended = heart.stop(store.as_ref(), &who);
        if gone {
            return Ok(());
        }
        // The heartbeat goes before the signal: who asked must see the one that answers, and no later one obey again.
        store.clear_signals(&who.team, &who.name)?;
        Ok(ended?)
    }

    /// Returns an event of this worker.
    fn event(&self, what: EventKind) -> NewEvent {
        NewEvent::new(self.who.name.as_str(), what)
    }

    /// Returns an event of this worker about the task that it holds, if it holds one.
    fn event_of_task(&self, what: EventKind) -> NewEvent {
        let event = self.event(what);
        match &self.holding {
            Some(task) => event.task(task),
            None => event,
        }
    }

    /// Records an event. That it cannot be recorded must not stop the work.
    fn record(&mut self, event: NewEvent) {
        if let Err(error) = self.store.record(&self.who.team, event) {
            self.tell(&format!("cannot record an event: {error}"));
        }
    }

    /// Writes to the lead.
    fn send(&mut self, kind: &str, content: &str, extra: Object) {
        let outgoing = Outgoing {
            from: self.who.name.to_string(),
            to: Recipient::Lead,
            kind: kind.to_owned(),
            content: content.to_owned(),
            extra,
        };
        if let Err(error) = self.store.send(&self.who.team, &outgoing) {
            self.tell(&format!("cannot write to the lead: {error}"));
        }
    }

    fn tell(&mut self, text: &str) {
        (self.say)(text);
    }
}
