//! `teamster task complete`

use std::path::PathBuf;

use clap::Args;
use teamster_types::TaskId;
use teamster_types::task::Token;

use super::{answer_task, result_object};
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;
use crate::files::read_named;

/// A result is a summary; what a worker made belongs into files of the project.
const RESULT_LIMIT: usize = 256 * 1024;

/// Finish a task that was claimed
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task complete 2 --token \"$TOKEN\"
  teamster task complete 2 --token \"$TOKEN\" --result result.json
  echo 'all tests pass' | teamster task complete 2 --token \"$TOKEN\" --result -")]
pub struct Complete {
    #[command(flatten)]
    team: TeamArg,
    /// The task
    id: String,
    /// The proof that `task claim` printed
    #[arg(long)]
    token: String,
    /// A file with the result, JSON or text; `-` is the standard input
    #[arg(long, value_name = "FILE")]
    result: Option<PathBuf>,
}

impl Complete {
    pub fn run(self, context: &Context) -> Result {
        let id: TaskId = self.id.parse()?;
        let result = match &self.result {
            Some(file) => Some(result_object(&read_named(file, RESULT_LIMIT)?)),
            None => None,
        };
        let team = context.team(self.team.team.as_deref())?;
        let store = context.store()?;
        let task = store.complete(&team, &id, &Token::new(self.token), result)?;
        answer_task(context, &team, task, "finished")
    }
}
