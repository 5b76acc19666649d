//! The state that the parts of a host share: the environment, the journal with the state derived from it, and the
//! workers, which run on independently of the current part.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;
use teamster_claude::state::Op;
use teamster_isolate::OrTrace as _;
use teamster_isolate::git::Repo;
use teamster_journal::cost::LimitReached;
use teamster_journal::payload::{Approve, Check, Member, RunSpec, RunStarted};
use teamster_journal::{
    Event, EventActor, EventKind, EventType, GateDecision, HOST, NewEvent, RunState, family,
};
use teamster_store::{PlannedTask, Store, StoreErrorKind, TeamChanges};
use teamster_types::TeamName;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::task::Task;

use super::background::{self, Background, BackgroundEvent};
use super::budget::{self, WorkClock};
use super::worker_pool::{self, WorkerPool, WorkerStart};
use super::{HostEnvironment, POLL_INTERVAL, Result, RunError};
use crate::observer::{RunObserver, RunSnapshot, StopLevel};

/// The poll interval for task files while workers run. A change of a task has an event, unless another program made it;
/// reading a thousand files every second would be most of what an idle host does.
const TASK_POLL: Duration = Duration::from_secs(5);
/// The number of events that are read at once.
const PAGE: usize = 1_000;

/// A list that was read at an event and at a time.
struct CachedList<T> {
    seq: u64,
    at: Instant,
    list: Rc<Vec<T>>,
}

/// The run, shared by the parts of a host.
pub(super) struct RunContext<'a> {
    env: HostEnvironment<'a>,
    team: TeamName,
    spec: RunSpec,
    state: RunState,
    /// The last event that was read.
    seen: u64,
    /// The last answer at the gate that was evaluated.
    answers_known_until: u64,
    /// The last event that may have changed a task.
    tasks_changed: u64,
    /// The last event about a worker.
    workers_changed: u64,
    clock: WorkClock,
    workers: WorkerPool<'a>,
    tasks: RefCell<Option<CachedList<Task>>>,
    beats: RefCell<Option<CachedList<Heartbeat>>>,
    /// Messages between members of the team that were not shown yet.
    messages: Vec<Op>,
}

impl<'a> RunContext<'a> {
    /// Returns the context of a run whose journal was not read yet.
    pub(super) fn new(env: HostEnvironment<'a>, team: TeamName, spec: RunSpec) -> Self {
        let now = Instant::now();
        let workers = WorkerPool::new(&env, &team, &spec.members, now);
        Self {
            env,
            team,
            spec,
            state: RunState::default(),
            seen: 0,
            answers_known_until: 0,
            tasks_changed: 0,
            workers_changed: 0,
            clock: WorkClock::new(now),
            workers,
            tasks: RefCell::default(),
            beats: RefCell::default(),
            messages: Vec::new(),
        }
    }

    /// Returns the messages between members of the team since the previous call.
    pub(super) fn take_messages(&mut self) -> Vec<Op> {
        std::mem::take(&mut self.messages)
    }

