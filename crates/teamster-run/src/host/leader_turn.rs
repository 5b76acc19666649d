//! A turn of an agent that the host runs itself: everything around one question to the leader, the reviewer or the
//! judge.
//!
//! The agent gets a fresh worktree of a commit, or the project's folder where nothing is merged. Its launch is recorded
//! before it starts, so that the next host can end it if this one is killed, and it must be accepted by the user now.
//! While it works, the host keeps reading the journal, supervising workers and watching the budget; the cost of the
//! turn is journalled whatever its result. [`take`] is independent of the question and the agent: before the work the
//! leader is asked for a plan ([`plan`]), and the reviewer and the judge are asked in `reviewer.rs` and `chooser.rs`.
//! During the work the leader decides what to do ([`begin_wake`]) in the background.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use teamster_agents::Driver;
use teamster_document::Fault;
use teamster_fs::{Dir, Durability, FsError};
use teamster_isolate::git::{CheckTree, CommitId, Repo};
use teamster_journal::payload::{Check, CheckVerdict, Checked, LeaderAsked, LeaderWoken, RunSpec};
use teamster_journal::{EventActor, EventKind};
use teamster_prompts::Prompts;
use teamster_prompts::facts::{AnswerFacts, CheckState, WakePrompt};
use teamster_types::flow::FlowKind;
use teamster_workers::ask::usage_event;
use teamster_workers::limits::WorkerLimits;
use teamster_workers::workplace::NotTrusted;

use super::RunError;
use super::background::BackgroundTask;
use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use crate::leader::{
    LEADER, LeaderAgent, LeaderError, LeaderPlan, PlanRequest, PlanRevision, RepositoryOverview,
    TurnResult, TurnWatch, leader_permissions,
};

