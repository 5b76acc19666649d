//! The host: one loop that owns a run from its order to its end.
//!
//! ```text
//! plan → execute ⇄ merge → verify ⇄ fix → gate → land → end
//! ```
//!
//! It keeps nothing to itself. What it decides goes into the journal before anything builds on it, and where it is, it
//! reads there ([`RunState`]); what it does can be done twice without harm. So a host that was killed at any moment can be
//! followed by another that goes on where it was.

mod background;
mod budget;
mod checking;
mod ending;
mod gate;
mod landing;
mod merging;
mod own;
mod planning;
mod projecting;
mod refs;
mod replacements;
mod seat;
mod settled;
mod telling;
mod truth;
mod working;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use teamster_fs::layout::Layout;
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, FsError};
use teamster_isolate::GRACE;
use teamster_isolate::git::{CheckTree, GitError, Integration, Repo};
use teamster_isolate::process_tree::ProcessTree;
use teamster_isolate::tmux::Tmux;
use teamster_journal::payload::{Check, GateAnswer, RunEnd, RunSpec, RunStarted, StageEntered};
use teamster_journal::{Event, EventKind, EventType, Finished, HOST, NewEvent, RunState, family};
use teamster_store::{Store, StoreError};
use teamster_types::TeamName;
use teamster_types::flow::Stage;
use teamster_types::health::Limits;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::task::Task;
use teamster_workers::launch::Launcher;
use teamster_workers::supervise::Supervisor;
use teamster_workers::workplace::{NotTrusted, SetupError, WorktreeSetup};

use crate::desk::{Desk, Look, Wish};
use crate::plan::Plan;
use projecting::Projector;
pub use seat::{ProjectSeat, Seat};

/// Between two looks when nothing is to be done.
const PAUSE: Duration = Duration::from_millis(100);
/// What is not journalled is looked for this often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// While workers are at it, a task that changes has an event, unless somebody else's program changed it; its file is
/// looked at this often. Reading a thousand of them every second would be most of what a waiting host does.
const TASKS_AGAIN: Duration = Duration::from_secs(5);
/// Events that are read at once.
const PAGE: usize = 1_000;

/// Asks an agent for a plan.
pub trait Plans {
    /// The plan of the leader that the order names, or why there is none. Whatever is started carries `launch`, and is
    /// ended at the moment `until`.
    fn plan(
        &mut self,
        order: &RunSpec,
        folder: &Path,
        launch: &str,
        until: Option<Instant>,
        desk: &mut dyn Desk,
    ) -> Result<Plan, String>;
}

/// Decides whether what comes with the project may run. It is asked each time before something of it runs, so that a
/// change of the project's files, or of what the user accepts, counts at once.
pub trait ProjectTrust {
    /// Returns what makes a worktree usable, if the user accepts it at this moment.
    fn worktree_setup(&self) -> Result<WorktreeSetup, NotTrusted>;

    /// Refuses to start the workers of an order when they need something that the user does not accept at this moment.
    fn workers(&self, order: &RunSpec) -> Result<(), NotTrusted>;

    /// Refuses a check of the project's that the user does not accept at this moment.
    fn check(&self, check: &Check) -> Result<(), NotTrusted>;
}

/// What a host works with.
pub struct Parts<'a> {
    /// Where the team lives.
    pub store: &'a dyn Store,
    /// Where it runs.
    pub machine: &'a Machine,
    /// Where things are.
    pub layout: &'a Layout,
    /// The project,
    pub project: &'a Dir,
    /// and its folder.
    pub folder: &'a Path,
    /// How workers are started.
    pub launcher: &'a Launcher<'a>,
    /// Where they may run.
    pub tmux: Option<&'a Tmux>,
    /// The project's repository.
    pub repo: Option<&'a Repo>,
    /// Whether what comes with the project may run.
    pub trust: &'a dyn ProjectTrust,
    /// What health is judged by.
    pub limits: Limits,
    /// How long a check may take.
    pub check_limit: Duration,
    /// How many tasks others than the host may add.
    pub max_tasks: usize,
    /// How long workers may take to stop.
    pub stop_deadline: Duration,
    /// Asks an agent for a plan.
    pub leader: &'a mut dyn Plans,
    /// Who sits before it.
    pub desk: &'a mut dyn Desk,
}

