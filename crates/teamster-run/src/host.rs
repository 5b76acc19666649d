//! The host: one loop that owns a run from its specification to its end.
//!
//! ```text
//! plan → execute ⇄ merge → verify ⇄ fix → review ⇄ fix → gate → land → end
//! ```
//!
//! Each stage is handled by a part with its own state: `Planner`, `Scheduler` with the `Merger`, `Verifier`,
//! `ApprovalGate`; while the team works, the `LeaderWaker` asks the leader for decisions. A part works on the
//! `RunContext` and returns `HostCommand`s, which the loop applies; the `Projector` keeps the state files up to date.
//! The workers are separate processes in the context's worker pool.
//!
//! The host has no private state that matters. Every decision is journalled before anything builds on it, the progress
//! of the run is derived from the journal ([`teamster_journal::RunState`]), and every action can be repeated without
//! harm. So a host that was killed at any moment can be replaced by another that continues where it stopped.

mod auto_approval;
mod background;
mod budget;
mod chooser;
mod context;
mod digest;
mod exclusive_lock;
mod flow_phases;
mod gate;
mod integration_guard;
mod landing;
mod leader_turn;
mod merge_conflicts;
mod merger;
mod planner;
mod projector;
mod render;
mod repository_audit;
mod reviewer;
mod reviewer_choice;
mod scheduler;
mod session;
mod task_progress;
mod verifier;
mod wake_actions;
mod wake_reasons;
mod wake_turn;
mod waker;
mod worker_pool;

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use teamster_agents::{Driver, Provider};
use teamster_fs::layout::{self, Layout};
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, FsError, OrTrace as _};
use teamster_isolate::GRACE;
use teamster_isolate::git::{GitError, Repo};
use teamster_isolate::process_tree::ProcessTree;
use teamster_isolate::tmux::Tmux;
use teamster_journal::cost::LimitReached;
use teamster_journal::payload::{Check, RunEnd, RunFinished, RunSpec, StageEntered};
use teamster_journal::{EventKind, FinishedRun};
use teamster_prompts::Prompts;
use teamster_store::{PlannedTask, Store, StoreError};
use teamster_types::TeamName;
use teamster_types::flow::Stage;
use teamster_types::health::Limits;
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::task::NewTask;
use teamster_workers::launch::Launcher;
use teamster_workers::limits::WorkerLimits;
use teamster_workers::workplace::{NotTrusted, SetupError, WorktreeSetup};

use crate::observer::{RunObserver, StopLevel};
use context::RunContext;
pub use exclusive_lock::{ExclusiveLock, ProjectLock, TeamLock};
use flow_phases::StageGuard;
use gate::ApprovalGate;
use merger::Merger;
use planner::Planner;
use projector::Projector;
use scheduler::Scheduler;
pub use task_progress::has_work_to_merge;
use verifier::Verifier;
pub use waker::LeaderBounds;
use waker::LeaderWaker;

/// How long the loop sleeps when there is nothing to do.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// The poll interval for changes that are not journalled.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The reason given to workers when a person cancels the run.
const CANCELLED: &str = "the run is cancelled";

/// Decides whether commands and settings from the project may be used. It is asked before each use, so that a change of
/// the project's files, or of what the user accepts, takes effect at once.
pub trait ProjectTrust {
    /// Returns the setup that makes a worktree usable, if the user accepts it now.
    fn worktree_setup(&self) -> Result<WorktreeSetup, NotTrusted>;

    /// Refuses to start the workers of a run when they need something that the user does not accept now.
    fn workers(&self, spec: &RunSpec) -> Result<(), NotTrusted>;

    /// Returns the agent that a word stands for in the current settings, if the user accepts it. The script that the
    /// driver plays, if any, is the one that was accepted.
    fn agent(&self, word: &str) -> Result<(Provider, Box<dyn Driver>), NotTrusted>;

    /// Returns the prompt templates, including those of the project if the user accepts them now.
    fn prompts(&self) -> Result<Prompts, NotTrusted>;