    /// Returns the environment, for reading.
    pub(super) fn env(&self) -> &HostEnvironment<'a> {
        &self.env
    }

    /// Returns the store of the team.
    pub(super) fn store(&self) -> &'a dyn Store {
        self.env.store
    }

    /// Returns the project's repository, or `None` when the work is in no repository.
    pub(super) fn repo(&self) -> Option<&'a Repo> {
        self.env.repo
    }

    /// Returns the team of the run.
    pub(super) fn team(&self) -> &TeamName {
        &self.team
    }

    /// Returns the specification of the run.
    pub(super) fn spec(&self) -> &RunSpec {
        &self.spec
    }

    /// Returns the state of the run, as of the last event that was read.
    pub(super) fn state(&self) -> &RunState {
        &self.state
    }

    /// Returns the workers of the run.
    pub(super) fn workers(&self) -> &WorkerPool<'a> {
        &self.workers
    }

    /// Returns the observer of the run.
    pub(super) fn observer(&mut self) -> &mut dyn RunObserver {
        self.env.observer
    }

    /// Returns how urgently the run should stop, as requested by the observer or from elsewhere.
    pub(super) fn stop_level(&self) -> StopLevel {
        self.env.observer.stop_level().max(self.state.stop_level())
    }

    /// Returns whether a person can be asked now: at the terminal of the run, or from elsewhere while it waits.
    pub(super) fn can_ask_person(&self) -> bool {
        let waits = self.spec.approve == Approve::Ask && self.waits_for_answer();
        // A person who wants to approve the plan can be asked, wherever they are.
        self.env.observer.has_person() || waits || self.spec.approve_plan
    }

    /// Returns whether the observer waits for a decision at the gate.
    pub(super) fn waits_for_answer(&self) -> bool {
        self.env.observer.waits_for_answer()
    }

    /// Returns the present time, by a monotonic clock. Every part gets the time from here.
    #[allow(clippy::unused_self, reason = "a simulated run brings its own clock")]
    pub(super) fn now(&self) -> Instant {
        Instant::now()
    }

    /// Returns the position of the last event that was read.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the user's branch that the work started from.
    pub(super) fn branch(&self) -> Option<String> {
        self.spec.base.as_ref()?.branch.clone()
    }

    /// Sends a message that is not in the journal to the observer.
    pub(super) fn say(&mut self, text: &str) {
        self.env.observer.say(text);
    }

    /// Reads the events from before this host started. If the run has not begun, all events are new.
    pub(super) fn read_history(&mut self) -> Result<()> {
        let begun = self.env.store.last_of(
            &self.team,
            &[EventType::RunStarted.name(), EventType::RunResumed.name()],
        )?;
        self.read_events(begun.is_none())?;
        tracing::info!(up_to = self.seen, "the journal before this host was read");
        Ok(())
    }

    /// Reads the events since the previous call.
    pub(super) fn read(&mut self) -> Result<()> {
        self.read_events(true)
    }

    fn read_events(&mut self, is_new: bool) -> Result<()> {
        loop {
            let page = self.env.store.events(&self.team, self.seen + 1, PAGE)?;
            for event in &page.events {
                self.apply(event);
                if is_new {
                    self.messages.extend(member_message(event));
                    trace(event);
                    self.env.observer.event(event);
                } else {
                    self.env.observer.past_event(event);
                }
            }
            if page.events.len() < PAGE {
                return Ok(());
            }
        }
    }

    fn apply(&mut self, event: &Event) {
        self.seen = event.seq;
        teamster_fs::fail::reached_event(event.seq);
        self.state.apply(event);
        let now = self.now();
        self.clock.follow(self.state.stage, now);
        if event.task_id.is_some()
            && !event.is(EventType::AgentEvent)
            && !event.is(EventType::Usage)
            || event.data.contains_key("also")
        {
            self.tasks_changed = event.seq;
        }
        if event.kind.starts_with(family::WORKER) || event.kind.starts_with(family::MEMBER) {
            self.workers_changed = event.seq;
        }
    }

    /// Appends an event to the journal and reads the new events.
    pub(super) fn record(&mut self, event: NewEvent) -> Result<()> {
        self.record_at(event)?;
        Ok(())
    }

    /// Appends an event to the journal and reads the new events; returns the position of the event.
    pub(super) fn record_at(&mut self, event: NewEvent) -> Result<u64> {
        let seq = self.env.store.record(&self.team, event)?;
        self.read()?;
        Ok(seq)
    }

    /// Records the answer to a question and reads the new events; returns whether the question was open. If not,
    /// nothing is recorded.
    pub(super) fn record_answer(&mut self, event: NewEvent) -> Result<bool> {
        let changes = TeamChanges {
            record: vec![event],
            ..TeamChanges::default()
        };
        let is_in_time = match self.env.store.apply(&self.team, HOST, &changes) {
            Ok(_) => true,
            Err(error) if error.kind == StoreErrorKind::Conflict && !error.busy => false,
            Err(error) => return Err(error.into()),
        };
        self.read()?;
        Ok(is_in_time)
    }

    /// Records an event of the host.
    pub(super) fn journal(&mut self, what: EventKind) -> Result<()> {
        self.record(NewEvent::new(EventActor::Lead, what))
    }

    /// Registers this process as the host of the run, with the specification of the run.
    pub(super) fn register_host(
        &self,
        replacements: Option<Vec<String>>,
        what: impl FnOnce(RunStarted) -> EventKind,
    ) -> Result<()> {
        let spec = self.spec.clone();
        let stored = json!(spec);
        let event = NewEvent::new(EventActor::Lead, what(RunStarted { spec, replacements }));
        self.env.store.host_team(&self.team, Some(&stored), event)?;
        Ok(())
    }

    /// Adds checks to the specification of the run, each command once, and marks the targets among them; returns
    /// whether that changed anything.
    pub(super) fn add_checks(&mut self, checks: Vec<Check>) -> Result<bool> {
        let before = self.spec.verify.clone();
        for check in checks {
            let mut known = self.spec.verify.iter_mut();
            match known.find(|known| known.command == check.command) {
                Some(known) => known.is_target |= check.is_target,
                None => self.spec.verify.push(check),
            }
        }
        if self.spec.verify == before {
            return Ok(false);
        }
        self.register_host(None, EventKind::RunOrdered)?;
        self.read()?;
        Ok(true)
    }

    /// Adds tasks to the team unchanged.
    pub(super) fn import_tasks(&mut self, tasks: &[PlannedTask]) -> Result<Vec<Task>> {
        Ok(self.env.store.import_tasks(&self.team, HOST, tasks)?)
    }

    /// Returns the journaled answers at the gate that this host has not evaluated yet. It counts them as evaluated.
    pub(super) fn take_answers(&mut self) -> Vec<GateDecision> {
        let known = self.answers_known_until;
        let new = self.state.answers.iter().filter(|(seq, _)| *seq > known);
        let new: Vec<GateDecision> = new.map(|(_, answer)| answer.clone()).collect();
        if let Some((last, _)) = self.state.answers.last() {
            self.answers_known_until = known.max(*last);
        }
        new
    }

    /// Returns the tasks, as of the last event or a moment ago.
    pub(super) fn tasks(&self) -> Result<Rc<Vec<Task>>> {
        let mut cached = self.tasks.borrow_mut();
        let again = if self.workers.is_up() {
            TASK_POLL
        } else {
            POLL_INTERVAL
        };
        if let Some(cached) = &*cached
            && cached.seq == self.tasks_changed
            && self.now().saturating_duration_since(cached.at) < again
        {
            return Ok(Rc::clone(&cached.list));
        }
        let mut tasks = self.env.store.tasks(&self.team)?.tasks;
        tasks.retain(|task| !task.is_internal());
        let list = Rc::new(tasks);
        *cached = Some(CachedList {
            seq: self.tasks_changed,
            at: self.now(),
            list: Rc::clone(&list),
        });
        Ok(list)
    }

    /// Returns the heartbeats, as of the last event or a moment ago.
    pub(super) fn heartbeats(&self) -> Result<Rc<Vec<Heartbeat>>> {
        let mut cached = self.beats.borrow_mut();
        if let Some(cached) = &*cached
            && cached.seq == self.workers_changed
            && self.now().saturating_duration_since(cached.at) < POLL_INTERVAL
        {
            return Ok(Rc::clone(&cached.list));
        }
        let list = Rc::new(self.env.store.heartbeats(&self.team)?.0);
        *cached = Some(CachedList {
            seq: self.workers_changed,
            at: self.now(),
            list: Rc::clone(&list),
        });
        Ok(list)
    }

    /// Shows the present state to the observer.
    pub(super) fn show(&mut self) -> Result<()> {
        let tasks = self.tasks()?;
        let beats = self.heartbeats()?;
        let worked = self.state.worked(self.hosted());
        self.env.observer.update(&RunSnapshot {
            state: &self.state,
            tasks: &tasks,
            beats: &beats,
            worked,
        });
        Ok(())
    }

    /// Runs work that may take long, and meanwhile does everything that must not wait for it.
    pub(super) fn in_background<T: Send>(
        &mut self,
        work: impl FnOnce(&Background<'_>) -> T + Send,
    ) -> Result<T> {
        background::run(work, |meanwhile| match meanwhile {
            BackgroundEvent::Output(lines) => {
                self.env.observer.output(&lines);
                Ok(false)
            }
            BackgroundEvent::Tick => {
                self.read()?;
                if self.workers.is_supervised() {
                    self.supervise_if_due()?;
                }
                self.show()?;
                Ok(self.must_stop())
            }
        })
    }

    /// Returns whether long work should be ended.
    pub(super) fn must_stop(&self) -> bool {
        self.stop_level() > StopLevel::GoOn || self.time_limit_reached().is_some()
    }

    fn hosted(&self) -> Duration {
        self.clock.hosted(self.now())
    }

    /// Notes whether the run waits for a person: that time is not counted as work.
    pub(super) fn set_waiting(&mut self, is_waiting: bool) {
        let now = self.now();
        if is_waiting {
            self.clock.begin_waiting(now);
        } else {
            self.clock.end_waiting(now);
        }
    }

    /// Returns the limit of minutes, if it was reached.
    pub(super) fn time_limit_reached(&self) -> Option<LimitReached> {
        budget::time_limit_reached(&self.spec, &self.state, self.hosted())
    }

    /// Returns the limit of the budget that was reached, if one was.
    pub(super) fn limit_reached(&self) -> Option<LimitReached> {
        budget::limit_reached(&self.spec, &self.state, self.hosted())
    }

    /// Fails if a disk is so full that the progress of workers could not be written: they would wait for free space
    /// without end, and the user would not learn of it.
    pub(super) fn require_disk_space(&self) -> Result<()> {
        for folder in [self.env.layout.claude.as_path(), self.env.folder] {
            if let Some(free) = teamster_fs::left_on_full_disk(folder) {
                return Err(RunError::NoRoom {
                    message: format!(
                        "the disk of {} is full: {} KiB are free, and a run needs {} KiB to be kept safe",
                        folder.display(),
                        free / 1024,
                        teamster_fs::LEAST_ROOM / 1024
                    ),
                    hint: "make room there".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Notes that a stage was entered for which no worker was started yet.
    pub(super) fn note_stage_entered(&mut self) {
        self.workers.note_stage_entered();
    }

    /// Starts one member of the team, unless a launch of it is on record.
    pub(super) fn start_worker(&mut self, member: &Member) -> Result<WorkerStart> {
        self.workers.start(&self.env, &self.spec, member)
    }

    /// Notes that every member was started.
    pub(super) fn note_all_started(&mut self, is_leaving: bool) {
        self.workers.note_all_started(is_leaving);
    }

    /// Looks for dead workers, unless that was done a moment ago.
    pub(super) fn supervise_if_due(&mut self) -> Result<()> {
        let begun = self.now();
        if !self.workers.is_due(begun) {
            return Ok(());
        }
        self.require_disk_space()?;
        for text in self.workers.supervise()? {
            self.env.observer.say(&text);
        }
        self.read()?;
        self.workers.require_store(begun)?;
        let now = self.now();
        self.workers.note_supervised(now);
        Ok(())
    }

    /// Stops all workers, and fails if some of them do not stop. A more urgent request shortens the wait.
    pub(super) fn stop_workers(&mut self, reason: &str) -> Result<()> {
        // Workers without a run were not started by this host.
        if self.spec.collects {
            return Ok(());
        }
        self.workers.note_stopping();
        loop {
            let level = self.stop_level();
            let alive = worker_pool::stop(self, reason, level)?;
            self.read()?;
            if alive.is_empty() {
                return Ok(());
            }
            if self.stop_level() == level {
                return Err(worker_pool::survivors_error(&alive));
            }
        }
    }

    /// Notes that this host stops its workers.
    pub(super) fn note_workers_stopping(&mut self) {
        self.workers.note_stopping();
    }

    /// Does what must not wait while workers stop: reads new events, and shows the present state.
    pub(super) fn tick_while_stopping(&mut self) {
        let attended = self.read().and_then(|()| self.show());
        attended.or_trace("show how things stand while workers stop");
    }

    /// Stops all workers because the run cannot continue, and returns a sentence for each that is still alive.
    pub(super) fn stop_after_error(&mut self) -> Vec<String> {
        if self.spec.collects {
            return Vec::new();
        }
        worker_pool::stop_after_error(self)
    }
}

/// Traces an event: those of the host at level `info`, others at level `debug`.
fn trace(event: &Event) {
    let (seq, kind, task) = (event.seq, &event.kind, event.task_id.as_ref());
    let task = task.map(tracing::field::display);
    if event.actor == EventActor::Lead {
        tracing::info!(seq, task, "{kind}");
    } else {
        tracing::debug!(seq, task, actor = event.actor.as_str(), "{kind}");
    }
}

/// The type of a message from a member; the other types are reports of programs.
const MEMBER_MESSAGE: &str = "message";

/// Returns the message between members that an event contains, as the state file shows it. Reports of programs are
/// ignored.
fn member_message(event: &Event) -> Option<Op> {
    match event.payload() {
        EventKind::MessageSent(sent) if sent.message_type == MEMBER_MESSAGE => Some(Op::Message {
            from: event.actor.to_string(),
            to: sent.to.unwrap_or_default(),
            content: sent.content,
            timestamp: Some(event.ts),
        }),
        _ => None,
    }
}
