//! A turn of an agent that the host asks itself: everything around one question to the leader or the reviewer of the run.
//!
//! The agent gets a folder that is nobody's work, a launch that is on record before it starts, so that the next host ends
//! it should this one be killed, and what the user accepts at this moment. While it thinks, the host goes on reading the
//! journal, supervising workers and watching the budget; what the turn has cost is journalled whatever became of it.
//! [`take`] knows nothing of what is asked, and of whom: before the work the leader is asked for a plan ([`plan`]), during
//! it what to do ([`wake`]), and the reviewer is asked in `reviewer.rs`.

use std::path::Path;

use teamster_agents::Permissions;
use teamster_document::Fault;
use teamster_fs::{Dir, FsError};
use teamster_isolate::git::{CommitId, Repo};
use teamster_journal::payload::{Check, CheckVerdict, Checked, LeaderAsked, LeaderWoken, RunSpec};
use teamster_journal::{EventActor, EventKind};
use teamster_prompts::Prompts;
use teamster_prompts::facts::{CheckState, WakePrompt};
use teamster_workers::ask::usage_event;
use teamster_workers::workplace::NotTrusted;

use super::RunError;
use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use crate::leader::{
    LEADER, LeaderAgent, LeaderError, PlanRequest, RepositoryOverview, TurnResult, TurnWatch,
    leader_permissions,
};
use crate::plan::Plan;

/// The longest README that is looked at, in characters.
const README: usize = 64 * 1024;

/// Why a turn came to no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum TurnError {
    /// The agent was asked and gave no answer.
    #[error(transparent)]
    Leader(#[from] LeaderError),
    /// The agent is not one that the user accepts at this moment.
    #[error(transparent)]
    NotTrusted(#[from] NotTrusted),
    /// The host could not do its part.
    #[error(transparent)]
    Host(#[from] RunError),
}

/// Asks the leader for the plan of the run.
pub(super) fn plan(run: &mut RunContext<'_>, guard: &IntegrationGuard) -> Result<Plan, TurnError> {
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
    let led = take(run, guard, &turn, asked, |agent, watch| {
        let overview = overview(repo, base, agent.folder);
        let request = PlanRequest {
            task: &spec.task,
            members: &spec.members,
            told: &spec.leader_prompt,
            overview: &overview,
            checks: &checks,
            prompts: &prompts,
        };
        agent.plan(&request, watch)
    })?;
    Ok(led.plan)
}

/// Asks the leader what to do during the run. It looks at the work as it is merged.
pub(super) fn wake<T: Send>(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    woken: LeaderWoken,
    prompts: &Prompts,
    facts: &WakePrompt,
    read: impl Fn(&str) -> Result<T, Vec<Fault>> + Send,
) -> Result<T, TurnError> {
    let spec = run.spec().clone();
    let base = spec.base.as_ref().map(|base| base.commit.clone());
    let commit = guard.present_head().or(base);
    let asked = |launch| EventKind::LeaderWoken(LeaderWoken { launch, ..woken });
    let turn = Turn {
        commit: commit.as_deref(),
        ..Turn::of_leader(&spec, "is asked what to do")
    };
    take(run, guard, turn, asked, |agent, watch| {
        agent.decide(prompts, facts, read, watch)
    })
}

/// Returns how a check stands by what was found when it was run.
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

/// An agent that is asked one thing.
pub(super) struct Turn<'a> {
    /// The word that stands for the agent.
    pub(super) word: &'a str,
    /// The model, or `None` for the one of the settings.
    pub(super) model: Option<&'a str>,
    /// The name under which it is asked.
    pub(super) name: &'a str,
    /// The actor whose cost it is.
    pub(super) actor: EventActor,
    /// What it may do.
    pub(super) permissions: Permissions,
    /// The commit whose files it gets.
    pub(super) commit: Option<&'a str>,
    /// What it does, as the verb that the observer is told.
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
            permissions: leader_permissions(),
            commit: None,
            doing,
        }
    }
}

/// Lets an agent make one turn on the files of a commit. `begun` is the event that records its launch; `ask` asks.
pub(super) fn take<T: Send>(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    turn: &Turn<'_>,
    begun: impl FnOnce(String) -> EventKind,
    ask: impl FnOnce(&LeaderAgent<'_>, &mut TurnWatch<'_>) -> TurnResult<T> + Send,
) -> Result<T, TurnError> {
    let tree = match turn.commit {
        Some(commit) => guard.fresh_tree(run, commit)?,
        None => None,
    };
    let folder = match &tree {
        Some(tree) => tree.work_folder(),
        None => run.env().folder.to_owned(),
    };
    let launch = teamster_fs::random_hex();
    run.journal(begun(launch.clone()))?;
    let (provider, driver) = run.env().trust.agent(turn.word)?;
    let model = turn.model.map(str::to_owned).or(provider.model);
    run.say(&format!("{} {}", provider.name, turn.doing));
    let team = run.team().clone();
    let env = run.env();
    let (limits, path, teamster) = (env.agent_limits.clone(), env.path, env.launcher.teamster);
    let (name, permissions) = (turn.name, turn.permissions);
    let asked = run.in_background(|background| {
        let agent = LeaderAgent {
            driver: driver.as_ref(),
            provider: &provider.name,
            name,
            permissions,
            model: model.as_deref(),
            team: team.as_str(),
            folder: Some(&folder),
            limits: &limits,
            exported: &[],
            path,
            teamster,
            launch: &launch,
        };
        let mut watch = TurnWatch {
            stop: &|| background.is_stopped(),
            hear: &mut |_| {},
        };
        ask(&agent, &mut watch)
    })?;
    for spent in &asked.spent {
        run.record(usage_event(
            turn.actor.clone(),
            &provider.name,
            model.as_deref(),
            spent,
        ))?;
    }
    Ok(asked.answer?)
}

/// Returns what the repository looks like at a commit whose files are in a folder.
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
        text.chars().take(README).collect()
    }))
}