    /// Refuses a check from the project that the user does not accept now.
    fn check(&self, check: &Check) -> Result<(), NotTrusted>;
}

/// Everything outside the run that a host needs.
pub struct HostEnvironment<'a> {
    /// The store of the team.
    pub store: &'a dyn Store,
    /// The machine that the host runs on.
    pub machine: &'a Machine,
    /// The paths of all files and folders.
    pub layout: &'a Layout,
    /// The project's folder, opened.
    pub project: &'a Dir,
    /// The path of the project's folder.
    pub folder: &'a Path,
    /// The launcher of workers.
    pub launcher: &'a Launcher<'a>,
    /// The terminal server that workers may run in.
    pub tmux: Option<&'a Tmux>,
    /// The project's repository.
    pub repo: Option<&'a Repo>,
    /// The repository that contains the project's folder, when all workers share that folder: nothing is merged there,
    /// only its changes are shown.
    pub project_repo: Option<&'a Repo>,
    /// Decides whether commands and settings from the project may be used.
    pub trust: &'a dyn ProjectTrust,
    /// The limits by which the health of workers is judged.
    pub limits: Limits,
    /// How long a check may take.
    pub check_limit: Duration,
    /// How many tasks may be added by anyone but the host.
    pub max_tasks: usize,
    /// How long workers may take to stop.
    pub stop_deadline: Duration,
    /// The limits of agents that the host runs itself.
    pub agent_limits: WorkerLimits,
    /// The limits of the leader.
    pub leader: LeaderBounds,
    /// The directories to search for programs, as in `PATH`.
    pub path: &'a OsStr,
    /// The observer of the run.
    pub observer: &'a mut dyn RunObserver,
}