/// Why a run cannot go on. It can be taken up again.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// git said no.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file could not be used.
    #[error(transparent)]
    Files(#[from] FsError),
    /// A disk is full.
    #[error("{message}")]
    NoRoom {
        /// Which, and how much is free.
        message: String,
        /// What now.
        hint: String,
    },
    /// Something of the project would have to run that the user has not accepted.
    #[error(transparent)]
    NotTrusted(#[from] NotTrusted),
    /// Something that a person has to see to.
    #[error("{message}")]
    Refused {
        /// What.
        message: String,
        /// What now.
        hint: String,
    },
}

impl From<SetupError> for RunError {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::NotTrusted(error) => Self::NotTrusted(error),
            SetupError::Git(error) => Self::Git(error),
        }
    }
}

impl RunError {
    fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

type Result<T, E = RunError> = std::result::Result<T, E>;

/// How a host left its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// It is over.
    Over(Finished),
    /// The gate is open, and nobody is waited for.
    AtGate {
        /// What would land.
        commit: String,
        /// With which code the command exits.
        exit_code: u8,
        /// In words.
        why: String,
    },
}

/// What a step comes to.
enum Next {
    /// There is more to do at once.
    GoOn,
    /// Something must happen first.
    Wait,
    /// The host leaves.
    Leave(Left),
}

/// What was read, at which event, and when.
type Known<T> = (u64, Instant, Rc<Vec<T>>);

/// One host of one run.
pub struct Host<'a> {
    parts: Parts<'a>,
    team: TeamName,
    order: RunSpec,
    story: RunState,
    /// The last event that was read,
    seen: u64,
    /// the last one that may have changed a task,
    tasks_changed: u64,
    /// and the last one about a worker.
    crew_changed: u64,
    /// Since when this host hosts the run, by a clock that nobody can set.
    hosting_since: Instant,
    supervisor: Supervisor<'a>,
    integration: Option<Integration>,
    projector: Projector,
    /// Whether workers were started for the stage that we are in.
    crew_is_up: bool,
    /// Since when this host has workers that it has not stopped again.
    crew_since: Option<Instant>,
    next_look: Instant,
    /// Since when nobody is left who could work.
    alone_since: Option<Instant>,
    gate_shown: Option<String>,
    /// The plan that a person is asked about: what they accept is what they were shown.
    proposed: Option<(Plan, &'static str)>,
    /// Checks that this host has run since the stage was entered. Without commits nothing else tells what they saw.
    checked_here: BTreeSet<String>,
    known_tasks: RefCell<Option<Known<Task>>>,
    known_beats: RefCell<Option<Known<Heartbeat>>>,
    /// Whether something was approved that could not land as the user's branch was.
    not_landed: bool,
    /// Whether this host has begun to act.
    has_begun: bool,
    /// How long this host has waited for a person, and since when it does so now.
    waited_at_gate: Duration,
    /// When the repository was last looked at while the gate was open.
    gate_looked: Option<Instant>,
    at_gate_since: Option<Instant>,
}

