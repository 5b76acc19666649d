//! `teamster worker stop`

use std::time::Duration;

use clap::Args;
use teamster_app::workers::StopRequest;

use super::WorkerArg;
use crate::commands::shutdown;
use crate::commands::span;
use crate::context::Context;
use crate::error::Result;

/// Stop a worker: ask it, then end it with everything it started
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker stop worker-1
  teamster worker stop worker-1 --drain
  teamster worker stop worker-1 --force")]
pub struct Stop {
    #[command(flatten)]
    worker: WorkerArg,
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

impl Stop {
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
