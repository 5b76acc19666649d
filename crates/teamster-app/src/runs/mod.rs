//! Runs: from what was asked for to a host that takes it to its end.
//!
//! [`prepare`] finds everything that can be wrong with a request before anything is made, [`PreparedRun::create`] makes the
//! team, and [`host`] owns the run from there on. A run that exists is taken up with [`resume`]; [`begin_detached`] lets
//! another process host it.

mod cancel;
mod casting;
mod detached;
mod merge;
mod prepare;

use std::path::Path;
use std::time::Duration;

use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_isolate::git::{Git, Repo};
use teamster_journal::RunState;
use teamster_journal::payload::{Approve, Budget, ReviewMode, RunSpec};
use teamster_run::cast::nobody_can;
use teamster_run::host::{
    ExclusiveLock, Host, HostEnvironment, HostExit, ProjectLock, RunError, TeamLock,
};
use teamster_run::observer::RunObserver;
use teamster_run::plan::Plan;
use teamster_store::{OtherHost, Read, Store};
use teamster_types::flow::Stage;
use teamster_types::process::Life;
use teamster_types::transitions::Edit;
use teamster_types::{TaskId, TeamName};
use teamster_workers::launch::{self, Launcher};

use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};
use crate::presets::Presets;
use crate::prompts::PromptFiles;
use crate::trace_log;
use crate::trust::{self, CurrentTrust, Unknown};
use crate::workers;
pub use cancel::cancel;
pub(crate) use cancel::{ask_host, wait_for_host};
pub use detached::{DetachedHost, begin_detached};
pub use merge::{MergeStart, ReadyMerge, merge};
pub use prepare::{PreparedRun, RunRequest, StartedRun, prepare};

/// How long one run of a check may take.
const CHECK_LIMIT: Duration = Duration::from_secs(30 * 60);
/// How long workers may take to stop.
const STOP_DEADLINE: Duration = Duration::from_secs(60);
/// Events that are read at once.
const PAGE: usize = 1_000;

/// What changes when a run that exists is taken up.
#[derive(Clone, Debug)]
pub struct ResumeRequest {
    /// The team.
    pub team: TeamName,
    /// Limits that replace those of the run.
    pub budget: Budget,
    /// How often what the checks find is worked on, instead of as often as before.
    pub max_fix: Option<u32>,
    /// Who decides at the gate, instead of who did before.
    pub approve: Option<Approve>,
    /// Whether the merged work is reviewed, instead of what was said before.
    pub review: Option<ReviewMode>,
    /// What becomes of commands of the project that were not accepted yet.
    pub unknown: Unknown,
}

/// Checks that a run that exists can be taken up, and returns its specification.
pub fn resume(app: &App, request: &ResumeRequest) -> Result<RunSpec> {
    app.must_be_a_person("running a team")?;
    let team = &request.team;
    let mut spec = spec_of(app, team)?;
    spec.budget = Budget {
        tokens: request.budget.tokens.or(spec.budget.tokens),
        usd: request.budget.usd.or(spec.budget.usd),
        minutes: request.budget.minutes.or(spec.budget.minutes),
    };
    if let Some(max_fix) = request.max_fix {
        spec.max_fix = max_fix;
    }
    if let Some(approve) = request.approve {
        spec.approve = approve;
    }
    if let Some(review) = request.review {
        spec.review = review;
    }
    check_budget(&spec.budget)?;
    if goes_on(app, team)? {
        app.config.check()?;
        require_trust(app, team, &spec, request.unknown)?;
        let layout = app.layout.of_project(&workers::project_of(app, team)?);
        PromptFiles::load(&layout)?.check()?;
    }
    Ok(spec)
}

fn check_budget(budget: &Budget) -> Result {
    match budget.usd {
        Some(usd) if !(usd.is_finite() && usd > 0.0) => {
            Err(AppError::usage("--budget-usd is a number above 0"))
        }
        _ => Ok(()),
    }
}

/// Returns whether a run that is taken up goes on working. At the gate it waits for a person or does what they decided, and
/// that must be possible without trust when it is to reject the work.
fn goes_on(app: &App, team: &TeamName) -> Result<bool> {
    let (state, _) = state_of(app.read()?, team)?;
    Ok(!state.is_over_for_good() && state.stage != Some(Stage::Approval))
}