impl<'a> Host<'a> {
    /// A host for the run of a team. It must have the [`Seat`].
    pub fn new(parts: Parts<'a>, team: TeamName, order: RunSpec) -> Self {
        let supervisor = Supervisor::new(
            parts.store,
            parts.machine,
            parts.project,
            parts.launcher,
            parts.limits,
            team.clone(),
        );
        Self {
            parts,
            team,
            order,
            story: RunState::default(),
            seen: 0,
            tasks_changed: 0,
            crew_changed: 0,
            hosting_since: Instant::now(),
            supervisor,
            integration: None,
            projector: Projector::default(),
            crew_is_up: false,
            crew_since: None,
            next_look: Instant::now(),
            alone_since: None,
            gate_shown: None,
            proposed: None,
            checked_here: BTreeSet::new(),
            known_tasks: RefCell::default(),
            known_beats: RefCell::default(),
            not_landed: false,
            has_begun: false,
            waited_at_gate: Duration::ZERO,
            gate_looked: None,
            at_gate_since: None,
        }
    }

    /// Takes the run to its end, or as far as it goes. Where it cannot go on, its workers are stopped: nobody would look
    /// after them.
    pub fn run(&mut self) -> Result<Left> {
        let left = self.drive();
        if left.is_err() && self.has_begun {
            self.stop_after_error();
        }
        left
    }

    fn drive(&mut self) -> Result<Left> {
        self.catch_up_with_the_journal()?;
        if let Some(finished) = self.story.finished.clone()
            && !finished.is_resumable()
        {
            // Nothing is begun anew: the team's branches are gone, and would only be made again. A host that was
            // killed at its last step has left the files that others read, and the report, as they were before it.
            if self.is_projected() {
                self.project();
            }
            self.write_down();
            return Ok(Left::Over(finished));
        }
        self.has_begun = true;
        self.require_room()?;
        self.begin()?;
        let mut acted: Option<(u64, Instant)> = None;
        loop {
            self.read()?;
            // While others work there is nothing to do until something happens. Not everything that happens is
            // journalled, so a look is taken now and then.
            let is_quiet =
                acted.is_some_and(|(seen, at)| seen == self.seen && at.elapsed() < LOOK_AGAIN);
            if is_quiet && self.parts.desk.wish() == Wish::GoOn {
                self.show()?;
                std::thread::sleep(PAUSE);
                continue;
            }
            self.project();
            if let Some(finished) = self.story.finished.clone() {
                return Ok(Left::Over(finished));
            }
            if let Some(left) = self.obey()? {
                self.project();
                return Ok(left);
            }
            if let Some(exceeded) = self.out_of_time() {
                self.out_of_budget(&exceeded)?;
                acted = None;
                continue;
            }
            let next = match self.story.stage.unwrap_or(Stage::Plan) {
                Stage::Plan | Stage::Requirements => self.plan()?,
                Stage::Execute | Stage::Fix | Stage::Revise => self.work()?,
                Stage::Verify => self.verify()?,
                Stage::Approval => self.gate()?,
                Stage::End(_) => Next::Wait,
            };
            acted = None;
            match next {
                Next::GoOn => {}
                Next::Wait => {
                    let is_work = matches!(
                        self.story.stage,
                        Some(Stage::Execute | Stage::Fix | Stage::Revise)
                    );
                    acted = is_work.then(|| (self.seen, Instant::now()));
                    self.show()?;
                    std::thread::sleep(PAUSE);
                }
                Next::Leave(left) => {
                    self.read()?;
                    self.project();
                    return Ok(left);
                }
            }
        }
    }

