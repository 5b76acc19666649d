//! The host: one loop that owns a run from its order to its end.
//!
//! ```text
//! plan → execute ⇄ merge → verify ⇄ fix → gate → land → end
//! ```
//!
//! It keeps nothing to itself. What it decides goes into the journal before anything builds on it, and where it is, it
//! reads there ([`teamster_journal::RunState`]); what it does can be done twice without harm. So a host that was killed at any moment can be
//! followed by another that goes on where it was.

mod background;
mod budget;
mod checking;
mod context;
mod ending;
mod exclusive_lock;
mod gate;
mod landing;
mod merging;
mod own;
mod planning;
mod projector;
mod refs;
mod render;
mod replacements;
mod task_progress;
mod truth;
mod worker_pool;
mod working;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use teamster_fs::layout::Layout;
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, FsError};
use teamster_isolate::GRACE;
use teamster_isolate::git::{CheckTree, GitError, Integration, Repo};
use teamster_isolate::process_tree::ProcessTree;
use teamster_isolate::tmux::Tmux;
use teamster_journal::payload::{Check, GateAnswer, RunEnd, RunSpec, StageEntered};
use teamster_journal::{EventKind, Finished};
use teamster_store::{Store, StoreError};
use teamster_types::TeamName;
use teamster_types::flow::Stage;
use teamster_types::health::Limits;
use teamster_workers::launch::Launcher;
use teamster_workers::workplace::{NotTrusted, SetupError, WorktreeSetup};

use crate::observer::{RunObserver, StopLevel};
use crate::plan::Plan;
use context::RunContext;
pub use exclusive_lock::{ExclusiveLock, ProjectLock};
use projector::Projector;

/// Between two looks when nothing is to be done.
const PAUSE: Duration = Duration::from_millis(100);
/// What is not journalled is looked for this often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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
        observer: &mut dyn RunObserver,
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
pub struct HostEnvironment<'a> {
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
    /// Who watches it.
    pub observer: &'a mut dyn RunObserver,
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
pub enum HostExit {
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
    Leave(HostExit),
}

/// One host of one run.
pub struct Host<'a> {
    run: RunContext<'a>,
    integration: Option<Integration>,
    projector: Projector,
    /// Since when nobody is left who could work.
    alone_since: Option<Instant>,
    gate_shown: Option<String>,
    /// The plan that a person is asked about: what they accept is what they were shown.
    proposed: Option<(Plan, &'static str)>,
    /// Checks that this host has run since the stage was entered. Without commits nothing else tells what they saw.
    checked_here: BTreeSet<String>,
    /// Whether something was approved that could not land as the user's branch was.
    not_landed: bool,
    /// Whether this host has begun to act.
    has_begun: bool,
    /// When the repository was last looked at while the gate was open.
    gate_looked: Option<Instant>,
}

impl<'a> Host<'a> {
    /// Returns a host for the run of a team. Its process must hold the [`ExclusiveLock`].
    pub fn new(env: HostEnvironment<'a>, team: TeamName, spec: RunSpec) -> Self {
        Self {
            run: RunContext::new(env, team, spec),
            integration: None,
            projector: Projector::default(),
            alone_since: None,
            gate_shown: None,
            proposed: None,
            checked_here: BTreeSet::new(),
            not_landed: false,
            has_begun: false,
            gate_looked: None,
        }
    }

    /// Takes the run to its end, or as far as it goes. Where it cannot go on, its workers are stopped: nobody would look
    /// after them.
    pub fn run(&mut self) -> Result<HostExit> {
        let left = self.drive();
        if left.is_err() && self.has_begun {
            self.run.stop_after_error();
        }
        left
    }

