//! Implements the commands that start and stop workers: `teamster worker start`, `stop`, `restart` and `resume`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_app::prompts::PromptFiles;
use teamster_app::trust::{self, PlannedStart, UntrustedPolicy};
use teamster_app::workers::{self, StopRequest};
use teamster_store::{OutgoingMessage, Recipient};
use teamster_types::WorkerName;
use teamster_types::health::Verdict;
use teamster_types::json::Object;
use teamster_workers::record::{WorkerBackend, WorkerLock, WorkerSpec};

use super::join::WorkerJoinArgs;
use super::list::row_of;
use super::{WorkerSelector, bridge};
use crate::cli::TeamSelector;
use crate::commands::{shutdown, span};
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};

/// Start a worker: a background process that claims tasks and has its agent do them
///
/// It works in its own git worktree, `.omc/worktrees/TEAM/NAME`, on the branch `omc-team/TEAM/NAME`, until it is stopped.
/// The command returns after the worker's first heartbeat.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker start --name worker-1 --provider claude
  teamster worker start --name worker-2 --provider codex --tmux
  teamster worker start --name tests --provider 'command:make test'
  teamster worker start --name tests --provider 'tests=command:make test'
  teamster worker start --name w --provider codex --foreground   # until told")]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct WorkerStartArgs {
    /// The worker's name; it is added to the team if it is not yet a member
    #[arg(long)]
    name: String,
    /// Its agent: claude, codex, gemini, command:SHELL COMMAND, scripted:FILE, the name of a
    /// configured provider, or NAME=KIND:ARGUMENT, which defines one
    #[arg(long)]
    provider: String,
    /// The model its agent uses [default: the client's own]
    #[arg(long)]
    model: Option<String>,
    /// Run it in a tmux pane, which `worker attach` shows
    #[arg(long, conflicts_with = "foreground")]
    tmux: bool,
    /// Work in the project's folder, without a worktree and commits
    #[arg(long)]
    in_place: bool,
    /// Work in a clone of this repository for a team in a database, as `worker join` does
    #[arg(long, value_name = "URL", conflicts_with_all = ["tmux", "in_place"])]
    repo: Option<String>,
    /// The folder of the clone [default: named after the repository]
    #[arg(long, value_name = "DIR", requires = "repo")]
    dir: Option<PathBuf>,
    /// Allow the commands that come with the project; `teamster trust --show` shows them
    #[arg(long)]
    trust_project: bool,
    /// Run the worker in this terminal and print what it does; Ctrl-C stops it
    #[arg(long)]
    foreground: bool,
    #[command(flatten)]
    team: TeamSelector,
}

impl WorkerStartArgs {
    pub fn run(self, context: &Context) -> Result {
        // A worker must never start another worker.
        context.actor.must_be_person("starting a worker")?;
        if self.repo.is_some() {
            let join = WorkerJoinArgs {
                repo: self.repo,
                name: Some(self.name),
                provider: Some(self.provider),
                model: self.model,
                dir: self.dir,
                trust_project: self.trust_project,
                foreground: self.foreground,
                team: self.team,
            };
            return join.run(context);
        }
        let team = self.team.find(context)?;
        let worker: WorkerName = self.name.parse()?;
        // Fail before anything is changed if the worker cannot be started.
        if WorkerLock::is_taken(&workers::team_folder(context, &team)?, &worker)? {
            return Err(workers::runs_already(&team, &worker));
        }
        let project = workers::project_of(context, &team)?;
        let settings = workers::settings(context, &project)?;
        let provider = settings.provider(&self.provider)?;
        let unknown = UntrustedPolicy::of_flag(self.trust_project);
        let plan = PlannedStart {
            provider: &provider,
            script: None,
            has_worktree: !self.in_place,
        };
        trust::require(context, &settings.layout, &settings.config, &plan, unknown)?;
        PromptFiles::load(&settings.layout)?.check()?;
        workers::check_agent(&provider)?;
        workers::join(context, &team, &worker, &provider)?;
        let wanted = WorkerSpec {
            team,
            worker,
            provider: self.provider,
            model: self.model,
            in_place: self.in_place,
            backend: if self.tmux {
                WorkerBackend::Tmux
            } else {
                WorkerBackend::Process
            },
            repo: None,
        };
        if self.foreground {
            let launch = teamster_fs::random_hex();
            return workers::run_worker(context, wanted, launch, 0, bridge::print_with_time());
        }
        let beat = workers::start(context, &wanted, &project, 0)?;
        context.out.answer(
            || {
                json!({
                    "worker": wanted.worker,
                    "team": wanted.team,
                    "provider": provider.name,
                    "backend": wanted.backend.as_str(),
                    "pid": beat.pid,
                })
            },
            || {
                format!(
                    "{} works for team {} as process {}; `teamster worker logs {}` shows what it does",
                    wanted.worker, wanted.team, beat.pid, wanted.worker
                )
            },
        )
    }
}

