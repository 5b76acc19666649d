//! Runs: from a request to a host that carries it out.
//!
//! [`prepare`] finds all problems of a request before anything is created, [`PreparedRun::create`] creates the team,
//! and [`host`] carries out the run. An existing run is continued with [`resume`]; [`begin_detached`] lets another
//! process host it.

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
use teamster_store::{OtherHost, ReadStore, Store};
use teamster_types::flow::Stage;
use teamster_types::process::ProcessState;
use teamster_types::transitions::TaskEdit;
use teamster_types::{TaskId, TeamName};
use teamster_workers::launch::{self, Launcher};

use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};
use crate::presets::Presets;
use crate::prompts::PromptFiles;
use crate::trace_log;
use crate::trust::{self, CurrentTrust, UntrustedPolicy};
use crate::workers;
pub use cancel::cancel;
pub(crate) use cancel::{ask_host, wait_for_host};
pub use detached::{DetachedHost, begin_detached};
pub use merge::{MergeStart, ReadyMerge, merge};
pub use prepare::{PreparedRun, RunRequest, StartedRun, prepare};

/// The time limit of one check.
const CHECK_LIMIT: Duration = Duration::from_secs(30 * 60);
/// How long workers may take to stop.
const STOP_DEADLINE: Duration = Duration::from_secs(60);
/// The number of events that are read at once.
const PAGE: usize = 1_000;

/// The changes for an existing run when it is resumed.
#[derive(Clone, Debug)]
pub struct ResumeRequest {
    /// The team.
    pub team: TeamName,
    /// Limits that replace those of the run.
    pub budget: Budget,
    /// The new maximum number of fix rounds.
    pub max_fix: Option<u32>,
    /// Who decides at the gate from now on.
    pub approve: Option<Approve>,
    /// Whether the merged work is reviewed from now on.
    pub review: Option<ReviewMode>,
    /// How to treat commands of the project that were not accepted yet.
    pub unknown: UntrustedPolicy,
}

/// Checks that an existing run can be resumed, and returns its specification.
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
    if will_work(app, team)? {
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

/// Returns whether a resumed run continues to work. At the gate it only waits for a person or carries out their
/// decision, and rejecting the work must be possible without trusting the project.
fn will_work(app: &App, team: &TeamName) -> Result<bool> {
    let (state, _) = state_of(app.read()?, team)?;
    Ok(!state.is_over_for_good() && state.stage != Some(Stage::Approval))
}

/// Returns the state of a run according to its journal, and the position of the last event.
pub fn state_of(from: &dyn ReadStore, team: &TeamName) -> Result<(RunState, u64)> {
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
            format!("the run specification of team {team} cannot be read: {error}"),
        )
        .hint("look at config.json of the team; a newer teamster may have written it")
    })
}

/// Requires that the user accepts the project's commands before an existing run continues.
pub fn require_trust(
    app: &App,
    team: &TeamName,
    spec: &RunSpec,
    unknown: UntrustedPolicy,
) -> Result {
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

/// Takes the lock of a team's host; `None` when another process holds it, or another run works in the project.
pub fn lock(app: &App, team: &TeamName) -> Result<Option<ExclusiveLock>> {
    let project = workers::project_of(app, team)?;
    let dir = open_project(&project)?;
    let Some(lock) = ProjectLock::take(&dir)? else {
        return Ok(None);
    };
    match lock.with_team(&app.layout.of_project(&project), team)? {
        Some(lock) => with_hosting_right(app, team, lock),
        None => Ok(None),
    }
}

/// Also acquires the store's right to host the team; returns `None` when another process has it, on any machine.
fn with_hosting_right(
    app: &App,
    team: &TeamName,
    lock: ExclusiveLock,
) -> Result<Option<ExclusiveLock>> {
    Ok(lock.with_hosting_right(&app.shared_store()?, team)?.ok())
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
        process.is_some_and(|process| store.process_state(process) == ProcessState::Gone)
    };
    Ok(host.is_some_and(|host| !is_gone(&host)))
}

/// Opens the folder of a project. A missing one is not created again, because it would not contain the work.
fn open_project(project: &Path) -> Result<Dir> {
    Dir::open_root(project)?.ok_or_else(|| {
        AppError::not_found(format!(
            "the project folder {} does not exist",
            project.display()
        ))
        .hint("the team works on that folder; restore it, or remove the team")
    })
}

