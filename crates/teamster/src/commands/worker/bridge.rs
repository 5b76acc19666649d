//! `teamster worker bridge`: the worker's own process, started by `worker start`

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use teamster_agents::{ClaudeDriver, Provider, ProviderKind};
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, layout};
use teamster_isolate::detached;
use teamster_store::{Clock as _, FileStore, Store, SystemClock};
use teamster_types::{TeamName, WorkerName};
use teamster_workers::bridge::{self as worker, BridgeConfig, BridgeError};
use teamster_workers::record::{WorkerBackend, WorkerLock, WorkerSpec};

use teamster_workers::{launch, reclaim};

use super::{meter, place, wanted as known};
use crate::context::Context;
use crate::env_vars;
use crate::error::{CommandError, ErrorKind, Result};
use crate::trust::{self, Plan, Unknown};

/// Be a worker's own process
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct Bridge {
    #[arg(long)]
    team: String,
    #[arg(long)]
    name: String,
    #[arg(long)]
    provider: String,
    #[arg(long)]
    model: Option<String>,
    #[arg(long, default_value = "process")]
    backend: String,
    #[arg(long)]
    in_place: bool,
    #[arg(long, default_value_t = 0)]
    restarts: u32,
    /// A file with the environment to begin anew with
    #[arg(long)]
    environment: Option<PathBuf>,
}

impl Bridge {
    pub fn run(self, context: &Context) -> Result {
        if let Some(file) = &self.environment {
            return Err(begin_anew(file));
        }
        let team: TeamName = self.team.parse()?;
        let worker: WorkerName = self.name.parse()?;
        let wanted = WorkerSpec {
            team,
            worker,
            provider: self.provider,
            model: self.model,
            in_place: self.in_place,
            backend: if self.backend == WorkerBackend::Tmux.as_str() {
                WorkerBackend::Tmux
            } else {
                WorkerBackend::Process
            },
        };
        detached::own_session();
        let launch = env_vars::text(env_vars::LAUNCH).unwrap_or_else(teamster_fs::random_hex);
        be(context, wanted, launch, self.restarts)
    }
}

/// In a pane the environment is the terminal server's. Ours is in a file; with it we begin once more.
fn begin_anew(file: &Path) -> CommandError {
    let environment = match launch::take_environment(file) {
        Ok(environment) => environment,
        Err(error) => return error.into(),
    };
    let mut words = std::env::args_os().skip(1);
    let mut args = Vec::new();
    while let Some(word) = words.next() {
        if word == "--environment" {
            words.next();
        } else {
            args.push(word);
        }
    }
    let terminal = ["TERM", env_vars::TMUX, env_vars::TMUX_PANE];
    let mut all: Vec<_> = environment;
    all.retain(|(name, _)| !terminal.iter().any(|own| name == own));
    all.extend(
        terminal
            .iter()
            .filter_map(|name| Some(((*name).into(), std::env::var_os(name)?))),
    );
    let error = detached::become_program(&launch::own_program(), &args, &all);
    CommandError::new(
        ErrorKind::Failed,
        format!("the worker could not begin: {error}"),
    )
}

/// Is the worker until it is told to stop.
pub fn be(context: &Context, wanted: WorkerSpec, launch: String, restarts: u32) -> Result {
    let project = known::project(context, &wanted.team)?;
    let settings = known::settings(context, &project)?;
    let config = &settings.config;
    let provider = settings.provider(&wanted.provider)?;
    // Whoever started this has asked; but what was read then need not be what is read now.
    let driver = provider.driver();
    let plan = Plan {
        provider: &provider,
        script: driver.script(),
        has_worktree: !wanted.in_place,
    };
    trust::require(context, &settings.layout, config, &plan, Unknown::Refuse)?;
    let store = FileStore::open(
        &context.layout,
        Arc::new(SystemClock),
        config.store_settings(),
    )?;
    let store: Arc<dyn Store> = Arc::new(store);
    // The seat first: the worktree of a worker that runs is nobody else's to make ready.
    let team_folder = known::team_folder(context, &wanted.team)?;
    let seat = WorkerLock::take(&team_folder, &wanted.worker)?
        .ok_or_else(|| known::runs_already(&wanted.team, &wanted.worker))?;
    clear_away(store.as_ref(), &wanted, &project)?;
    let workplace = place::plan(context, &wanted, &project)?;
    let exported = exported(context, &wanted, &project, &provider)?;
    let wanted = WorkerSpec {
        model: wanted.model.or(provider.model.clone()),
        ..wanted
    };
    let order = meter::order(store.as_ref(), &wanted.team);
    let told = meter::told(order.as_ref(), &wanted.worker);
    let may_begin = meter::may_begin(order.as_ref(), &store, &wanted.team);
    let bridge = worker::Bridge::open(BridgeConfig {
        store,
        lock: seat,
        project,
        spec: wanted,
        restarts,
        provider: provider.name.clone(),
        driver,
        instructions: told,
        may_begin,
        permissions: config.permissions(),
        workplace,
        limits: config.rules(),
        launch,
        exported,
        teamster: launch::own_program(),
        output: Box::new(|text| {
            let now = SystemClock.now();
            let text = crate::shown::viewed(text);
            let _ = writeln!(std::io::stdout().lock(), "{now} {text}");
        }),
    });
    bridge
        .and_then(worker::Bridge::run)
        .map_err(|error| match error {
            BridgeError::Store(error) => error.into(),
            BridgeError::Files(error) => error.into(),
            BridgeError::Place(_) => CommandError::refused(error.to_string()),
        })
}

/// Ends what an earlier process of this worker left behind. An agent that lives on would change files under the next one.
fn clear_away(store: &dyn Store, wanted: &WorkerSpec, project: &Path) -> Result {
    let dir = Dir::open_or_create_root(project)?;
    let machine = Machine::read();
    let reclaimed =
        reclaim::reclaim_predecessor(store, &machine, &dir, &wanted.team, &wanted.worker)?;
    match reclaimed.left {
        None => Ok(()),
        Some(still) => Err(CommandError::new(
            ErrorKind::Conflict,
            format!("an earlier launch of {} goes on: {still}", wanted.worker),
        )
        .hint("the system itself holds these processes; look at them with `ps`")),
    }
}

/// Variables of the agent that its driver cannot know.
fn exported(
    context: &Context,
    wanted: &WorkerSpec,
    project: &Path,
    provider: &Provider,
) -> Result<Vec<(OsString, OsString)>> {
    let mut exported: Vec<(OsString, OsString)> = vec![
        (
            "TEAMSTER_CLAUDE_DIR".into(),
            context.layout.claude.clone().into_os_string(),
        ),
        ("TEAMSTER_PROJECT".into(), project.into()),
    ];
    // A login lives in the user's own folder; a copy of it would end as soon as one of the two is renewed.
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
