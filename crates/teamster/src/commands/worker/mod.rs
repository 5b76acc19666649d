//! `teamster worker …`

mod answer;
mod attach;
mod bridge;
mod list;
mod logs;
mod restart;
mod resume;
mod show;
mod start;
mod stop;
mod supervise;

use clap::{Args, Subcommand};
use teamster_app::workers::{self, NamedWorker};

use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;
pub(super) use list::table;

/// Start, watch and stop workers
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker start --name worker-1 --provider claude
  teamster worker list
  teamster worker logs worker-1
  teamster worker stop worker-1")]
pub struct Worker {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Start(start::Start),
    List(list::List),
    Show(show::Show),
    Logs(logs::Logs),
    Attach(attach::Attach),
    Stop(stop::Stop),
    Restart(restart::Restart),
    Resume(resume::Resume),
    Answer(answer::Answer),
    Supervise(supervise::Supervise),
    Bridge(bridge::Bridge),
}

impl Worker {
    /// Whether it stops a worker, which must work with any settings.
    pub fn stops(&self) -> bool {
        matches!(self.command, Command::Stop(_))
    }

    pub fn run(self, context: &Context) -> Result {
        match self.command {
            Command::Start(command) => command.run(context),
            Command::List(command) => command.run(context),
            Command::Show(command) => command.run(context),
            Command::Logs(command) => command.run(context),
            Command::Attach(command) => command.run(context),
            Command::Stop(command) => command.run(context),
            Command::Restart(command) => command.run(context),
            Command::Resume(command) => command.run(context),
            Command::Answer(command) => command.run(context),
            Command::Supervise(command) => command.run(context),
            Command::Bridge(command) => command.run(context),
        }
    }
}

/// Which worker of which team.
#[derive(Args, Debug)]
pub struct WorkerArg {
    /// The worker
    #[arg(value_name = "WORKER")]
    pub name: String,
    #[command(flatten)]
    pub team: TeamArg,
}

impl WorkerArg {
    /// Finds the worker that is meant; an error when the team has no such worker.
    pub fn find(&self, context: &Context) -> Result<NamedWorker> {
        let team = context.team(self.team.team.as_deref())?;
        workers::find(context, team, &self.name)
    }
}