    /// Says in the journal that there is a host now, and makes the place where work comes together.
    fn begin(&mut self) -> Result<()> {
        self.end_what_was_under_way();
        self.keep_rules()?;
        let is_new = self.story.begun.is_none();
        if !is_new || self.story.spec.as_ref() != Some(&self.order) {
            let replacements = match self.parts.repo.filter(|_| is_new) {
                Some(repo) => Some(repo.replacements()?),
                None => None,
            };
            self.host_team(replacements, |started| {
                if is_new {
                    EventKind::RunStarted(started)
                } else {
                    EventKind::RunResumed(started)
                }
            })?;
        }
        if let (Some(repo), Some(base), false) =
            (self.parts.repo, &self.order.base, self.order.in_place)
        {
            repo.exclude_ours()?;
            let is_rolled_back = matches!(
                &self.story.decision,
                Some(decision) if matches!(decision.answer, GateAnswer::Reject { rollback: true, .. })
            );
            if !is_rolled_back {
                let base = base.commit.parse().map_err(|_| {
                    RunError::refused(
                        format!("the run began at {:?}, which is no commit", base.commit),
                        "look at the team's config.json",
                    )
                })?;
                let team = self.team.clone();
                // A large repository takes long to be checked out.
                let (ready, swept) = self.beside(|_| {
                    let ready = Integration::prepare(repo, &team, &base);
                    (ready, CheckTree::sweep(repo, &team))
                })?;
                let ready = ready?;
                if let Some(branch) = ready.salvaged {
                    let text = format!("work that was found in no commit is kept in {branch}");
                    self.parts.desk.say(&text);
                }
                if let Err(error) = swept {
                    let text =
                        format!("the tree of an earlier check could not be removed: {error}");
                    self.parts.desk.say(&text);
                }
                self.integration = Some(ready.integration);
            }
        }
        self.read()?;
        self.note_refs()?;
        if self.story.stage.is_none() {
            self.enter(Stage::Plan, "the run begins")?;
        }
        Ok(())
    }

    /// Ends a check or a leader that a killed host has left behind: it would write into what is ours now.
    fn end_what_was_under_way(&mut self) {
        if let Some(launch) = &self.story.under_way
            && let Err(error) = ProcessTree::of_launch(self.parts.machine, launch, None).end(GRACE)
        {
            self.parts.desk.say(&error.to_string());
        }
    }

    /// Reads what was journalled before we came. Of a run that has not begun, everything is news.
    fn catch_up_with_the_journal(&mut self) -> Result<()> {
        let begun = self.parts.store.last_of(
            &self.team,
            &[EventType::RunStarted.name(), EventType::RunResumed.name()],
        )?;
        let is_new = begun.is_none();
        loop {
            let page = self.parts.store.events(&self.team, self.seen + 1, PAGE)?;
            let count = page.events.len();
            for event in &page.events {
                self.take_in(event);
                if is_new {
                    self.parts.desk.event(event);
                } else {
                    self.parts.desk.known(event);
                }
            }
            if count < PAGE {
                return Ok(());
            }
        }
    }

    fn take_in(&mut self, event: &Event) {
        self.seen = event.seq;
        teamster_fs::fail::reached_event(event.seq);
        self.story.apply(event);
        match (self.story.stage, self.at_gate_since) {
            (Some(Stage::Approval), None) => self.at_gate_since = Some(Instant::now()),
            (Some(Stage::Approval), Some(_)) | (_, None) => {}
            (_, Some(_)) => self.ends_waiting(),
        }
        if event.task_id.is_some()
            && !event.is(EventType::AgentEvent)
            && !event.is(EventType::Usage)
            || event.data.contains_key("also")
        {
            self.tasks_changed = event.seq;
        }
        if event.kind.starts_with(family::WORKER) || event.kind.starts_with(family::MEMBER) {
            self.crew_changed = event.seq;
        }
    }

    /// A person who was waited for has answered.
    fn ends_waiting(&mut self) {
        if let Some(since) = self.at_gate_since.take() {
            self.waited_at_gate += since.elapsed();
        }
    }

    /// Reads what was journalled since the last time.
    fn read(&mut self) -> Result<()> {
        loop {
            let page = self.parts.store.events(&self.team, self.seen + 1, PAGE)?;
            for event in &page.events {
                self.take_in(event);
                self.parts.desk.event(event);
            }
            if page.events.len() < PAGE {
                return Ok(());
            }
        }
    }

    fn show(&mut self) -> Result<()> {
        let tasks = self.tasks()?;
        let beats = self.beats()?;
        self.parts.desk.look(&Look {
            story: &self.story,
            tasks: &tasks,
            beats: &beats,
            worked: self.story.worked(self.hosted()),
        });
        Ok(())
    }

