//! `teamster task fail`

use clap::Args;
use teamster_types::TaskId;
use teamster_types::task::Token;

use super::answer_task;
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;

/// Record that an attempt failed; the fifth one is the last
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task fail 2 --token \"$TOKEN\" --error \"the tests do not compile\"")]
pub struct Fail {
    #[command(flatten)]
    team: TeamArg,
    /// The task
    id: String,
    /// The proof that `task claim` printed
    #[arg(long)]
    token: String,
    /// What went wrong
    #[arg(long, value_name = "TEXT")]
    error: String,
}

impl Fail {
    pub fn run(self, context: &Context) -> Result {
        let id: TaskId = self.id.parse()?;
        let team = context.team(self.team.team.as_deref())?;
        let store = context.store()?;
        let task = store.fail(&team, &id, &Token::new(self.token), &self.error)?;
        answer_task(context, &team, task, "recorded a failure of")
    }
}
