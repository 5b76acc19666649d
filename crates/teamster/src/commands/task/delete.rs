//! `teamster task delete`

use clap::Args;
use teamster_types::TaskId;

use super::answer_task;
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;

/// Remove a task that nobody works on; those that waited for it do so no longer
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task delete 5
  teamster task delete 2   # exits 4")]
pub struct Delete {
    #[command(flatten)]
    team: TeamArg,
    /// The task
    id: String,
}

impl Delete {
    pub fn run(self, context: &Context) -> Result {
        let id: TaskId = self.id.parse()?;
        context.actor.must_be_person("removing a task")?;
        let team = context.team(self.team.team.as_deref())?;
        let store = context.store()?;
        let task = store.delete_task(&team, context.actor.name(), &id)?;
        answer_task(context, &team, task, "removed")
    }
}
