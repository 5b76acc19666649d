//! Workers: finding, starting and stopping them, and the bridge process of each.

mod bridge;
mod machines;
mod meter;
mod native;
mod place;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use teamster_agents::detect;
use teamster_agents::scripted::Script;
use teamster_agents::{Provider, ProviderKind};
use teamster_fs::layout::{self, Layout};
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, team_store};
use teamster_isolate::tmux::{Tmux, TmuxError};
use teamster_journal::payload::StopLevel;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::process::ProcessState;
use teamster_types::team::{NewMember, TeamMember, TeamOrigin};
use teamster_types::{TeamName, WorkerName};
use teamster_view::workers::Workers;
use teamster_workers::alerts::EndAlerts;
use teamster_workers::launch::{self, Launcher};
use teamster_workers::record::{self, LaunchRecord};
use teamster_workers::shutdown::{ShutdownCoordinator, ShutdownRequest, StoppedWorker};

use crate::app::App;
use crate::config::Config;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};
use crate::runs;
pub use bridge::{ProgressFn, run_worker};
pub use machines::{JoinRequest, JoinedPlace, join_place};

/// A worker, and its team's project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedWorker {
    /// The team.
    pub team: TeamName,
    /// The worker.
    pub worker: WorkerName,
    /// The folder that the team works on.
    pub project: PathBuf,
}

/// Finds a worker of a team; an error when the team has no such worker.
pub fn find(app: &App, team: TeamName, worker: &str) -> Result<NamedWorker> {
    let worker: WorkerName = worker.parse()?;
    let config = app.read()?.team(&team)?;
    let members = config.members();
    if !members.iter().any(|member| member.name == worker.as_str()) {
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        return Err(
            AppError::not_found(format!("team {team} has no worker {worker}")).hint(
                match names.as_slice() {
                    [] => "it has none; `teamster worker start --name NAME` starts one".to_owned(),
                    names => format!("it has {}", names.join(", ")),
                },
            ),
        );
    }
    Ok(NamedWorker {
        project: project_of(app, &team)?,
        team,
        worker,
    })
}

impl NamedWorker {
    /// Returns the record of its launch, if there is one.
    pub fn record(&self) -> Result<Option<LaunchRecord>> {
        match Dir::open_root(&self.project)? {
            Some(project) => Ok(record::read(&project, &self.team, &self.worker)?),
            None => Ok(None),
        }
    }
}

/// Returns the project that a team works on.
pub fn project_of(app: &App, team: &TeamName) -> Result<PathBuf> {
    let config = app.read()?.team(team)?;
    let layout = &app.layout;
    // The path in the registry belongs to the machine that created the team; on this machine, the current project
    // counts if it records that it belongs to the team.
    if layout.database.is_some()
        && team_store::is_noted(&layout.project, team, &layout.store_note())
    {
        return Ok(layout.project.clone());
    }
    let told = config.project().map(PathBuf::from);
    let is_here = |project: &PathBuf| layout.database.is_none() || project.is_dir();
    Ok(told
        .filter(is_here)
        .unwrap_or_else(|| layout.project.clone()))
}

/// Returns the folder that a team has on this machine.
pub fn team_folder(app: &App, team: &TeamName) -> Result<Dir> {
    if app.layout.database.is_some() {
        app.read()?.team(team)?;
    }
    let missing = || AppError::not_found(format!("there is no team {team}"));
    team_store::team_folder(&app.layout, team)?.ok_or_else(missing)
}

/// Returns the error for starting a worker that is already running.
pub fn runs_already(team: &TeamName, worker: &WorkerName) -> AppError {
    AppError::new(
        ErrorKind::Conflict,
        format!("{worker} of team {team} is already running, in another process"),
    )
    .hint("`teamster worker list` shows it; `teamster worker stop` stops it")
}

/// The settings for a team's project, which may differ from the current folder's.
pub struct ProjectSettings<'a> {
    /// The paths of the project.
    pub layout: Layout,
    /// The settings.
    pub config: Cow<'a, Config>,
}

/// Reads the settings of a project; an invalid value is an error.
pub fn settings<'a>(app: &'a App, project: &Path) -> Result<ProjectSettings<'a>> {
    let settings = unchecked(app, project);
    settings.config.check()?;
    Ok(settings)
}

/// Reads the settings of a project, with defaults for invalid values.
pub(crate) fn unchecked<'a>(app: &'a App, project: &Path) -> ProjectSettings<'a> {
    let layout = app.layout.of_project(project);
    let config = if project == app.layout.project {
        Cow::Borrowed(&app.config)
    } else {
        Cow::Owned(Config::load(&layout))
    };
    ProjectSettings { layout, config }
}

impl ProjectSettings<'_> {
    /// Returns the provider with this name.
    pub fn provider(&self, word: &str) -> Result<Provider> {
        let mut providers = self.config.providers(&self.layout.project);
        providers.named(word).map_err(|error| {
            AppError::usage(error.to_string())
                .hint("`teamster config show` lists providers of your own; `teamster worker start --help` the others")
        })
    }
}

