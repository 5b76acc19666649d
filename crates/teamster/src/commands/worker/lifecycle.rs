//! Implements the commands that start and stop workers: `teamster worker start`, `stop`, `restart` and `resume`.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_app::prompts::PromptFiles;
use teamster_app::trust::{self, PlannedStart, Unknown};
use teamster_app::workers::{self, StopRequest};
use teamster_store::{Outgoing, Recipient};
use teamster_types::WorkerName;
use teamster_types::health::Verdict;
use teamster_types::json::Object;
use teamster_workers::record::{WorkerBackend, WorkerLock, WorkerSpec};

use super::list::row_of;
use super::{WorkerSelector, bridge};
use crate::cli::TeamSelector;
use crate::commands::{shutdown, span};
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};

/// Start a worker: a process of its own that claims tasks and has its agent do them
///
/// It works in a git worktree of its own, `.omc/worktrees/TEAM/NAME`, on the branch `omc-team/TEAM/NAME`, and goes on
/// until it is stopped. The command returns once the worker's heart beats.
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
    /// The worker's name; it joins the team if it is no member yet
    #[arg(long)]
    name: String,
    /// Its agent: claude, codex, gemini, command:SHELL COMMAND, scripted:FILE, a name of the
    /// configuration, or NAME=KIND:ARGUMENT, which gives it that name
    #[arg(long)]
    provider: String,
    /// The model its agent is to use [default: the client's own]
    #[arg(long)]
    model: Option<String>,
    /// Run it in a pane of our own tmux, to be looked at with `worker attach`
    #[arg(long, conflicts_with = "foreground")]
    tmux: bool,
    /// Work in the project's own folder: no worktree, no commits
    #[arg(long)]
    in_place: bool,
    /// Accept the commands that come with the project; `teamster trust --show` shows them
    #[arg(long)]
    trust_project: bool,
    /// Be the worker: stay here, say what happens, stop with Ctrl-C
    #[arg(long)]
    foreground: bool,
    #[command(flatten)]
    team: TeamSelector,
}

impl WorkerStartArgs {
    pub fn run(self, context: &Context) -> Result {
        // A worker never starts a worker.
        context.actor.must_be_person("starting a worker")?;
        let team = self.team.find(context)?;
        let worker: WorkerName = self.name.parse()?;
        // What cannot be started is said before anything is changed.
        if WorkerLock::is_taken(&workers::team_folder(context, &team)?, &worker)? {
            return Err(workers::runs_already(&team, &worker));
        }
        let project = workers::project_of(context, &team)?;
        let settings = workers::settings(context, &project)?;
        let provider = settings.provider(&self.provider)?;
        let unknown = Unknown::of_flag(self.trust_project);
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
            return workers::be(context, wanted, launch, 0, bridge::printing());
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

/// Stop a worker: ask it, then end it with everything it started
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
    /// Do not ask
    #[arg(long)]
    force: bool,
    /// How long it has to end by itself
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

/// Stop a worker and start it anew, with what it was started with before
///
/// What is in its worktree and not committed is kept aside.
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
        context.actor.must_be_person("starting a worker anew")?;
        let named = self.worker.find(context)?;
        let Some(record) = named.record()? else {
            return Err(AppError::not_found(format!(
                "nobody knows how {} was started",
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

/// Let a quarantined worker take tasks again
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
                .hint("`teamster worker list` tells why"));
            }
            None => {
                return Err(AppError::not_found(format!("{} never ran", named.worker)));
            }
        }
        context.store()?.send(
            &named.team,
            &Outgoing {
                from: context.actor.name().to_owned(),
                to: Recipient::Worker(named.worker.to_string()),
                kind: "resume".to_owned(),
                content: String::new(),
                extra: Object::new(),
            },
        )?;
        context.out.answer(
            || json!({ "worker": named.worker, "team": named.team }),
            || format!("{} is told to go on", named.worker),
        )
    }
}
