//! Stops workers: each is asked twice to exit, and then ended with all processes that it started.
//!
//! ```text
//! signal and message ─▶ answered and gone ─▶ confirmed
//!        └─ half of the deadline, or refused ─▶ asked again ─▶ deadline ─▶ killed; not gone ─▶ alive
//! ```
//!
//! A shutdown is complete when every worker's process is verified to be gone. A worker that cannot be asked, because
//! another, hung worker holds the team's lock, is ended at the deadline like all others.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_isolate::OrTrace as _;
use teamster_isolate::process_tree::ProcessTree;
use teamster_isolate::tmux::Tmux;
use teamster_journal::payload::WorkerStopped;
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_store::{OutgoingMessage, Recipient, Signal, Store, StoreError};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::json::Object;
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::{TeamName, WorkerName};

use crate::alerts::EndAlerts;
use crate::{process, reclaim, record};

/// The poll interval while waiting for workers to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long processes that were asked to exit have before they are killed.
const GRACE: Duration = Duration::from_secs(5);

/// How workers are to stop.
#[derive(Clone, Debug)]
pub struct ShutdownRequest {
    /// The team of the workers.
    pub team: TeamName,
    /// The only worker that is stopped, or `None` for all.
    pub only: Option<WorkerName>,
    /// Who requests the shutdown.
    pub actor: EventActor,
    /// Why the workers are stopped.
    pub reason: String,
    /// Whether workers finish their current task first.
    pub drain: bool,
    /// Whether workers are killed without being asked.
    pub force: bool,
    /// How long workers have to end by themselves.
    pub deadline: Duration,
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndKind {
    /// The worker acknowledged the request and ended.
    Confirmed,
    /// The worker was gone before it was asked.
    Gone,
    /// The worker ended without an acknowledgement.
    Ended,
    /// The worker had to be killed.
    Killed,
    /// The worker is still running.
    Alive,
}

impl EndKind {
    /// Returns the kind as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Gone => "gone",
            Self::Ended => "ended",
            Self::Killed => "killed",
            Self::Alive => "alive",
        }
    }
}

/// A worker that was stopped, or could not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoppedWorker {
    /// The name of the worker.
    pub worker: WorkerName,
    /// How it ended.
    pub how: EndKind,
    /// What the worker answered, which of its processes still run, or what is not released yet.
    pub note: String,
}

/// A worker before it is stopped.
#[derive(Clone, Debug)]
struct KnownWorker {
    worker: WorkerName,
    process: Option<ProcessId>,
    /// The process named by teamster's own record of the launch. Any process could have written a heartbeat.
    root: Option<ProcessId>,
    launch: Option<String>,
    /// Whether the worker was asked and no further request is due.
    is_asked: bool,
    /// The ids of the requests that were sent to the worker.
    requests: BTreeSet<String>,
    answer: Option<(bool, String)>,
}

/// The end of a worker.
struct EndedWorker {
    known: KnownWorker,
    how: EndKind,
    note: String,
}

impl EndedWorker {
    fn new(known: KnownWorker, how: EndKind, note: impl Into<String>) -> Self {
        let note = note.into();
        Self { known, how, note }
    }
}

impl From<EndedWorker> for StoppedWorker {
    fn from(end: EndedWorker) -> Self {
        Self {
            worker: end.known.worker,
            how: end.how,
            note: end.note,
        }
    }
}

/// Stops the workers of a team, and proves that they are gone.
pub struct ShutdownCoordinator<'a> {
    /// The store through which workers are asked to stop.
    pub store: &'a dyn Store,
    /// The machine that the workers run on.
    pub machine: &'a Machine,
    /// The project's folder.
    pub project: &'a Dir,
    /// Where the ends of workers are recorded.
    pub alerts: EndAlerts,
    /// The tmux server that the workers may run in.
    pub tmux: Option<&'a Tmux>,
    /// Prints a line about what happens.
    pub tell: &'a mut dyn FnMut(&str),
    /// Returns whether to stop waiting for workers that have not ended yet. They keep running, for a stronger request.
    pub hurry: &'a dyn Fn() -> bool,
}

/// Never ends the wait early.
pub fn never_hurry() -> bool {
    false
}