/// Checks that the agent of a provider can be started: its client is installed, or its script is valid. The error is
/// reported when a worker is started, instead of failing its first task.
pub fn check_agent(provider: &Provider) -> Result {
    match &provider.kind {
        ProviderKind::Command(_) => Ok(()),
        ProviderKind::Scripted(file) => match Script::read(file) {
            Ok(_) => Ok(()),
            Err(error) => Err(AppError::usage(error.to_string())
                .hint("docs/scripted.md shows what a script looks like")),
        },
        ProviderKind::Claude | ProviderKind::Codex | ProviderKind::Gemini => {
            let path = env_vars::get(env_vars::PATH).unwrap_or_default();
            let (client, found) = (provider.kind.word(), detect::found(&path));
            if found.iter().any(|found| found == client) {
                return Ok(());
            }
            let install = detect::how_to_install(client).unwrap_or("install it");
            let others = match found.as_slice() {
                [] => "command:PROGRAM or scripted:FILE".to_owned(),
                found => format!("{}, command:PROGRAM or scripted:FILE", found.join(", ")),
            };
            Err(
                AppError::refused(format!("{client} is not installed, or not in PATH")).hint(
                    format!("{install}; or start the worker with another --provider: {others}"),
                ),
            )
        }
    }
}

/// Returns a worker as a member of its team.
fn member(worker: &WorkerName, provider: &Provider) -> NewMember {
    NewMember {
        name: worker.clone(),
        provider: provider.name.clone(),
        capabilities: Some(provider.capabilities.clone()),
    }
}

/// Makes a worker that is about to be started a member of its team. In a team of Claude Code it is a member only while
/// it runs, so there it joins by itself; here it is only checked that its name is free.
pub fn join(app: &App, team: &TeamName, worker: &WorkerName, provider: &Provider) -> Result {
    let config = app.read()?.team(team)?;
    if config.kind() == TeamOrigin::Teamster {
        app.store()?.join_team(team, &member(worker, provider))?;
        return Ok(());
    }
    let is_its = |member: &TeamMember| {
        member.name == worker.as_str() && member.is_clients(TeamOrigin::Claude)
    };
    if config.members().iter().any(is_its) {
        return Err(AppError::new(
            ErrorKind::Conflict,
            format!("{worker} is a teammate of Claude Code in team {team}"),
        )
        .hint("give the worker another name with --name"));
    }
    Ok(())
}

/// Returns teamster's own tmux server for a project.
pub fn tmux(project: &Path) -> std::result::Result<Tmux, TmuxError> {
    let run_folder = env_vars::get(env_vars::RUN_FOLDER).map(PathBuf::from);
    let socket = layout::tmux_socket(project, run_folder.as_deref());
    Tmux::find(&env_vars::get(env_vars::PATH).unwrap_or_default(), &socket)
}

/// Returns how long a worker may take to prepare its worktree before its first heartbeat. Commands that only stop
/// workers accept invalid settings; a worker that starts validates them itself.
pub fn setup_time(app: &App, project: &Path) -> Duration {
    let settings = unchecked(app, project);
    let config = &settings.config;
    let copies = !config.worktree_link.value.is_empty() && !config.worktree_link_writable.value;
    if copies || !config.worktree_setup.value.is_empty() {
        config.worktree_setup_limit.value
    } else {
        Duration::ZERO
    }
}

/// Returns the workers of a team. The backend of a worker is taken from its launch record, because another program may
/// own the registry.
pub fn list(app: &App, team: &TeamName) -> Result<Workers> {
    let read = app.read()?;
    let (config, limits) = (read.team(team)?, app.config.limits());
    let mut found =
        teamster_view::workers::list_beside_sessions(read, &app.layout, team, &config, &limits)?;
    if let Some(project) = Dir::open_root(&project_of(app, team)?)? {
        for row in &mut found.rows {
            if let Ok(worker) = row.name.parse()
                && let Ok(Some(record)) = record::read(&project, team, &worker)
            {
                record
                    .spec
                    .backend
                    .as_str()
                    .clone_into(&mut row.backend_type);
            }
        }
    }
    Ok(found)
}

/// Starts a worker, and returns its first heartbeat.
pub fn start(
    app: &App,
    wanted: &record::WorkerSpec,
    project: &Path,
    restarts: u32,
) -> Result<teamster_types::heartbeat::Heartbeat> {
    let teamster = launch::own_program();
    let launcher = Launcher {
        store: app.read()?,
        project,
        teamster: &teamster,
        tmux: tmux(project),
        setup: setup_time(app, project),
        address: app.store_address()?,
    };
    launcher.start(wanted, restarts).map_err(|error| {
        let kind = match &error {
            launch::LaunchError::Files(_) | launch::LaunchError::Store(_) => ErrorKind::Unreachable,
            _ => ErrorKind::Failed,
        };
        let hint = "`teamster worker start --foreground` shows what it does";
        AppError::new(kind, error.to_string()).hint(hint)
    })
}

