//! The process of a worker: the checks before it starts, and its setup.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use teamster_agents::{ClaudeDriver, Provider, ProviderKind};
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, layout};
use teamster_store::Store;
use teamster_types::process::ProcessState;
use teamster_types::team::TeamOrigin;
use teamster_workers::alerts::EndAlerts;
use teamster_workers::bridge::{self as worker, AgentSetup, BridgeConfig, BridgeError};
use teamster_workers::record::{WorkerLock, WorkerSpec};
use teamster_workers::{launch, reclaim};

use super::{member, meter, place, project_of, runs_already, settings, team_folder};
use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};
use crate::trace_log;
use crate::trust::{self, PlannedStart, UntrustedPolicy};

/// A worker without a heartbeat for this long is considered stopped.
const BEATS: Duration = Duration::from_secs(30);

/// A function that receives progress messages of a worker.
pub type ProgressFn = Box<dyn FnMut(&str) + Send>;

/// Runs the worker in this process until it is asked to stop. `say` receives progress messages.
pub fn run_worker(
    app: &App,
    wanted: WorkerSpec,
    launch: String,
    restarts: u32,
    mut say: ProgressFn,
) -> Result {
    let project = project_of(app, &wanted.team)?;
    let settings = settings(app, &project)?;
    let config = &settings.config;
    let provider = settings.provider(&wanted.provider)?;
    // The parent process has checked this, but the content may have changed since.
    let driver = provider.driver();
    let plan = PlannedStart {
        provider: &provider,
        script: driver.script(),
        has_worktree: !wanted.in_place,
    };
    trust::require(
        app,
        &settings.layout,
        config,
        &plan,
        UntrustedPolicy::Refuse,
    )?;
    let store = app
        .choose_store()?
        .open_for_worker(app, config.store_settings())?;
    // The lock is taken first: the worktree of a running worker must not be touched by another process.
    let team_folder = team_folder(app, &wanted.team)?;
    let lock = WorkerLock::take(&team_folder, &wanted.worker)?
        .ok_or_else(|| runs_already(&wanted.team, &wanted.worker))?;
    let seen = match app.layout.database {
        Some(_) => refuse_elsewhere(store.as_ref(), &wanted)?,
        None => None,
    };
    trace_log::begin(&project, &wanted.team, Some(&wanted.worker));
    let alerts = EndAlerts::below(&app.layout.claude);
    end_leftovers(store.as_ref(), &wanted, &project, &alerts)?;
    if store.team(&wanted.team)?.kind() == TeamOrigin::Claude {
        let member = member(&wanted.worker, &provider);
        store.enlist(&wanted.team, &member)?;
    }
    let workplace = place::plan(app, &wanted, &project)?;
    let exported = agent_environment(app, &wanted, &project, &provider)?;
    let wanted = WorkerSpec {
        model: wanted.model.or(provider.model.clone()),
        ..wanted
    };
    let spec = meter::run_spec(store.as_ref(), &wanted.team);
    let (prompts, broken) = trust::accepted_prompts(&settings.layout, config)?;
    if let Some(error) = broken {
        say(&format!("uses the built-in prompts: {error}"));
    }
    let may_begin = meter::may_begin(spec.as_ref(), &store, &wanted.team);
    let bridge = worker::Bridge::open(BridgeConfig {
        store,
        alerts,
        lock,
        seen,
        project,
        restarts,
        provider: provider.name.clone(),
        agent: AgentSetup {
            driver: Arc::from(driver),
            model: wanted.model.clone(),
            permissions: config.permissions(),
            exported,
            teamster: launch::own_program(),
            path: env_vars::get(env_vars::PATH).unwrap_or_default(),
        },
        prompts,
        spec: wanted,
        may_begin,
        questions_to: meter::questions_to(spec.as_ref()),
        workplace,
        limits: config.rules(),
        launch,
        output: say,
    });
    bridge
        .and_then(worker::Bridge::run)
        .map_err(|error| match error {
            BridgeError::Store(error) => error.into(),
            BridgeError::Files(error) => error.into(),
            BridgeError::Place(_) => AppError::refused(error.to_string()),
            BridgeError::Stopped(_) => AppError::new(ErrorKind::Conflict, error.to_string()),
        })
}

/// Refuses the name of a worker that local locks cannot exclude: its process is not proven gone, and its heartbeat is
/// recent by the store's clock. Returns the launch whose heartbeats have ended.
fn refuse_elsewhere(store: &dyn Store, wanted: &WorkerSpec) -> Result<Option<String>> {
    let (beats, _) = store.heartbeats(&wanted.team)?;
    let beat = beats
        .iter()
        .find(|beat| beat.worker_name == wanted.worker && beat.launch.is_some());
    let Some(beat) = beat else {
        return Ok(None);
    };
    let process = beat.process();
    let is_gone =
        process.is_some_and(|process| store.process_state(&process) == ProcessState::Gone);
    if is_gone || store.now().since(beat.last_poll_at) >= BEATS {
        return Ok(beat.launch.clone());
    }
    Err(runs_already(&wanted.team, &wanted.worker))
}

/// Ends what an earlier process of this worker left behind. A surviving agent would change files under the next one.
fn end_leftovers(
    store: &dyn Store,
    wanted: &WorkerSpec,
    project: &Path,
    alerts: &EndAlerts,
) -> Result {
    let dir = Dir::open_or_create_root(project)?;
    let machine = Machine::read();
    let reclaimed =
        reclaim::reclaim_predecessor(store, &machine, &dir, &wanted.team, &wanted.worker, alerts)?;
    match reclaimed.left {
        None => Ok(()),
        Some(still) => Err(AppError::new(
            ErrorKind::Conflict,
            format!(
                "an earlier launch of {} is still running: {still}",
                wanted.worker
            ),
        )
        .hint("the system itself holds these processes; look at them with `ps`")),
    }
}

/// Returns environment variables of the agent that its driver cannot know.
fn agent_environment(
    app: &App,
    wanted: &WorkerSpec,
    project: &Path,
    provider: &Provider,
) -> Result<Vec<(OsString, OsString)>> {
    let mut exported: Vec<(OsString, OsString)> = vec![
        (
            "TEAMSTER_CLAUDE_DIR".into(),
            app.layout.claude.clone().into_os_string(),
        ),
        ("TEAMSTER_PROJECT".into(), project.into()),
    ];
    // A login is kept in the user's own folder; a copy would become invalid as soon as either is renewed.
    if provider.kind == ProviderKind::Claude && ClaudeDriver::has_credentials(env_vars::get) {
        let mut folder = Dir::open_or_create_root(project)?.child_or_create(layout::OMC)?;
        for name in layout::agent_folders(&wanted.team, &wanted.worker) {
            folder = folder.child_or_create(name)?;
        }
        let folder = folder.child_or_create(layout::AGENT_CLAUDE)?;
        exported.push(("CLAUDE_CONFIG_DIR".into(), folder.path().into()));
    }
    Ok(exported)
}