/// The number of characters of a README that are read.
const README_CHARS: usize = 64 * 1024;
/// The poll interval for the end of an agent that is waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The reason why a turn has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum TurnError {
    /// The agent was asked and gave no answer.
    #[error(transparent)]
    Leader(#[from] LeaderError),
    /// The user does not accept the agent now.
    #[error(transparent)]
    NotTrusted(#[from] NotTrusted),
    /// The host failed.
    #[error(transparent)]
    Host(#[from] RunError),
}

/// Additional facts for a leader that plans.
#[derive(Debug, Default)]
pub(super) struct PlanBrief {
    /// Whether a person can be asked what the leader cannot decide.
    pub(super) may_ask: bool,
    /// The answers to the leader's questions.
    pub(super) answers: Vec<AnswerFacts>,
    /// The changes that a person wants in the previous plan.
    pub(super) revision: Option<PlanRevision>,
}

/// Asks the leader for the plan of the run.
pub(super) fn plan(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    brief: &PlanBrief,
) -> Result<LeaderPlan, TurnError> {
    let spec = run.spec().clone();
    let repo = run.repo();
    let base = spec.base.as_ref().map(|base| base.commit.as_str());
    let prompts = run.env().trust.prompts()?;
    let state = run.state();
    let checks: Vec<CheckState> = spec
        .verify
        .iter()
        .map(|check| check_state(check, &state.base))
        .collect();
    let leader = spec.leader.clone();
    let asked = move |launch| EventKind::RunAsked(LeaderAsked { leader, launch });
    let turn = Turn {
        commit: base,
        ..Turn::of_leader(&spec, "plans")
    };
    take(run, guard, &turn, asked, |agent, watch| {
        let overview = overview(repo, base, agent.folder);
        let request = PlanRequest {
            task: &spec.task,
            members: &spec.members,
            told: &spec.leader_prompt,
            overview: &overview,
            checks: &checks,
            budget: &spec.budget,
            may_ask: brief.may_ask,
            requirements: spec.requirements,
            needs_analysis: spec.flow_kind() == FlowKind::Party,
            answers: &brief.answers,
            revision: brief.revision.as_ref(),
            prompts: &prompts,
        };
        agent.plan(&request, watch)
    })
}

/// Returns the state of a check, from its result on the base.
pub(super) fn check_state(check: &Check, base: &[Checked]) -> CheckState {
    let before = base.iter().find(|base| base.command == check.command);
    let state = match before.map(|before| before.verdict) {
        Some(CheckVerdict::Passed) => "passes",
        Some(CheckVerdict::Flaky) => "passes sometimes and fails sometimes",
        Some(CheckVerdict::Failed) => "fails",
        Some(CheckVerdict::TimedOut) => "does not end in time",
        Some(CheckVerdict::Stopped) | None => "has not been run",
    };
    let is_failing = before.is_some_and(|before| before.verdict.is_failure());
    let output = before.filter(|_| is_failing);
    CheckState {
        command: check.command.clone(),
        state: state.to_owned(),
        output: output.map_or_else(String::new, |before| before.last.clone()),
    }
}

/// One question to an agent.
pub(super) struct Turn<'a> {
    /// The word that stands for the agent.
    pub(super) word: &'a str,
    /// The model, or `None` for the one of the settings.
    pub(super) model: Option<&'a str>,
    /// The name under which it is asked.
    pub(super) name: &'a str,
    /// The actor whose cost it is.
    pub(super) actor: EventActor,
    /// The commit whose files the agent gets.
    pub(super) commit: Option<&'a str>,
    /// Additional files for the agent: the name of each, and its content.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// The activity of the agent, as shown to the observer.
    pub(super) doing: &'a str,
}

impl<'a> Turn<'a> {
    /// Returns a turn of the agent that leads the run.
    fn of_leader(spec: &'a RunSpec, doing: &'a str) -> Self {
        Self {
            word: &spec.leader,
            model: spec.leader_model.as_deref(),
            name: LEADER,
            actor: EventActor::Leader,
            commit: None,
            files: Vec::new(),
            doing,
        }
    }
}

/// An agent that is ready to be asked.
struct ReadyTurn {
    /// The worktree with its files, which is removed afterwards.
    _tree: Option<CheckTree>,
    folder: PathBuf,
    driver: Box<dyn Driver>,
    provider: String,
    model: Option<String>,
    name: String,
    team: String,
    limits: WorkerLimits,
    path: OsString,
    teamster: PathBuf,
    launch: String,
}

impl ReadyTurn {
    /// Prepares a turn, and records its launch with the event `begun`.
    fn make(
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        turn: &Turn<'_>,
        begun: impl FnOnce(String) -> EventKind,
    ) -> Result<Self, TurnError> {
        let tree = match turn.commit {
            Some(commit) => guard.fresh_tree(run, commit)?,
            None => None,
        };
        let folder = match &tree {
            Some(tree) => tree.work_folder(),
            None => run.env().folder.to_owned(),
        };
        if tree.is_some() {
            add_files(&folder, &turn.files)?;
        }
        let launch = teamster_fs::random_hex();
        run.journal(begun(launch.clone()))?;
        let (provider, driver) = run.env().trust.agent(turn.word)?;
        run.say(&format!("{} {}", provider.name, turn.doing));
        let env = run.env();
        Ok(Self {
            _tree: tree,
            folder,
            driver,
            model: turn.model.map(str::to_owned).or(provider.model),
            provider: provider.name,
            name: turn.name.to_owned(),
            team: run.team().to_string(),
            limits: env.agent_limits.clone(),
            path: env.path.to_owned(),
            teamster: env.launcher.teamster.to_owned(),
            launch,
        })
    }

    /// Asks the agent. An agent that the host asks may only read, whatever a worker of the same client may do.
    fn ask<T>(
        &self,
        stop: &dyn Fn() -> bool,
        ask: impl FnOnce(&LeaderAgent<'_>, &mut TurnWatch<'_>) -> TurnResult<T>,
    ) -> TurnResult<T> {
        let agent = LeaderAgent {
            driver: self.driver.as_ref(),
            provider: &self.provider,
            name: &self.name,
            permissions: leader_permissions(),
            model: self.model.as_deref(),
            team: &self.team,
            folder: Some(&self.folder),
            limits: &self.limits,
            exported: &[],
            path: &self.path,
            teamster: &self.teamster,
            launch: &self.launch,
        };
        let hear = &mut |_: &_| {};
        ask(&agent, &mut TurnWatch { stop, hear })
    }

    /// Returns the account for the cost of the turn.
    fn cost_recorder(&self, actor: &EventActor) -> CostRecorder {
        CostRecorder {
            actor: actor.clone(),
            provider: self.provider.clone(),
            model: self.model.clone(),
        }
    }
}

/// The account for the cost of a turn.
struct CostRecorder {
    actor: EventActor,
    provider: String,
    model: Option<String>,
}

impl CostRecorder {
    /// Records the cost of a turn, whatever its result.
    fn record<T>(
        &self,
        run: &mut RunContext<'_>,
        asked: TurnResult<T>,
    ) -> Result<Result<T, TurnError>, RunError> {
        for spent in &asked.spent {
            let model = self.model.as_deref();
            let event = usage_event(self.actor.clone(), &self.provider, model, spent);
            run.record(event)?;
        }
        Ok(asked.answer.map_err(TurnError::Leader))
    }
}

/// Runs one turn of an agent on the files of a commit, and waits for its end. `begun` makes the event that records its
/// launch; `ask` asks the question.
pub(super) fn take<T: Send>(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    turn: &Turn<'_>,
    begun: impl FnOnce(String) -> EventKind,
    ask: impl FnOnce(&LeaderAgent<'_>, &mut TurnWatch<'_>) -> TurnResult<T> + Send,
) -> Result<T, TurnError> {
    let ready = ReadyTurn::make(run, guard, turn, begun)?;
    let recorder = ready.cost_recorder(&turn.actor);
    let asked = run.in_background(|background| ready.ask(&|| background.is_stopped(), ask))?;
    recorder.record(run, asked)?
}

/// A turn that runs in the background. Dropping it ends the agent.
pub(super) struct RunningTurn<T> {
    work: BackgroundTask<TurnResult<T>>,
    recorder: CostRecorder,
    /// The deadline of the agent.
    deadline: Option<Instant>,
}

impl<T: Send + 'static> RunningTurn<T> {
    /// Returns whether the agent has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.work.has_ended()
    }

    /// Returns whether the deadline of the agent has passed.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Asks the agent to end.
    pub(super) fn stop(&self) {
        self.work.stop();
    }

    /// Waits for the end of the agent, while the host continues with what must not wait.
    pub(super) fn wait(&self, run: &mut RunContext<'_>) -> Result<(), RunError> {
        run.in_background(|background| {
            while !self.work.has_ended() {
                if background.is_stopped() {
                    self.work.stop();
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        })
    }

    /// Returns the answer of the agent after it has ended.
    pub(super) fn finish(self, run: &mut RunContext<'_>) -> Result<Result<T, TurnError>, RunError> {
        let asked = self.work.finish()?;
        self.recorder.record(run, asked)
    }
}

/// Begins a turn of the leader about what to do during the run. It sees the merged work, and is ended after `most`.
pub(super) fn begin_wake<T: Send + 'static>(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    woken: LeaderWoken,
    most: Option<Duration>,
    prompts: Prompts,
    facts: WakePrompt,
    read: impl Fn(&str) -> Result<T, Vec<Fault>> + Send + 'static,
) -> Result<RunningTurn<T>, TurnError> {
    let spec = run.spec().clone();
    let base = spec.base.as_ref().map(|base| base.commit.clone());
    let commit = guard.present_head().or(base);
    let begun = |launch| EventKind::LeaderWoken(LeaderWoken { launch, ..woken });
    let turn = Turn {
        commit: commit.as_deref(),
        ..Turn::of_leader(&spec, "is asked what to do")
    };
    let ready = ReadyTurn::make(run, guard, &turn, begun)?;
    let recorder = ready.cost_recorder(&turn.actor);
    let deadline = most.and_then(|most| run.now().checked_add(most));
    let work = BackgroundTask::start(move |stop: &AtomicBool| {
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let stop = || stop.load(Ordering::Relaxed) || is_late();
        ready.ask(&stop, |agent, watch| {
            agent.decide(&prompts, &facts, read, watch)
        })
    })?;
    Ok(RunningTurn {
        work,
        recorder,
        deadline,
    })
}

