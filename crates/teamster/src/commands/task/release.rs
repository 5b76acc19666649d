//! `teamster task release`

use clap::Args;
use teamster_types::TaskId;
use teamster_types::task::Token;

use super::answer_task;
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;

/// Give a claimed task back without finishing it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task release 2 --token \"$TOKEN\"
  teamster task release 2 --force")]
pub struct Release {
    #[command(flatten)]
    team: TeamArg,
    /// The task
    id: String,
    #[command(flatten)]
    right: Right,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Right {
    /// The proof that `task claim` printed
    #[arg(long)]
    token: Option<String>,
    /// Take it from whoever has it; for people only
    #[arg(long)]
    force: bool,
}

impl Release {
    pub fn run(self, context: &Context) -> Result {
        let id: TaskId = self.id.parse()?;
        if self.right.force {
            context
                .actor
                .must_be_person("taking a task from its worker")?;
        }
        let token = self.right.token.map(Token::new);
        let team = context.team(self.team.team.as_deref())?;
        let store = context.store()?;
        let actor = context.actor.name();
        let task = store.release(&team, actor, &id, token.as_ref())?;
        answer_task(context, &team, task, "gave back")
    }
}