    fn drive(&mut self) -> Result<HostExit> {
        self.run.read_past()?;
        if let Some(finished) = self.run.state().finished.clone()
            && !finished.is_resumable()
        {
            // Nothing is begun anew: the team's branches are gone, and would only be made again. A host that was
            // killed at its last step has left the files that others read, and the report, as they were before it.
            if projector::is_projected(&self.run) {
                self.projector.project(&mut self.run);
            }
            self.write_down();
            return Ok(HostExit::Over(finished));
        }
        self.has_begun = true;
        self.run.require_room()?;
        self.begin()?;
        let mut acted: Option<(u64, Instant)> = None;
        loop {
            self.run.read()?;
            // While others work there is nothing to do until something happens. Not everything that happens is
            // journalled, so a look is taken now and then.
            let is_quiet = acted
                .is_some_and(|(seen, at)| seen == self.run.seen() && at.elapsed() < LOOK_AGAIN);
            if is_quiet && self.run.stop_level() == StopLevel::GoOn {
                self.run.show()?;
                std::thread::sleep(PAUSE);
                continue;
            }
            self.projector.project(&mut self.run);
            if let Some(finished) = self.run.state().finished.clone() {
                return Ok(HostExit::Over(finished));
            }
            if let Some(left) = self.obey()? {
                self.projector.project(&mut self.run);
                return Ok(left);
            }
            if let Some(exceeded) = self.run.out_of_time() {
                self.out_of_budget(&exceeded)?;
                acted = None;
                continue;
            }
            let next = match self.run.state().stage.unwrap_or(Stage::Plan) {
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
                        self.run.state().stage,
                        Some(Stage::Execute | Stage::Fix | Stage::Revise)
                    );
                    acted = is_work.then(|| (self.run.seen(), Instant::now()));
                    self.run.show()?;
                    std::thread::sleep(PAUSE);
                }
                Next::Leave(left) => {
                    self.run.read()?;
                    self.projector.project(&mut self.run);
                    return Ok(left);
                }
            }
        }
    }

    /// Says in the journal that there is a host now, and makes the place where work comes together.
    fn begin(&mut self) -> Result<()> {
        self.end_what_was_under_way();
        self.keep_rules()?;
        let is_new = self.run.state().begun.is_none();
        if !is_new || self.run.state().spec.as_ref() != Some(self.run.spec()) {
            let replacements = match self.run.repo().filter(|_| is_new) {
                Some(repo) => Some(repo.replacements()?),
                None => None,
            };
            self.run.register_host(replacements, |started| {
                if is_new {
                    EventKind::RunStarted(started)
                } else {
                    EventKind::RunResumed(started)
                }
            })?;
        }
        if let (Some(repo), Some(base), false) = (
            self.run.repo(),
            &self.run.spec().base,
            self.run.spec().in_place,
        ) {
            repo.exclude_ours()?;
            let is_rolled_back = matches!(
                &self.run.state().decision,
                Some(decision) if matches!(decision.answer, GateAnswer::Reject { rollback: true, .. })
            );
            if !is_rolled_back {
                let base = base.commit.parse().map_err(|_| {
                    RunError::refused(
                        format!("the run began at {:?}, which is no commit", base.commit),
                        "look at the team's config.json",
                    )
                })?;
                let team = self.run.team().clone();
                // A large repository takes long to be checked out.
                let (ready, swept) = self.run.in_background(|_| {
                    let ready = Integration::prepare(repo, &team, &base);
                    (ready, CheckTree::sweep(repo, &team))
                })?;
                let ready = ready?;
                if let Some(branch) = ready.salvaged {
                    let text = format!("work that was found in no commit is kept in {branch}");
                    self.run.say(&text);
                }
                if let Err(error) = swept {
                    let text =
                        format!("the tree of an earlier check could not be removed: {error}");
                    self.run.say(&text);
                }
                self.integration = Some(ready.integration);
            }
        }
        self.run.read()?;
        self.note_refs()?;
        if self.run.state().stage.is_none() {
            self.enter(Stage::Plan, "the run begins")?;
        }
        Ok(())
    }

    /// Ends a check or a leader that a killed host has left behind: it would write into what is ours now.
    fn end_what_was_under_way(&mut self) {
        if let Some(launch) = &self.run.state().under_way
            && let Err(error) =
                ProcessTree::of_launch(self.run.env().machine, launch, None).end(GRACE)
        {
            self.run.say(&error.to_string());
        }
    }

    fn enter(&mut self, stage: Stage, reason: &str) -> Result<()> {
        self.run.stage_entered();
        self.alone_since = None;
        self.checked_here.clear();
        let from = self.run.state().stage.map(Stage::as_str);
        self.run.journal(EventKind::RunStage(StageEntered {
            from: from.map(str::to_owned),
            to: stage.as_str().to_owned(),
            stage: stage.as_str().to_owned(),
            round: self.run.state().round,
            reason: reason.to_owned(),
        }))
    }

    /// Whether the work of a task has to be merged.
    fn merges(&self) -> bool {
        self.integration.is_some()
    }

    /// Does what the person before the run wants. At the gate nobody works any more, so there it is enough to leave.
    fn obey(&mut self) -> Result<Option<HostExit>> {
        if self.run.stop_level() == StopLevel::GoOn {
            return Ok(None);
        }
        if let (true, Some(gate)) = (self.run.state().is_at_gate(), &self.run.state().gate) {
            return Ok(Some(HostExit::AtGate {
                commit: gate.commit.clone(),
                exit_code: crate::exit::CANCELLED,
                why: "the gate stays open".to_owned(),
            }));
        }
        self.run.stop_workers("the run is cancelled")?;
        self.finish(RunEnd::Cancelled, "a person stopped it")?;
        let finished = self.run.state().finished.clone();
        Ok(finished.map(HostExit::Over))
    }
}