/// Adds files to the folder of a turn.
fn add_files(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<(), RunError> {
    if files.is_empty() {
        return Ok(());
    }
    if let Some(dir) = Dir::open_root(folder)? {
        for (name, bytes) in files {
            dir.replace(name, bytes, Durability::Fast)?;
        }
    }
    Ok(())
}

/// Returns the overview of a repository at a commit whose files are in a folder.
fn overview(
    repo: Option<&Repo>,
    commit: Option<&str>,
    folder: Option<&Path>,
) -> RepositoryOverview {
    let commit = commit.and_then(|commit| commit.parse::<CommitId>().ok());
    let tracked = match (repo, commit) {
        (Some(repo), Some(commit)) => repo
            .tracked_files(&commit)
            .inspect_err(|error| tracing::debug!("cannot list the files for the leader: {error}"))
            .unwrap_or_default(),
        _ => Vec::new(),
    };
    let readme = RepositoryOverview::readme_of(&tracked).zip(folder);
    let readme = readme.and_then(|(name, folder)| {
        read(folder, name)
            .inspect_err(|error| tracing::debug!("cannot read {name} for the leader: {error}"))
            .ok()?
    });
    RepositoryOverview::new(&tracked, &readme.unwrap_or_default())
}

fn read(folder: &Path, name: &str) -> Result<Option<String>, FsError> {
    let Some(dir) = Dir::open_root(folder)? else {
        return Ok(None);
    };
    Ok(dir.read(name)?.map(|(bytes, _)| {
        let text = String::from_utf8_lossy(&bytes);
        text.chars().take(README_CHARS).collect()
    }))
}