/// Returns where a run is, by its journal, and the position of the last event.
pub fn state_of(from: &dyn Read, team: &TeamName) -> Result<(RunState, u64)> {
    let mut state = RunState::default();
    let mut seen = 0;
    loop {
        let page = from.events(team, seen + 1, PAGE)?;
        for event in &page.events {
            seen = event.seq;
            state.apply(event);
        }
        if page.events.len() < PAGE {
            return Ok((state, seen));
        }
    }
}

/// Returns the specification of a team's run.
pub fn spec_of(app: &App, team: &TeamName) -> Result<RunSpec> {
    let config = app.read()?.team(team)?;
    let recorded = config.run().ok_or_else(|| {
        AppError::not_found(format!("team {team} was not made by a run"))
            .hint("`teamster run` makes a team of its own")
    })?;
    RunSpec::strict(recorded).map_err(|error| {
        AppError::new(
            ErrorKind::Failed,
            format!("what team {team} is to do cannot be read: {error}"),
        )
        .hint("look at config.json of the team; a newer teamster may have written it")
    })
}

/// Makes sure that the user accepts what comes with the project before a run that exists goes on.
pub fn require_trust(app: &App, team: &TeamName, spec: &RunSpec, unknown: Unknown) -> Result {
    let project = workers::project_of(app, team)?;
    let settings = workers::settings(app, &project)?;
    let presets = Presets::of_project(&settings.layout, &settings.config)?;
    trust::require_for_run(
        app,
        &settings.layout,
        &settings.config,
        &presets,
        spec,
        unknown,
    )
}

/// Takes the lock of a team's host; `None` when somebody else has it, or another run works in the project.
pub fn lock(app: &App, team: &TeamName) -> Result<Option<ExclusiveLock>> {
    let project = workers::project_of(app, team)?;
    let dir = opened(&project)?;
    let Some(lock) = ProjectLock::take(&dir)? else {
        return Ok(None);
    };
    match lock.with_team(&app.layout.of_project(&project), team)? {
        Some(lock) => with_right(app, team, lock),
        None => Ok(None),
    }
}

/// Takes the right to host a team as well, or returns `None` when another process has it, on whatever machine.
fn with_right(app: &App, team: &TeamName, lock: ExclusiveLock) -> Result<Option<ExclusiveLock>> {
    Ok(lock.with_right(&app.shared_store()?, team)?.ok())
}

/// Returns whether a process hosts the run of a team now.
pub fn is_hosted(app: &App, team: &TeamName) -> Result<bool> {
    let layout = app.layout.of_project(&workers::project_of(app, team)?);
    if TeamLock::is_held(&layout, team)? {
        return Ok(true);
    }
    let store = app.store()?;
    let host = store.current_host(team)?;
    let is_gone = |host: &OtherHost| {
        let process = host.process.as_ref();
        process.is_some_and(|process| store.life(process) == Life::Gone)
    };
    Ok(host.is_some_and(|host| !is_gone(&host)))
}

/// Opens the folder of a project. One that is gone is not made again: nothing of the work would be in it.
fn opened(project: &Path) -> Result<Dir> {
    Dir::open_root(project)?.ok_or_else(|| {
        AppError::not_found(format!("the project {} is not there", project.display()))
            .hint("the team works on that folder; bring it back, or remove the team")
    })
}

/// Returns the error for whoever would host a run that another process hosts.
pub fn busy() -> AppError {
    AppError::new(
        ErrorKind::Conflict,
        "another run works in this project, or another process hosts this team",
    )
    .hint("`teamster status` shows it; one run at a time works in a project")
}

/// Hosts a run of which this process has the lock, to its end or as far as it goes.
pub fn host(
    app: &App,
    team: &TeamName,
    spec: RunSpec,
    lock: ExclusiveLock,
    observer: &mut dyn RunObserver,
) -> Result<HostExit> {
    host_from(app, team, spec, HostStart::GoOn, lock, observer)
}

/// Whether a host goes on with the team's last run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostStart {
    /// It does, or shows how that ended.
    GoOn,
    /// It does unless that is over; then it begins another one.
    Anew,
}