    fn record(&mut self, event: NewEvent) -> Result<()> {
        self.parts.store.record(&self.team, event)?;
        self.read()
    }

    /// Records something that the host did.
    fn journal(&mut self, what: EventKind) -> Result<()> {
        self.record(NewEvent::new(HOST, what))
    }

    fn enter(&mut self, stage: Stage, reason: &str) -> Result<()> {
        self.crew_is_up = false;
        self.alone_since = None;
        self.checked_here.clear();
        let from = self.story.stage.map(Stage::as_str);
        self.journal(EventKind::RunStage(StageEntered {
            from: from.map(str::to_owned),
            to: stage.as_str().to_owned(),
            stage: stage.as_str().to_owned(),
            round: self.story.round,
            reason: reason.to_owned(),
        }))
    }

    /// Notes that the order is another one now.
    fn reorder(&mut self) -> Result<()> {
        self.host_team(None, EventKind::RunOrdered)?;
        self.read()
    }

    /// Registers this process as the host of the run, with what the run is to do.
    fn host_team(
        &self,
        replacements: Option<Vec<String>>,
        what: impl FnOnce(RunStarted) -> EventKind,
    ) -> Result<()> {
        let spec = self.order.clone();
        let order = serde_json::json!(spec);
        let event = NewEvent::new(HOST, what(RunStarted { spec, replacements }));
        let store = self.parts.store;
        store.host_team(&self.team, Some(&order), event)?;
        Ok(())
    }

    /// The tasks, as they were at the last event, or a moment ago.
    fn tasks(&self) -> Result<Rc<Vec<Task>>> {
        let mut known = self.known_tasks.borrow_mut();
        let again = if self.crew_is_up {
            TASKS_AGAIN
        } else {
            LOOK_AGAIN
        };
        if let Some((changed, at, tasks)) = &*known
            && *changed == self.tasks_changed
            && at.elapsed() < again
        {
            return Ok(Rc::clone(tasks));
        }
        let mut tasks = self.parts.store.tasks(&self.team)?.tasks;
        tasks.retain(|task| !task.is_internal());
        let tasks = Rc::new(tasks);
        *known = Some((self.tasks_changed, Instant::now(), Rc::clone(&tasks)));
        Ok(tasks)
    }

    /// The heartbeats, as they were at the last event, or a moment ago.
    fn beats(&self) -> Result<Rc<Vec<Heartbeat>>> {
        let mut known = self.known_beats.borrow_mut();
        if let Some((changed, at, beats)) = &*known
            && *changed == self.crew_changed
            && at.elapsed() < LOOK_AGAIN
        {
            return Ok(Rc::clone(beats));
        }
        let beats = Rc::new(self.parts.store.heartbeats(&self.team)?.0);
        *known = Some((self.crew_changed, Instant::now(), Rc::clone(&beats)));
        Ok(beats)
    }

    /// Whether the work of a task has to be merged.
    fn merges(&self) -> bool {
        self.integration.is_some()
    }

    /// Does what the person before the run wants. At the gate nobody works any more, so there it is enough to leave.
    fn obey(&mut self) -> Result<Option<Left>> {
        if self.parts.desk.wish() == Wish::GoOn {
            return Ok(None);
        }
        if let (true, Some(gate)) = (self.story.is_at_gate(), &self.story.gate) {
            return Ok(Some(Left::AtGate {
                commit: gate.commit.clone(),
                exit_code: crate::exit::CANCELLED,
                why: "the gate stays open".to_owned(),
            }));
        }
        self.stop_crew("the run is cancelled")?;
        self.finish(RunEnd::Cancelled, "a person stopped it")?;
        let finished = self.story.finished.clone();
        Ok(finished.map(Left::Over))
    }
}
