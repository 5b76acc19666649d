//! Implements `teamster worker bridge`, the worker's own process, which `worker start` starts.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use teamster_app::env_vars;
use teamster_app::workers::{self, ProgressFn};
use teamster_isolate::detached;
use teamster_store::{Clock as _, SystemClock};
use teamster_types::{TeamName, WorkerName};
use teamster_workers::launch;
use teamster_workers::record::{WorkerBackend, WorkerSpec};

use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::display_text;

/// Be a worker's own process
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct WorkerBridgeArgs {
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
    #[arg(long)]
    repo: Option<String>,
    #[arg(long, default_value_t = 0)]
    restarts: u32,
    /// A file with the environment to begin anew with
    #[arg(long)]
    environment: Option<PathBuf>,
}

impl WorkerBridgeArgs {
    pub fn run(self, context: &Context) -> Result {
        if let Some(file) = &self.environment {
            return Err(reexecute(file));
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
            repo: self.repo,
        };
        let launch = env_vars::text(env_vars::LAUNCH).unwrap_or_else(teamster_fs::random_hex);
        workers::run_worker(context, wanted, launch, self.restarts, print_with_time())
    }
}

/// Re-executes this process with the environment from the file: in a pane it has inherited that of the tmux server.
fn reexecute(file: &Path) -> AppError {
    let environment = match launch::take_environment(file) {
        Ok(environment) => environment,
        Err(error) => return error.into(),
    };
    let mut given = std::env::args_os().skip(1);
    let mut args = Vec::new();
    while let Some(arg) = given.next() {
        if arg == "--environment" {
            given.next();
        } else {
            args.push(arg);
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
    AppError::new(
        ErrorKind::Failed,
        format!("the worker could not start: {error}"),
    )
}

/// Prints a worker's messages, each with the time.
pub fn print_with_time() -> ProgressFn {
    Box::new(|text| {
        let now = SystemClock.now();
        let text = display_text(text);
        let _ = writeln!(std::io::stdout().lock(), "{now} {text}");
    })
}