fn host_from(
    app: &App,
    team: &TeamName,
    spec: RunSpec,
    start: HostStart,
    lock: ExclusiveLock,
    observer: &mut dyn RunObserver,
) -> Result<HostExit> {
    let project = workers::project_of(app, team)?;
    trace_log::begin(&project, team, None);
    #[cfg(debug_assertions)]
    if let Some(seq) = env_vars::get(env_vars::DIE_AT_EVENT)
        && let Ok(seq) = seq.to_string_lossy().parse()
    {
        teamster_fs::fail::die_at_event(seq);
    }
    #[cfg(debug_assertions)]
    if env_vars::get(env_vars::UNCHECKED_MERGES).is_some() {
        teamster_fs::fail::leave_merges_unchecked();
    }
    let store = match lock.store() {
        Some(store) => store,
        None => app.shared_store()?,
    };
    let done = with_environment(app, &*store, team, &spec.clone(), observer, |environment| {
        let collects = spec.collects;
        let mut host = Host::new(environment, team.clone(), spec);
        if collects && start == HostStart::Anew {
            host = host.beginning_anew();
        }
        host.run().map_err(|error| {
            tracing::error!("the run cannot go on: {error}");
            failed(team, collects, trace_log::of_host(&project, team), error)
        })
    })?;
    drop(lock);
    done
}