/// A request to stop workers.
#[derive(Clone, Debug)]
pub struct StopRequest {
    /// The team.
    pub team: TeamName,
    /// The only worker to stop; `None` for all.
    pub only: Option<WorkerName>,
    /// Whether current tasks are finished first.
    pub drain: bool,
    /// Whether to stop workers without asking them first.
    pub force: bool,
    /// How long they have to stop by themselves.
    pub deadline: Duration,
}

impl StopRequest {
    fn level(&self) -> StopLevel {
        match (self.force, self.drain) {
            (true, _) => StopLevel::Kill,
            (false, true) => StopLevel::Drain,
            (false, false) => StopLevel::Stop,
        }
    }
}

/// Stops workers, and returns how each ended. `tell` receives progress messages while waiting.
///
/// When a whole team with a host is stopped, the host is asked first, so that it marks the run as cancelled and
/// replaces no worker; it has ended when this returns.
pub fn stop(
    app: &App,
    request: StopRequest,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<StoppedWorker>> {
    let config = app.read()?.team(&request.team)?;
    if config.kind() == TeamOrigin::Claude {
        return native::stop(app, &config, &request, tell);
    }
    let (level, deadline) = (request.level(), request.deadline);
    let team = request.team.clone();
    let is_hosted =
        request.only.is_none() && runs::ask_host(app, &team, level, false, Some(deadline))?;
    let ends = stop_ours(app, request, tell)?;
    if is_hosted {
        runs::wait_for_host(app, &team, level, deadline, tell)?;
    }
    Ok(ends)
}

/// Returns the living members of a team that cannot be ended from here, with the evidence: those on other machines, and
/// processes that teamster did not start.
pub fn unreachable_members(app: &App, team: &TeamName) -> Result<Vec<String>> {
    let project = project_of(app, team)?;
    let Some(dir) = Dir::open_root(&project)? else {
        return Ok(Vec::new());
    };
    let machine = Machine::read();
    let read = app.read()?;
    let config = read.team(team)?;
    let records = record::all(&dir, team)?;
    let (beats, _) = read.heartbeats(team)?;
    let living = teamster_view::teams::alive(read, team, &config)?.into_iter();
    let beyond = living.filter(|alive| {
        let host = config.host().filter(|_| alive.is_host());
        if let Some(host) = host {
            return machine.process_state(&host) != ProcessState::Alive;
        }
        let is_recorded = records
            .iter()
            .any(|record| record.spec.worker.as_str() == alive.name);
        let beat = beats
            .iter()
            .find(|beat| beat.worker_name.as_str() == alive.name);
        let is_launched = beat.is_some_and(|beat| beat.launch.is_some());
        let process = beat.and_then(Heartbeat::process);
        match process.map_or(ProcessState::Alive, |process| {
            machine.process_state(&process)
        }) {
            // Only its heartbeat is left, which is removed with the team.
            ProcessState::Gone => false,
            ProcessState::Unknown => true,
            ProcessState::Alive => !(is_recorded || is_launched),
        }
    });
    Ok(beyond.map(|alive| alive.to_string()).collect())
}

/// Stops workers that teamster started.
fn stop_ours(
    app: &App,
    request: StopRequest,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<StoppedWorker>> {
    let project = project_of(app, &request.team)?;
    let Some(dir) = Dir::open_root(&project)? else {
        return Ok(Vec::new());
    };
    let machine = Machine::read();
    let tmux = tmux(&project)
        .inspect_err(|error| tracing::debug!("panes are not checked: {error}"))
        .ok();
    let mut stopping = ShutdownCoordinator {
        store: app.store()?,
        machine: &machine,
        project: &dir,
        alerts: EndAlerts::below(&app.layout.claude),
        tmux: tmux.as_ref(),
        tell,
        hurry: &teamster_workers::shutdown::never_hurry,
    };
    Ok(stopping.run(&ShutdownRequest {
        team: request.team,
        only: request.only,
        actor: app.actor.recorded_as(),
        reason: "a person asked for it".to_owned(),
        drain: request.drain,
        force: request.force,
        deadline: request.deadline,
    })?)
}

/// Removes the records of dead workers of a team that was deleted: a later team of that name would start them again.
pub fn forget_dead_launches(app: &App, project: &Path, team: &TeamName) -> Result {
    let Some(project) = Dir::open_root(project)? else {
        return Ok(());
    };
    for record in record::all(&project, team)? {
        if app.read()?.process_state(&record.process) == ProcessState::Gone {
            record::remove(&project, team, &record.spec.worker, &record.launch)?;
        }
    }
    Ok(())
}
