//! `teamster task retry`

use clap::Args;
use teamster_app::runs;
use teamster_types::TaskId;

use super::answer_task;
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;

/// Let a task that failed begin anew
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task retry 4")]
pub struct Retry {
    #[command(flatten)]
    team: TeamArg,
    /// The task
    id: String,
}

impl Retry {
    pub fn run(self, context: &Context) -> Result {
        let id: TaskId = self.id.parse()?;
        let team = context.team(self.team.team.as_deref())?;
        runs::may_add_tasks(context, &team, 1)?;
        let store = context.store()?;
        let task = store.retry(&team, context.actor.name(), &id)?;
        answer_task(context, &team, task, "reset")
    }
}