/// Gives `work` everything outside a team's run that a host works with.
fn with_environment<T>(
    app: &App,
    store: &dyn Store,
    team: &TeamName,
    spec: &RunSpec,
    observer: &mut dyn RunObserver,
    work: impl FnOnce(HostEnvironment<'_>) -> T,
) -> Result<T> {
    let project = workers::project_of(app, team)?;
    let layout = app.layout.of_project(&project);
    let dir = opened(&project)?;
    let machine = Machine::read();
    let teamster = launch::own_program();
    let launcher = Launcher {
        store: app.read()?,
        project: &project,
        teamster: &teamster,
        tmux: workers::tmux(&project),
        setup: workers::setup_time(app, &project),
        address: app.store_address()?,
    };
    let tmux = workers::tmux(&project).ok();
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let repo = match (&spec.base, spec.in_place) {
        (Some(_), false) => {
            let found = Git::find(&path).and_then(|git| Repo::find(&git, &project));
            Some(found.map_err(|error| AppError::refused(error.message).hint(error.hint))?)
        }
        _ => None,
    };
    let in_project = spec
        .in_place
        .then(|| Git::find(&path).and_then(|git| Repo::find(&git, &project)))
        .and_then(std::result::Result::ok);
    let trust = CurrentTrust::new(layout.clone());
    let environment = HostEnvironment {
        store,
        machine: &machine,
        layout: &layout,
        project: &dir,
        folder: &project,
        launcher: &launcher,
        tmux: tmux.as_ref(),
        repo: repo.as_ref().map(|found| &found.repo),
        project_repo: in_project.as_ref().map(|found| &found.repo),
        trust: &trust,
        limits: app.config.limits(),
        check_limit: CHECK_LIMIT,
        max_tasks: app.config.run_max_tasks.value,
        stop_deadline: STOP_DEADLINE,
        agent_limits: workers::unchecked(app, &project).config.rules(),
        leader: app.config.leader_bounds(),
        path: &path,
        observer,
    };
    Ok(work(environment))
}

/// A host that cannot go on has stopped its workers. What they did is kept, and another host takes the run up.
fn failed(team: &TeamName, collects: bool, trace: Option<String>, error: RunError) -> AppError {
    let error = match error {
        RunError::Store(error) => error.into(),
        RunError::Files(error) => error.into(),
        RunError::Git(error) => AppError::new(ErrorKind::Failed, error.message).hint(error.hint),
        RunError::NoRoom { message, hint } => AppError::new(ErrorKind::Failed, message).hint(hint),
        RunError::NotTrusted(error) => AppError::refused(error.message).hint(error.hint),
        RunError::Refused { message, hint } => {
            AppError::new(ErrorKind::Conflict, message).hint(hint)
        }
    };
    let what = error
        .advice()
        .map_or_else(String::new, |hint| format!("{hint}; "));
    let trace = trace.map_or_else(String::new, |trace| format!("; {trace} has every step"));
    let way_on = if collects {
        format!("`teamster merge {team}` goes on")
    } else {
        format!(
            "the workers were stopped, and what they did is kept; `teamster run --resume {team}` goes on"
        )
    };
    let hint = format!("{what}{way_on}{trace}");
    error.hint(hint)
}

/// Refuses to change a task to an agent: in a run that goes on any task, otherwise one that is not its own, and whose it is
/// in any case.
pub fn may_change_task(app: &App, team: &TeamName, id: &TaskId, edit: &Edit) -> Result {
    if edit.owner.is_some() {
        app.must_be_a_person("giving a task to somebody else")?;
    }
    if open_run(app, team)?.is_some() {
        return app.must_be_a_person("changing a task of a run");
    }
    if !app.is_below_bridge() {
        return Ok(());
    }
    let task = app.read()?.task(team, id)?;
    if task.owner() == Some(app.actor.name()) {
        return Ok(());
    }
    Err(AppError::refused(format!(
        "task {id} is not {}'s, and changing it is for people",
        app.actor.name()
    ))
    .hint("send a message to the lead instead: `teamster message send --to lead …`"))
}

/// Refuses to agents what the bridges of a run do for them: claiming tasks and saying how they ended. Otherwise an agent could
/// complete the task of another without doing it, or keep it from everybody.
pub fn may_hold_claims(app: &App, team: &TeamName) -> Result {
    if open_run(app, team)?.is_none() {
        return Ok(());
    }
    app.must_be_a_person("claiming and ending tasks of a run")
        .map_err(|error| {
            error
                .hint("your task is claimed for you, and is done when you end; `teamster ask` asks")
        })
}

/// Refuses to agents to change the tickets of their run: its phases wait for them.
pub fn may_change_tickets(app: &App) -> Result {
    if app.is_below_bridge() && open_run(app, &app.team(None)?)?.is_some() {
        return app.must_be_a_person("changing the tickets of a run");
    }
    Ok(())
}

/// Sends the tasks of a plan that name a role to those members of a run's team who have it. Other teams have no roles.
pub fn assign_roles(app: &App, team: &TeamName, plan: &mut Plan) -> Result {
    let Some(role) = plan.roles.iter().flatten().next() else {
        return Ok(());
    };
    let config = app.read()?.team(team)?;
    if config.run().is_none() {
        return Err(AppError::refused(format!(
            "a task of the plan is for the role {role}, and team {team} has no roles: it was not made by a run"
        ))
        .hint("name an owner instead"));
    }
    let spec = spec_of(app, team)?;
    if let Some(why) = nobody_can(&spec, plan) {
        return Err(AppError::refused(why).hint("change the plan"));
    }
    plan.assign_roles(&spec.members);
    Ok(())
}

/// Returns what the run of a team has come to; `None` when it has none, or one that is over.
fn open_run(app: &App, team: &TeamName) -> Result<Option<RunState>> {
    let read = app.read()?;
    let (state, _) = match read.team(team) {
        Ok(config) if config.run().is_some() => state_of(read, team)?,
        // Whether there is such a team is for the store to say.
        _ => return Ok(None),
    };
    // Merging what is finished changes nothing about who works on what.
    let collects = state.spec.as_ref().is_some_and(|spec| spec.collects);
    Ok((state.finished.is_none() && !collects).then_some(state))
}

/// Refuses to add tasks to a run that goes on: a worker proposes them, and nobody adds more than the run would follow.
pub fn may_add_tasks(app: &App, team: &TeamName, count: usize) -> Result {
    let Some(state) = open_run(app, team)? else {
        return Ok(());
    };
    app.must_be_a_person("adding a task to a run, or letting one begin anew,")?;
    let most = app.config.run_max_tasks.value;
    if state.added.len() + count <= most {
        return Ok(());
    }
    Err(AppError::refused(format!(
        "{} tasks were added to the run of {team}, and the setting run.max_tasks allows {most}",
        state.added.len()
    ))
    .hint("wait for its end and run the rest by itself, or raise the setting before a run begins"))
}