/// The reason why a run cannot continue. It can be resumed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A call of git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file could not be used.
    #[error(transparent)]
    Files(#[from] FsError),
    /// A disk is full.
    #[error("{message}")]
    NoRoom {
        /// Which disk it is, and how much is free.
        message: String,
        /// What to do.
        hint: String,
    },
    /// A command or setting from the project is needed that the user has not accepted.
    #[error(transparent)]
    NotTrusted(#[from] NotTrusted),
    /// A problem that a person has to solve.
    #[error("{message}")]
    Refused {
        /// The problem.
        message: String,
        /// What to do.
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

/// How a host leaves its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostExit {
    /// The run is over.
    Over(FinishedRun),
    /// The host leaves the gate open instead of waiting for a decision.
    AtGate {
        /// The commit that would land.
        commit: String,
        /// Why the host leaves.
        exit: GateExit,
        /// Why the host leaves, in words.
        why: String,
    },
}

/// Why a host leaves an open gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateExit {
    /// The work waits for a person, and the run was told not to wait.
    Waiting,
    /// A person stopped the host.
    Stopped,
    /// The decision is about another gate than the open one, or the approved commit could not land on the user's
    /// branch.
    NotLanded,
    /// The work was not approved automatically, because it is not verified or a person has to look at it.
    Unverified,
    /// The work was not approved automatically, because tasks failed permanently.
    TasksFailed,
}

/// A command from a part to the loop.
#[derive(Debug)]
enum HostCommand {
    /// Adds a task for the team.
    AddTask(Box<NewTask>),
    /// Chooses one of several results of the same work.
    ChooseResult,
    /// Has the merged work reviewed after its checks passed, and then goes to the gate or has the findings fixed.
    Review {
        /// The commit to review.
        commit: String,
        /// Why the gate may open.
        reason: PhraseCode,
    },
    /// Stops every worker for this reason.
    StopWorkers(&'static str),
    /// Enters a stage.
    Enter {
        /// The stage.
        stage: Stage,
        /// Why it is entered.
        reason: Wording,
    },
    /// Ends a run whose work was accepted, for this reason. Missing work is added to the reason.
    Complete(Wording),
    /// Ends the run. The workers were stopped before.
    Finish {
        /// The end.
        end: RunEnd,
        /// Why the run ends.
        reason: Wording,
    },
    /// Ends a run whose budget is used up. Running agents are interrupted; their work is committed on their branches.
    ExhaustBudget(LimitReached),
    /// Pauses before the next step.
    Wait,
    /// Leaves the run in its present state.
    Leave(HostExit),
}

impl HostCommand {
    fn add_task(task: NewTask) -> Self {
        Self::AddTask(Box::new(task))
    }

    fn enter(stage: Stage, reason: impl Into<Wording>) -> Self {
        let reason = reason.into();
        Self::Enter { stage, reason }
    }

    fn finish(end: RunEnd, reason: impl Into<Wording>) -> Self {
        let reason = reason.into();
        Self::Finish { end, reason }
    }
}

/// How the loop continues after commands were applied.
enum LoopControl {
    Continue,
    Wait,
    Leave(HostExit),
}

/// One host of one run.
pub struct Host<'a> {
    run: RunContext<'a>,
    planner: Planner,
    scheduler: Scheduler,
    merger: Merger,
    verifier: Verifier,
    gate: ApprovalGate,
    waker: LeaderWaker,
    projector: Projector,
    /// Whether this host has begun to act.
    has_begun: bool,
    /// Whether the team's last run is over and a new one begins.
    begins_anew: bool,
}

impl<'a> Host<'a> {
    /// Returns a host for the run of a team. Its process must hold the [`ExclusiveLock`].
    pub fn new(env: HostEnvironment<'a>, team: TeamName, spec: RunSpec) -> Self {
        Self {
            run: RunContext::new(env, team, spec),
            planner: Planner::default(),
            scheduler: Scheduler::default(),
            merger: Merger::default(),
            verifier: Verifier::default(),
            gate: ApprovalGate::default(),
            waker: LeaderWaker::default(),
            projector: Projector::default(),
            has_begun: false,
            begins_anew: false,
        }
    }

    /// Begins a new run of the team if the last one is over.
    #[must_use]
    pub fn with_new_run(mut self) -> Self {
        self.begins_anew = true;
        self
    }

    /// Drives the run to its end, or as far as possible. After an error the workers are stopped, because no host would
    /// supervise them; workers that are still alive and unfinished work are reported to the observer.
    pub fn run(&mut self) -> Result<HostExit> {
        let exit = self.drive();
        if exit.is_err() && self.has_begun {
            self.run.note_workers_stopping();
            let alive = self.run.stop_after_error();
            for sentence in alive.into_iter().chain(render::unfinished_work(&self.run)) {
                self.run.say(&sentence);
            }
        }
        exit
    }

    fn drive(&mut self) -> Result<HostExit> {
        self.run.read_history()?;
        self.begins_anew &= self.run.state().finished.is_some();
        if let Some(finished) = self.run.state().finished.clone()
            && !finished.is_resumable()
            && !self.begins_anew
        {
            // The run is not started again: the team's branches are gone, and would only be recreated. A host that was
            // killed at its last step has left outdated state files and an outdated report.
            if projector::is_projected(&self.run) {
                flow_phases::follow(&mut self.run, &mut self.projector)?;
                self.projector.project(&mut self.run);
            }
            render::write_report(&mut self.run, self.merger.guard());
            return Ok(HostExit::Over(finished));
        }
        self.has_begun = true;
        self.run.require_disk_space()?;
        self.begin()?;
        let mut acted: Option<(u64, Instant)> = None;
        loop {
            self.run.read()?;
            // While workers are busy there is nothing to do until the journal changes. Not every change is journalled,
            // so the loop also polls.
            let is_quiet = acted.is_some_and(|(seen, at)| {
                let passed = self.run.now().saturating_duration_since(at);
                seen == self.run.seen() && passed < POLL_INTERVAL
            });
            let is_quiet = is_quiet && !self.waker.has_result();
            if is_quiet && self.run.stop_level() == StopLevel::GoOn {
                self.run.show()?;
                std::thread::sleep(IDLE_PAUSE);
                continue;
            }
            flow_phases::follow(&mut self.run, &mut self.projector)?;
            self.projector.project(&mut self.run);
            if let Some(finished) = self.run.state().finished.clone() {
                return Ok(HostExit::Over(finished));
            }
            if let Some(exit) = self.handle_stop()? {
                self.projector.project(&mut self.run);
                return Ok(exit);
            }
            acted = None;
            let commands = match self.run.time_limit_reached() {
                Some(exceeded) => vec![HostCommand::ExhaustBudget(exceeded)],
                None => self.step()?,
            };
            match self.apply_all(commands)? {
                LoopControl::Continue => {}
                LoopControl::Wait => {
                    let is_work = matches!(
                        self.run.state().stage,
                        Some(Stage::Execute | Stage::Fix | Stage::Revise)
                    );
                    acted = is_work.then(|| (self.run.seen(), self.run.now()));
                    self.run.show()?;
                    std::thread::sleep(IDLE_PAUSE);
                }
                LoopControl::Leave(exit) => {
                    self.run.read()?;
                    self.projector.project(&mut self.run);
                    return Ok(exit);
                }
            }
        }
    }

    /// Runs one step of the part that handles the present stage.
    fn step(&mut self) -> Result<Vec<HostCommand>> {
        let run = &mut self.run;
        match run.state().stage.unwrap_or(Stage::Plan) {
            Stage::Plan | Stage::Requirements => self.planner.step(
                run,
                self.merger.guard(),
                &mut self.verifier,
                &mut self.projector,
            ),
            Stage::Execute | Stage::Fix | Stage::Revise => {
                self.scheduler.step(run, &self.merger, &mut self.waker)
            }
            Stage::Verify => self
                .verifier
                .step(run, self.merger.guard(), &mut self.projector),
            Stage::Approval => self.gate.step(run, self.merger.guard_mut()),
            Stage::End(_) => Ok(vec![HostCommand::Wait]),
        }
    }

    fn apply_all(&mut self, commands: Vec<HostCommand>) -> Result<LoopControl> {
        let mut next = LoopControl::Continue;
        for command in commands {
            next = self.apply(command)?;
        }
        Ok(next)
    }

    fn apply(&mut self, command: HostCommand) -> Result<LoopControl> {
        match command {
            HostCommand::AddTask(task) => {
                let planned = vec![PlannedTask {
                    task: *task,
                    after: Vec::new(),
                }];
                let planned = planner::with_merge_note(self.merger.guard(), planned);
                self.run.import_tasks(&planned)?;
                self.run.read()?;
            }
            HostCommand::ChooseResult => {
                let commands = chooser::choose(
                    &mut self.run,
                    self.merger.guard(),
                    &mut self.verifier,
                    &mut self.projector,
                )?;
                return self.apply_all(commands);
            }
            HostCommand::Review { commit, reason } => {
                return self.review(&commit, reason);
            }
            HostCommand::StopWorkers(reason) => self.run.stop_workers(reason)?,
            HostCommand::Enter { stage, reason } => return self.enter(stage, &reason),
            HostCommand::Complete(reason) => self.complete(reason)?,
            HostCommand::Finish { end, reason } => self.finish(end, &reason)?,
            HostCommand::ExhaustBudget(exceeded) => {
                self.run
                    .journal(EventKind::BudgetExhausted(exceeded.event()))?;
                self.waker.stop(&mut self.run)?;
                self.run.stop_workers("the budget is used up")?;
                self.finish(RunEnd::BudgetExhausted, &exceeded.sentence().into())?;
            }
            HostCommand::Wait => return Ok(LoopControl::Wait),
            HostCommand::Leave(exit) => return Ok(LoopControl::Leave(exit)),
        }
        Ok(LoopControl::Continue)
    }

    /// Has the merged work reviewed, unless a decision of the leader is needed first: it may change the work.
    fn review(&mut self, commit: &str, reason: PhraseCode) -> Result<LoopControl> {
        let ask_leader = || HostCommand::enter(Stage::Execute, PhraseCode::NeedsLeader);
        if LeaderWaker::is_needed(&self.run, &self.run.tasks()?)? {
            return self.apply(ask_leader());
        }
        let mut commands = reviewer::review(&mut self.run, self.merger.guard(), commit, reason)?;
        let is_gate = |command: &HostCommand| matches!(command, HostCommand::Enter { stage, .. } if *stage == Stage::Approval);
        if commands.iter().any(is_gate) && LeaderWaker::is_needed(&self.run, &self.run.tasks()?)? {
            commands = vec![ask_leader()];
        }
        self.apply_all(commands)
    }

    /// Registers this host in the journal, and creates the integration branch.
    fn begin(&mut self) -> Result<()> {
        self.end_leftover_agents();
        // In every mode, git neither shows nor commits our folders.
        teamster_fs::exclude_from_git(self.run.env().folder, &layout::OUR_FOLDERS)
            .or_trace("keep our folders out of git");
        repository_audit::record_rules(&self.run)?;
        let is_new = self.run.state().begun.is_none() || self.begins_anew;
        if self.begins_anew || !is_new || self.run.state().spec.as_ref() != Some(self.run.spec()) {
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
        self.merger.guard_mut().prepare(&mut self.run)?;
        self.run.read()?;
        repository_audit::record_refs(&mut self.run)?;
        repository_audit::record_files(&mut self.run)?;
        if self.run.state().stage.is_none() {
            self.enter(Stage::Plan, &PhraseCode::RunBegins.into())?;
        }
        Ok(())
    }

    /// Ends a check, a leader, a reviewer or a judge that a killed host has left running: it could still change files
    /// that this host uses.
    fn end_leftover_agents(&mut self) {
        let state = self.run.state();
        let launches = [state.under_way.clone(), state.leader.launch.clone()];
        for launch in launches.into_iter().flatten() {
            let tree = ProcessTree::of_launch(self.run.env().machine, &launch, None);
            if let Err(error) = tree.end(GRACE) {
                self.run.say(&error.to_string());
            }
        }
    }

    /// Enters a stage, unless the flow of the run has an unmet condition for it.
    fn enter(&mut self, stage: Stage, reason: &Wording) -> Result<LoopControl> {
        let guard = self.merger.guard();
        match flow_phases::guard_stage(&mut self.run, guard, &mut self.projector, stage)? {
            StageGuard::Open => {}
            StageGuard::Again => return Ok(LoopControl::Continue),
            StageGuard::Instead(commands) => return self.apply_all(commands),
        }
        self.run.note_stage_entered();
        self.scheduler.note_stage_entered();
        self.verifier.note_stage_entered();
        self.gate.note_stage_entered();
        let from = self.run.state().stage.map(Stage::as_str);
        self.run.journal(EventKind::RunStage(StageEntered {
            from: from.map(str::to_owned),
            to: stage.as_str().to_owned(),
            stage: stage.as_str().to_owned(),
            round: self.run.state().round,
            reason: reason.to_string(),
            reason_codes: reason.codes().clone(),
        }))?;
        flow_phases::follow(&mut self.run, &mut self.projector)?;
        Ok(LoopControl::Continue)
    }

    /// Carries out a request to stop. At the gate no worker runs any more, so there the host just leaves.
    fn handle_stop(&mut self) -> Result<Option<HostExit>> {
        if self.run.stop_level() == StopLevel::GoOn {
            return Ok(None);
        }
        // Show the person who asked that the request was received.
        self.run.show()?;
        let cancels = self.run.state().is_cancelled_elsewhere();
        if let (true, false, Some(gate)) = (
            self.run.state().is_at_gate(),
            cancels,
            &self.run.state().gate,
        ) {
            return Ok(Some(HostExit::AtGate {
                commit: gate.commit.clone(),
                exit: GateExit::Stopped,
                why: "the gate stays open".to_owned(),
            }));
        }
        // Workers that wait for an answer of the leader would never get one.
        self.waker.stop_and_forward_questions(&mut self.run)?;
        self.run.stop_workers(CANCELLED)?;
        let reason = if self.run.state().is_cancelled_elsewhere() {
            PhraseCode::PersonCancelled
        } else {
            PhraseCode::PersonStopped
        };
        self.finish(RunEnd::Cancelled, &reason.into())?;
        let finished = self.run.state().finished.clone();
        Ok(finished.map(HostExit::Over))
    }

    /// Ends a run whose work was accepted. Merged worktrees and branches are removed; unmerged work is kept and named.
    fn complete(&mut self, reason: Wording) -> Result<()> {
        let missing = self.merger.guard().missing_at_the_end(&self.run)?;
        integration_guard::remove_leftovers(&mut self.run)?;
        let tasks = self.run.tasks()?;
        let (failed, lost) = if self.run.spec().collects {
            (0, task_progress::not_merged_words(&tasks))
        } else {
            (task_progress::hopeless(&tasks).len(), None)
        };
        let (end, reason) = if let Some(lost) = lost {
            (RunEnd::CompleteInPart, reason.and("; ", lost))
        } else if !missing.is_empty() {
            let missing = Wording::joined(&missing, "; ");
            (RunEnd::CompleteInPart, reason.and("; but ", missing))
        } else if failed > 0 {
            let failed = Phrase::new(PhraseCode::TasksFailedForGood, [("count", &failed)]);
            (RunEnd::CompleteInPart, reason.and("; ", failed))
        } else if let Some(given_up) = auto_approval::given_up_tasks(self.run.state()) {
            (RunEnd::CompleteInPart, reason.and("; ", given_up))
        } else {
            (RunEnd::Complete, reason)
        };
        self.finish(end, &reason)
    }

    /// Cancels a run that has no host, after stopping the rest of its team. A run that is over is not changed, and
    /// neither is the work. State files that describe another run are left alone.
    pub fn cancel(&mut self) -> Result<FinishedRun> {
        self.run.read_history()?;
        if let Some(finished) = self.run.state().finished.clone() {
            return Ok(finished);
        }
        self.end_leftover_agents();
        self.waker.stop_and_forward_questions(&mut self.run)?;
        self.run.stop_workers(CANCELLED)?;
        let finished = self.journal_end(RunEnd::Cancelled, &PhraseCode::PersonCancelled.into())?;
        if projector::is_projected(&self.run) {
            flow_phases::follow(&mut self.run, &mut self.projector)?;
            self.projector.project(&mut self.run);
        }
        render::write_report(&mut self.run, self.merger.guard());
        Ok(finished)
    }

    /// Journals how the run ended.
    fn journal_end(&mut self, end: RunEnd, reason: &Wording) -> Result<FinishedRun> {
        let commit = render::commit_with_work(&self.run, self.merger.guard());
        let finished = RunFinished::new(self.run.state().stage, end, reason, commit);
        self.run.journal(EventKind::RunFinished(finished))?;
        Ok(FinishedRun {
            end,
            exit_code: end.exit_code(),
            reason: reason.to_string(),
        })
    }

    /// Ends the run and writes its report. The workers were stopped before.
    fn finish(&mut self, end: RunEnd, reason: &Wording) -> Result<()> {
        self.waker.stop(&mut self.run)?;
        let landed = render::commit_with_work(&self.run, self.merger.guard());
        self.journal_end(end, reason)?;
        flow_phases::follow(&mut self.run, &mut self.projector)?;
        for sentence in repository_audit::changed_refs(&self.run, landed.as_deref()) {
            self.run.say(sentence.as_str());
        }
        render::write_report(&mut self.run, self.merger.guard());
        Ok(())
    }
}