/// Returns the error for a run that another process already hosts.
pub fn busy() -> AppError {
    AppError::new(
        ErrorKind::Conflict,
        "another run works in this project, or another process hosts this team",
    )
    .hint("`teamster status` shows it; one run at a time works in a project")
}

/// Hosts a run whose lock this process holds, until it ends or has to stop.
pub fn host(
    app: &App,
    team: &TeamName,
    spec: RunSpec,
    lock: ExclusiveLock,
    observer: &mut dyn RunObserver,
) -> Result<HostExit> {
    host_from(app, team, spec, HostStart::GoOn, lock, observer)
}

/// Whether a host continues the team's last run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostStart {
    /// It continues that run, or shows how it ended.
    GoOn,
    /// It continues that run unless it has ended; then it begins another one.
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
            host = host.with_new_run();
        }
        host.run().map_err(|error| {
            tracing::error!("the run cannot go on: {error}");
            failed(team, collects, trace_log::of_host(&project, team), error)
        })
    })?;
    drop(lock);
    done
}

/// Calls `work` with the environment that a host needs besides the run itself.
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
    let dir = open_project(&project)?;
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

/// Returns the error of a host that cannot continue. It has stopped its workers; their work is kept, and another host
/// can resume the run.
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
    let trace = trace.map_or_else(String::new, |trace| format!("; log: {trace}"));
    let way_on = if collects {
        format!("merge again: `teamster merge {team}`")
    } else {
        format!(
            "the workers were stopped, and what they did is kept; \
             resume: `teamster run --resume {team}`"
        )
    };
    let hint = format!("{what}{way_on}{trace}");
    error.hint(hint)
}

/// Refuses an agent's change to a task: to any task while a run is in progress, otherwise to tasks of others, and to
/// the assignment in any case.
pub fn may_change_task(app: &App, team: &TeamName, id: &TaskId, edit: &TaskEdit) -> Result {
    if edit.owner.is_some() {
        app.must_be_a_person("assigning a task")?;
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
        "task {id} does not belong to {}, and changing it is for people",
        app.actor.name()
    ))
    .hint("send a message to the lead instead: `teamster message send --to lead …`"))
}

/// Refuses agents the claim operations that the bridges of a run perform for them. Otherwise an agent could complete
/// another agent's task without doing it, or block it for everyone.
pub fn may_hold_claims(app: &App, team: &TeamName) -> Result {
    if open_run(app, team)?.is_none() {
        return Ok(());
    }
    app.must_be_a_person("claiming and ending tasks of a run")
        .map_err(|error| {
            error
                .hint("your task is claimed for you and completed when you finish; `teamster ask` asks a question")
        })
}

/// Refuses agents to change the tickets of their run, because its phases depend on them.
pub fn may_change_tickets(app: &App) -> Result {
    if app.is_below_bridge() && open_run(app, &app.team(None)?)?.is_some() {
        return app.must_be_a_person("changing the tickets of a run");
    }
    Ok(())
}

/// Assigns the tasks of a plan that name a role to the members of the run with that role. Other teams have no roles.
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

/// Returns the state of a team's run; `None` when it has none, or only a finished one.
fn open_run(app: &App, team: &TeamName) -> Result<Option<RunState>> {
    let read = app.read()?;
    let (state, _) = match read.team(team) {
        Ok(config) if config.run().is_some() => state_of(read, team)?,
        // Whether the team exists is checked by the store.
        _ => return Ok(None),
    };
    // Merging finished work does not affect the assignment of tasks.
    let collects = state.spec.as_ref().is_some_and(|spec| spec.collects);
    Ok((state.finished.is_none() && !collects).then_some(state))
}

/// Refuses to add tasks to a run in progress by agents, which may only propose them, and beyond the limit of the run.
pub fn may_add_tasks(app: &App, team: &TeamName, count: usize) -> Result {
    let Some(state) = open_run(app, team)? else {
        return Ok(());
    };
    app.must_be_a_person("adding a task to a run, or restarting one,")?;
    let most = app.config.run_max_tasks.value;
    if state.added.len() + count <= most {
        return Ok(());
    }
    Err(AppError::refused(format!(
        "{} tasks were added to the run of {team}, and the setting run.max_tasks allows {most}",
        state.added.len()
    ))
    .hint(
        "wait until it ends and run the rest separately, or raise the setting before a run begins",
    ))
}
