//! Merges the finished work of workers without a run.

use teamster_isolate::git::{FoundRepo, Git, Repo, integration_branch};
use teamster_journal::RunState;
use teamster_journal::payload::{Approve, Base, Check, ReviewMode, RunSpec};
use teamster_run::host::{ExclusiveLock, HostExit, has_work_to_merge};
use teamster_run::observer::RunObserver;
use teamster_types::TeamName;

use super::{HostStart, busy, host_from, lock, spec_of, state_of};
use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};
use crate::workers;

/// The result of looking for finished tasks to merge.
pub enum MergeStart {
    /// Nothing waits to be merged.
    Nothing,
    /// Tasks wait to be merged, and this process holds the lock.
    Ready(Box<ReadyMerge>),
}

/// Finished tasks that can be merged now.
pub struct ReadyMerge {
    team: TeamName,
    spec: RunSpec,
    lock: ExclusiveLock,
}

/// Returns whether finished tasks of a team can be merged, and with which checks.
pub fn merge(app: &App, team: &TeamName, verify: &[String]) -> Result<MergeStart> {
    app.must_be_a_person("merging the work of a team")?;
    let config = app.read()?.team(team)?;
    let (state, _) = state_of(app.read()?, team)?;
    let known = config.run().map(|_| spec_of(app, team)).transpose()?;
    refuse_other_run(team, known.as_ref(), &state)?;
    let lock = lock(app, team)?.ok_or_else(busy)?;
    // Another process could have merged, landed or started a run before the lock was taken.
    let (state, _) = state_of(app.read()?, team)?;
    refuse_other_run(team, known.as_ref(), &state)?;
    let goes_on = known.filter(|spec| spec.collects && state.finished.is_none());
    let mut spec = if let Some(spec) = goes_on {
        spec
    } else {
        let found = repository(app, team)?;
        let base = base(&found, team)?;
        let tasks = app.read()?.tasks(team)?.tasks;
        if !has_work_to_merge(&tasks) && !is_ahead(&found, team, &base)? {
            return Ok(MergeStart::Nothing);
        }
        RunSpec {
            task: format!("Merge the finished tasks of team {team}"),
            base: Some(base),
            approve: Approve::Never,
            max_fix: 0,
            review: ReviewMode::Off,
            collects: true,
            ..RunSpec::default()
        }
    };
    if !verify.is_empty() {
        spec.verify = verify
            .iter()
            .map(|command| Check::new(command, "--verify").as_target())
            .collect();
    }
    Ok(MergeStart::Ready(Box::new(ReadyMerge {
        team: team.clone(),
        spec,
        lock,
    })))
}

impl ReadyMerge {
    /// Merges the finished work and opens the gate, without waiting for an answer.
    pub fn host(self, app: &App, observer: &mut dyn RunObserver) -> Result<HostExit> {
        host_from(
            app,
            &self.team,
            self.spec,
            HostStart::Anew,
            self.lock,
            observer,
        )
    }
}

/// Refuses while a run of the team is unfinished, because it merges by itself.
fn refuse_other_run(team: &TeamName, spec: Option<&RunSpec>, state: &RunState) -> Result {
    let is_other = spec.is_some_and(|spec| !spec.collects);
    if !is_other || state.is_over_for_good() {
        return Ok(());
    }
    let (what, hint) = if state.is_at_gate() {
        (
            "waits at its gate",
            "decide about it first with `teamster approve` or `teamster reject`".to_owned(),
        )
    } else {
        (
            "is not over",
            format!("it merges by itself; resume: `teamster run --resume {team}`"),
        )
    };
    Err(AppError::new(
        ErrorKind::Conflict,
        format!("the run of team {team} {what}"),
    )
    .hint(hint))
}

fn repository(app: &App, team: &TeamName) -> Result<FoundRepo> {
    let project = workers::project_of(app, team)?;
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let found = Git::find(&path).and_then(|git| Repo::find(&git, &project));
    found.map_err(|error| AppError::refused(error.message).hint(error.hint))
}

/// Returns the base of the merged work: the checked-out commit, or where the team's branch left it.
fn base(found: &FoundRepo, team: &TeamName) -> Result<Base> {
    let branch = found.branch.clone();
    if let Some(branch) = branch.as_ref().filter(|name| name.starts_with("omc-team/")) {
        return Err(AppError::refused(format!(
            "{branch} is a branch of a team, and nothing can land there"
        ))
        .hint("switch to a branch of your own"));
    }
    let merged = found
        .repo
        .resolve(&format!("refs/heads/{}", integration_branch(team)))?;
    let fork = match merged {
        Some(merged) => found.repo.fork_point(&found.head, &merged)?,
        None => None,
    };
    let commit = fork.unwrap_or_else(|| found.head.clone());
    Ok(Base {
        commit: commit.to_string(),
        branch,
    })
}

/// Returns whether the team's branch has merged work that is in none of the user's branches.
fn is_ahead(found: &FoundRepo, team: &TeamName, base: &Base) -> Result<bool> {
    let merged = found
        .repo
        .resolve(&format!("refs/heads/{}", integration_branch(team)))?;
    Ok(merged.is_some_and(|merged| merged.as_str() != base.commit))
}
