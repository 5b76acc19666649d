//! Implements `teamster worker`: `lifecycle.rs` has `start`, `stop`, `restart` and `resume`, `list.rs` has `list` and `show`,
//! `logs.rs` has `logs` and `attach`, and `answer`, `supervise` and `bridge`, with the `guard` above it, have files
//! of their own.

mod answer;
mod bridge;
mod guard;
mod join;
mod lifecycle;
mod list;
mod logs;
mod supervise;

use clap::{Args, Subcommand};
use teamster_app::workers::{self, NamedWorker};

use self::answer::WorkerAnswerArgs;
use self::bridge::WorkerBridgeArgs;
use self::join::WorkerJoinArgs;
use self::lifecycle::{WorkerRestartArgs, WorkerResumeArgs, WorkerStartArgs, WorkerStopArgs};
use self::list::{WorkerListArgs, WorkerShowArgs};
use self::logs::{WorkerAttachArgs, WorkerLogsArgs};
use self::supervise::WorkerSuperviseArgs;
use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::Result;
pub use guard::GuardedBridge;
pub(super) use list::table;

/// Start, watch and stop workers
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker start --name worker-1 --provider claude
  teamster worker list
  teamster worker logs worker-1
  teamster worker stop worker-1")]
pub struct WorkerArgs {
    #[command(subcommand)]
    command: WorkerCommand,
}

#[derive(Debug, Subcommand)]
enum WorkerCommand {
    Start(WorkerStartArgs),
    Join(WorkerJoinArgs),
    List(WorkerListArgs),
    Show(WorkerShowArgs),
    Logs(WorkerLogsArgs),
    Attach(WorkerAttachArgs),
    Stop(WorkerStopArgs),
    Restart(WorkerRestartArgs),
    Resume(WorkerResumeArgs),
    Answer(WorkerAnswerArgs),
    Supervise(WorkerSuperviseArgs),
    Bridge(WorkerBridgeArgs),
}

impl WorkerArgs {
    /// Whether it stops a worker, which must work even with invalid settings.
    pub fn stops(&self) -> bool {
        matches!(self.command, WorkerCommand::Stop(_))
    }

    pub fn run(self, context: &Context) -> Result {
        match self.command {
            WorkerCommand::Start(command) => command.run(context),
            WorkerCommand::Join(command) => command.run(context),
            WorkerCommand::List(command) => command.run(context),
            WorkerCommand::Show(command) => command.run(context),
            WorkerCommand::Logs(command) => command.run(context),
            WorkerCommand::Attach(command) => command.run(context),
            WorkerCommand::Stop(command) => command.run(context),
            WorkerCommand::Restart(command) => command.run(context),
            WorkerCommand::Resume(command) => command.run(context),
            WorkerCommand::Answer(command) => command.run(context),
            WorkerCommand::Supervise(command) => command.run(context),
            WorkerCommand::Bridge(command) => command.run(context),
        }
    }
}

/// Which worker of which team.
#[derive(Args, Debug)]
pub struct WorkerSelector {
    /// The worker
    #[arg(value_name = "WORKER")]
    pub name: String,
    #[command(flatten)]
    pub team: TeamSelector,
}

impl WorkerSelector {
    /// Finds the selected worker; fails when the team has no such worker.
    pub fn find(&self, context: &Context) -> Result<NamedWorker> {
        let team = self.team.find(context)?;
        workers::find(context, team, &self.name)
    }
}