impl ShutdownCoordinator<'_> {
    /// Stops the workers, and returns how each ended.
    ///
    /// Nothing is recorded before every worker has ended: a worker that was stopped in the middle of a change holds the
    /// team's lock until it is gone.
    pub fn run(&mut self, request: &ShutdownRequest) -> Result<Vec<StoppedWorker>, StoreError> {
        let (living, gone): (Vec<KnownWorker>, Vec<KnownWorker>) = self
            .known_workers(request)?
            .into_iter()
            .partition(|known| self.is_alive(known));
        let mut ends: Vec<EndedWorker> = gone
            .into_iter()
            .map(|known| EndedWorker::new(known, EndKind::Gone, ""))
            .collect();
        let start = Instant::now();
        let living = if request.force {
            for known in &living {
                self.dismiss(request, known);
            }
            living
        } else {
            self.wait_for_ends(request, living, start, &mut ends)?
        };
        let is_left = !request.force && start.elapsed() < request.deadline;
        for known in living {
            ends.push(if is_left {
                EndedWorker::new(
                    known,
                    EndKind::Alive,
                    "still running; the wait was cut short",
                )
            } else {
                self.end(request, known)
            });
        }
        self.clean_up_all(request, &mut ends)?;
        let mut stopped: Vec<StoppedWorker> = ends.into_iter().map(StoppedWorker::from).collect();
        stopped.sort_by(|a, b| a.worker.cmp(&b.worker));
        Ok(stopped)
    }

    /// Notes in the record of a worker's launch that no supervisor starts the worker again when it finds it dead. This needs
    /// no lock, so that nothing delays the end of the worker.
    fn dismiss(&self, request: &ShutdownRequest, known: &KnownWorker) {
        if let Some(launch) = &known.launch {
            record::dismiss(self.project, &request.team, &known.worker, launch)
                .or_trace("note in the record of a launch that it is ended by force");
        }
    }

    /// Asks workers to exit, and waits until the deadline. Adds those that ended to `ends`, and returns the others.
    fn wait_for_ends(
        &mut self,
        request: &ShutdownRequest,
        mut living: Vec<KnownWorker>,
        start: Instant,
        ends: &mut Vec<EndedWorker>,
    ) -> Result<Vec<KnownWorker>, StoreError> {
        if living.is_empty() {
            return Ok(living);
        }
        // Answers that were recorded earlier do not belong to this request.
        let mut read = self.store.position(&request.team)? + 1;
        let (mut asked_again, mut told_of_lock) = (false, false);
        loop {
            for known in living.iter_mut().filter(|known| !known.is_asked) {
                match self.ask(request, known) {
                    Err(error) if error.busy => {
                        if !std::mem::replace(&mut told_of_lock, true) {
                            (self.tell)(&format!("{} cannot be asked yet: {error}", known.worker));
                        }
                        break;
                    }
                    asked => asked?,
                }
            }
            self.read_answers(request, &mut living, &mut read)?;
            let (still, over): (Vec<KnownWorker>, Vec<KnownWorker>) =
                living.into_iter().partition(|known| self.is_alive(known));
            living = still;
            for mut known in over {
                let (how, why) = match known.answer.take() {
                    Some((true, why)) => (EndKind::Confirmed, why),
                    Some((false, why)) => (EndKind::Ended, why),
                    None => (EndKind::Ended, String::new()),
                };
                (self.tell)(&format!("{} has ended", known.worker));
                ends.push(EndedWorker::new(known, how, why));
            }
            let is_over = start.elapsed() >= request.deadline || (self.hurry)();
            if living.is_empty() || is_over {
                return Ok(living);
            }
            let refused = living
                .iter()
                .any(|known| matches!(known.answer, Some((false, _))));
            if !asked_again && (refused || start.elapsed() >= request.deadline / 2) {
                asked_again = true;
                for known in living.iter_mut().filter(|known| known.is_asked) {
                    if let Some((false, why)) = &known.answer {
                        (self.tell)(&format!("{} refused: {why}", known.worker));
                    }
                    (self.tell)(&format!("{} is asked again", known.worker));
                    known.is_asked = false;
                }
            } else {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Ends every process of the team that teamster has started, without writing to the store, for when it cannot be written.
    /// Describes the workers that are still running. Their tasks are reclaimed later, once they are found dead.
    pub fn end_processes(&self, request: &ShutdownRequest) -> Vec<String> {
        let mut left = Vec::new();
        let everyone = match self.known_workers(request) {
            Ok(everyone) => everyone,
            Err(error) => return vec![format!("cannot read which workers are running: {error}")],
        };
        for known in everyone.iter().filter(|known| self.is_alive(known)) {
            let Some(number) = &known.launch else {
                continue;
            };
            let tree = ProcessTree::of_launch(self.machine, number, known.root.as_ref());
            tree.ask(teamster_isolate::Signal::INT);
            if let Err(still) = tree.end(GRACE) {
                left.push(format!("{} is still running: {still}", known.worker));
            }
        }
        left
    }

    /// Returns every worker that may be running, by its heartbeat or by the record of its launch.
    fn known_workers(&self, request: &ShutdownRequest) -> Result<Vec<KnownWorker>, StoreError> {
        let (beats, _) = self.store.heartbeats(&request.team)?;
        let records = record::all(self.project, &request.team)?;
        let mut all: Vec<KnownWorker> = beats.into_iter().map(known_by_beat).collect();
        for record in records {
            let same = |known: &&mut KnownWorker| {
                known.worker == record.spec.worker
                    && known
                        .launch
                        .as_ref()
                        .is_none_or(|launch| *launch == record.launch)
            };
            match all.iter_mut().find(same) {
                Some(known) => {
                    known.launch = Some(record.launch);
                    known.root = Some(record.process);
                }
                None => all.push(KnownWorker {
                    worker: record.spec.worker,
                    process: Some(record.process.clone()),
                    root: Some(record.process),
                    launch: Some(record.launch),
                    is_asked: false,
                    requests: BTreeSet::new(),
                    answer: None,
                }),
            }
        }
        all.retain(|known| {
            request
                .only
                .as_ref()
                .is_none_or(|only| *only == known.worker)
        });
        Ok(all)
    }

    fn is_alive(&self, known: &KnownWorker) -> bool {
        let runs = known
            .process
            .as_ref()
            .is_some_and(|process| self.machine.process_state(process) == ProcessState::Alive);
        runs || !self.tree(known).is_empty()
    }

    fn tree(&self, known: &KnownWorker) -> Vec<ProcessId> {
        match &known.launch {
            Some(launch) => {
                ProcessTree::of_launch(self.machine, launch, known.root.as_ref()).members()
            }
            None => Vec::new(),
        }
    }

    fn ask(
        &mut self,
        request: &ShutdownRequest,
        known: &mut KnownWorker,
    ) -> Result<(), StoreError> {
        let signal = Signal {
            request_id: teamster_fs::random_hex(),
            reason: request.reason.clone(),
            timestamp: self.store.now(),
            drain: request.drain,
        };
        self.store
            .signal(&request.team, &request.actor, &known.worker, &signal)?;
        known.requests.insert(signal.request_id.clone());
        known.answer = None;
        let mut extra = Object::new();
        extra.insert("requestId".into(), signal.request_id.into());
        extra.insert("drain".into(), request.drain.into());
        self.store.send(
            &request.team,
            &OutgoingMessage {
                from: "lead".to_owned(),
                to: Recipient::Worker(known.worker.to_string()),
                kind: "shutdown_request".to_owned(),
                content: request.reason.clone(),
                extra,
            },
        )?;
        known.is_asked = true;
        Ok(())
    }

    /// Reads the workers' answers from the journal, so that the lead's position in its mail does not change.
    fn read_answers(
        &mut self,
        request: &ShutdownRequest,
        living: &mut [KnownWorker],
        read: &mut u64,
    ) -> Result<(), StoreError> {
        let page = self.store.events(&request.team, *read, 1_000)?;
        for event in &page.events {
            *read = event.seq + 1;
            let EventKind::MessageSent(sent) = event.payload() else {
                continue;
            };
            if let Some(known) = living
                .iter_mut()
                .find(|known| event.actor == known.worker.as_str())
            {
                let extra = |key: &str| sent.extra.get(key);
                let request = extra("requestId")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                if matches!(sent.message_type.as_str(), "shutdown_ack" | "drain_ack")
                    && (request.is_empty() || known.requests.contains(request))
                {
                    let approve = extra("approve").and_then(Value::as_bool);
                    let why = extra("reason").and_then(Value::as_str).unwrap_or_default();
                    known.answer = Some((approve.unwrap_or(true), why.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Ends a worker that did not exit by itself, with all processes that it started. Nothing is recorded.
    fn end(&mut self, request: &ShutdownRequest, known: KnownWorker) -> EndedWorker {
        let Some(number) = &known.launch else {
            let note = "it was not started by teamster, which ends only what it started";
            return EndedWorker::new(known, EndKind::Alive, note);
        };
        (self.tell)(&format!("{} is being stopped", known.worker));
        let tree = ProcessTree::of_launch(self.machine, number, known.root.as_ref());
        tree.ask(teamster_isolate::Signal::INT);
        if let Err(still) = tree.end(GRACE) {
            return EndedWorker::new(known, EndKind::Alive, still.to_string());
        }
        if self.is_alive(&known) {
            let note = "its heartbeat names a process that its launch did not start";
            return EndedWorker::new(known, EndKind::Alive, note);
        }
        let note = if request.force {
            ""
        } else {
            "it did not end when asked"
        };
        EndedWorker::new(known, EndKind::Killed, note)
    }

    /// Records the end of each worker and releases its tasks.
    ///
    /// When another process holds the team's lock, the remaining notes say so: the next shutdown or the supervisor cleans up
    /// after those workers.
    fn clean_up_all(
        &mut self,
        request: &ShutdownRequest,
        ends: &mut [EndedWorker],
    ) -> Result<(), StoreError> {
        let alive: Vec<WorkerName> = ends
            .iter()
            .filter(|end| end.how == EndKind::Alive)
            .map(|end| end.known.worker.clone())
            .collect();
        let mut held: Option<StoreError> = None;
        for end in ends.iter_mut().filter(|end| end.how != EndKind::Alive) {
            if held.is_none() {
                let is_over = !alive.contains(&end.known.worker);
                match self.clean_up(request, end, is_over) {
                    Err(error) if error.busy => held = Some(error),
                    settled => settled?,
                }
            }
            if let Some(error) = &held {
                if !end.note.is_empty() {
                    end.note.push_str("; ");
                }
                end.note.push_str("its tasks are not released yet: ");
                end.note.push_str(&error.message);
            }
            self.close_pane(request, &end.known.worker);
        }
        if let Some(tmux) = self.tmux {
            tmux.end_if_empty().or_trace("end the tmux server");
        }
        Ok(())
    }

    /// Releases the tasks of an ended launch, and removes its signals and, when no other launch of the worker is alive
    /// (`is_over`), its heartbeat and record.
    fn clean_up(
        &self,
        request: &ShutdownRequest,
        end: &EndedWorker,
        is_over: bool,
    ) -> Result<(), StoreError> {
        let known = &end.known;
        match end.how {
            EndKind::Gone | EndKind::Ended | EndKind::Confirmed => {
                self.release_remains(request, known)?;
            }
            EndKind::Killed => self.release_tasks(request, known)?,
            EndKind::Alive => {}
        }
        let (team, worker) = (&request.team, &known.worker);
        // The request is removed last: until the record is gone, it keeps a supervisor from starting the worker again.
        if is_over {
            let launch = known.launch.as_deref();
            reclaim::remove_launch(self.store, self.project, team, worker, launch)?;
        }
        self.store.clear_signals(team, worker)
    }

    /// Releases every task of a worker that was killed, and records its end.
    fn release_tasks(
        &self,
        request: &ShutdownRequest,
        known: &KnownWorker,
    ) -> Result<(), StoreError> {
        if let Some(launch) = &known.launch {
            process::remove_temp_folder(launch);
            let now = self.store.now();
            self.alerts
                .record(&request.team, &known.worker, launch, now);
        }
        for (task, _) in reclaim::held_tasks(self.store, &request.team, &known.worker)? {
            self.store
                .release(&request.team, &request.actor, &task, None)?;
        }
        let stopped = WorkerStopped {
            worker: Some(known.worker.to_string()),
            how: Some(EndKind::Killed.as_str().to_owned()),
            reason: request.reason.clone(),
        };
        let event = NewEvent::new(&request.actor, EventKind::WorkerStopped(stopped));
        self.store.record(&request.team, event)?;
        Ok(())
    }

    /// Cleans up for a worker that is gone: its tasks are released and its temp files removed. Its heartbeat and record are
    /// removed afterwards, so nothing could find its tasks later.
    fn release_remains(
        &self,
        request: &ShutdownRequest,
        known: &KnownWorker,
    ) -> Result<(), StoreError> {
        let processes: Vec<ProcessId> = known.process.iter().chain(&known.root).cloned().collect();
        reclaim::release_tasks(self.store, &request.team, &known.worker, &processes)?;
        if let Some(launch) = &known.launch {
            process::remove_temp_folder(launch);
        }
        Ok(())
    }

    /// Returns whether no process has this pid any more, which a tmux server notices only after a moment.
    fn is_gone(&self, pid: u32) -> bool {
        let process = self.machine.process(pid);
        process.is_none_or(|process| self.machine.process_state(&process) == ProcessState::Gone)
    }

    /// Closes the pane of a worker that ended.
    fn close_pane(&self, request: &ShutdownRequest, worker: &WorkerName) {
        if let Some(tmux) = self.tmux
            && let Ok(Some(pane)) = tmux.pane_of(&request.team, worker)
            && (pane.dead || self.is_gone(pane.pid))
        {
            tmux.close_pane(&pane).or_trace("close a pane");
        }
    }
}

fn known_by_beat(beat: Heartbeat) -> KnownWorker {
    KnownWorker {
        process: beat.process(),
        root: None,
        launch: beat.launch,
        worker: beat.worker_name,
        is_asked: false,
        requests: BTreeSet::new(),
        answer: None,
    }
}