/// Stop a worker and every process that it started
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker stop worker-1
  teamster worker stop worker-1 --drain
  teamster worker stop worker-1 --force")]
pub struct WorkerStopArgs {
    #[command(flatten)]
    worker: WorkerSelector,
    /// Let it finish its current task
    #[arg(long, conflicts_with = "force")]
    drain: bool,
    /// Kill at once
    #[arg(long)]
    force: bool,
    /// How long to wait for it to exit before it is killed
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span)]
    deadline: Duration,
}

impl WorkerStopArgs {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("stopping a worker")?;
        let named = self.worker.find(context)?;
        shutdown::stop(
            context,
            StopRequest {
                team: named.team,
                only: Some(named.worker),
                drain: self.drain,
                force: self.force,
                deadline: self.deadline,
            },
        )
    }
}

/// Stop a worker and start it again with the same arguments
///
/// Uncommitted changes in its worktree are set aside and kept.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker restart worker-1
  teamster worker restart worker-1 --json")]
pub struct WorkerRestartArgs {
    #[command(flatten)]
    worker: WorkerSelector,
}

impl WorkerRestartArgs {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("restarting a worker")?;
        let named = self.worker.find(context)?;
        let Some(record) = named.record()? else {
            return Err(AppError::not_found(format!(
                "there is no record of how {} was started",
                named.worker
            ))
            .hint("`teamster worker start` starts it"));
        };
        shutdown::end_workers(
            context,
            StopRequest {
                team: named.team.clone(),
                only: Some(named.worker.clone()),
                drain: false,
                force: false,
                deadline: std::time::Duration::from_secs(60),
            },
        )?;
        let beat = workers::start(context, &record.spec, &named.project, 0)?;
        context.out.answer(
            || json!({ "worker": named.worker, "team": named.team, "pid": beat.pid }),
            || format!("{} works again, as process {}", named.worker, beat.pid),
        )
    }
}

/// Let a quarantined worker claim tasks again
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker resume worker-1
  teamster worker resume worker-1 --json")]
pub struct WorkerResumeArgs {
    #[command(flatten)]
    worker: WorkerSelector,
}

impl WorkerResumeArgs {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("resuming a worker")?;
        let named = self.worker.find(context)?;
        match row_of(context, &named)?.map(|row| row.verdict) {
            Some(Verdict::Quarantined) => {}
            Some(verdict) => {
                return Err(AppError::new(
                    ErrorKind::Conflict,
                    format!("{} is {verdict}, not quarantined", named.worker),
                )
                .hint("`teamster worker list` shows why"));
            }
            None => {
                return Err(AppError::not_found(format!("{} never ran", named.worker)));
            }
        }
        context.store()?.send(
            &named.team,
            &OutgoingMessage {
                from: context.actor.name().to_owned(),
                to: Recipient::Worker(named.worker.to_string()),
                kind: "resume".to_owned(),
                content: String::new(),
                extra: Object::new(),
            },
        )?;
        context.out.answer(
            || json!({ "worker": named.worker, "team": named.team }),
            || format!("{} is told to continue", named.worker),
        )
    }
}
