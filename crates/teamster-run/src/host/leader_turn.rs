//! A turn of the leader: everything around one question to the agent that leads the run.
//!
//! The agent gets a folder that is nobody's work, a launch that is on record before it starts, so that the next host ends
//! it should this one be killed, and what the user accepts at this moment. While it thinks, the host goes on reading the
//! journal, supervising workers and watching the budget; what the turn has cost is journalled whatever became of it.
//! [`take`] knows nothing of what is asked: before the work it is a plan ([`plan`]), and during it what to do ([`wake`]).

use std::path::Path;

use teamster_document::Fault;
use teamster_fs::{Dir, FsError};
use teamster_isolate::git::{CommitId, Repo};
use teamster_journal::payload::{Check, CheckVerdict, Checked, LeaderAsked, LeaderWoken};
use teamster_journal::{EventActor, EventKind};
use teamster_prompts::Prompts;
use teamster_prompts::facts::{CheckState, WakePrompt};
use teamster_workers::ask::usage_event;
use teamster_workers::workplace::NotTrusted;

use super::RunError;
use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use crate::leader::{
    LeaderAgent, LeaderError, PlanRequest, RepositoryOverview, TurnResult, TurnWatch,
};
use crate::plan::Plan;

/// The longest README that is looked at, in characters.
const README: usize = 64 * 1024;

/// Why a turn of the leader came to no answer.
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
    let asked = LeaderAsked {
        leader: spec.leader.clone(),
        launch: String::new(),
    };
    let asked = |launch| EventKind::RunAsked(LeaderAsked { launch, ..asked });
    let led = take(run, guard, base, "plans", asked, |agent, watch| {
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
    let base = run.spec().base.as_ref().map(|base| base.commit.clone());
    let commit = guard.present_head().or(base);
    let asked = |launch| EventKind::LeaderWoken(LeaderWoken { launch, ..woken });
    let doing = "is asked what to do";
    take(
        run,
        guard,
        commit.as_deref(),
        doing,
        asked,
        |agent, watch| agent.decide(prompts, facts, read, watch),
    )
}

/// Returns how a check stands before anybody works.
fn check_state(check: &Check, base: &[Checked]) -> CheckState {
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

/// Lets the leader make one turn on the files of a commit. `doing` is the verb that the observer is told, `asked` makes the
/// event with the launch, and `ask` asks.
fn take<T: Send>(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    commit: Option<&str>,
    doing: &str,
    asked: impl FnOnce(String) -> EventKind,
    ask: impl FnOnce(&LeaderAgent<'_>, &mut TurnWatch<'_>) -> TurnResult<T> + Send,
) -> Result<T, TurnError> {
    let tree = match commit {
        Some(commit) => guard.fresh_tree(run, commit)?,
        None => None,
    };
    let folder = match &tree {
        Some(tree) => tree.work_folder(),
        None => run.env().folder.to_owned(),
    };
    let launch = teamster_fs::random_hex();
    run.journal(asked(launch.clone()))?;
    let (provider, driver) = run.env().trust.agent(&run.spec().leader)?;
    let model = run.spec().leader_model.clone().or(provider.model);
    run.say(&format!("{} {doing}", provider.name));
    let team = run.team().clone();
    let env = run.env();
    let (limits, path, teamster) = (env.agent_limits.clone(), env.path, env.launcher.teamster);
    let turn = run.in_background(|background| {
        let agent = LeaderAgent {
            driver: driver.as_ref(),
            provider: &provider.name,
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
    for spent in &turn.spent {
        run.record(usage_event(
            EventActor::Leader,
            &provider.name,
            model.as_deref(),
            spent,
        ))?;
    }
    Ok(turn.answer?)
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
