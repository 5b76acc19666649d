//! `teamster worker …`

mod list;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Result;
pub(super) use list::table;

/// Show workers
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker list")]
pub struct Worker {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
}

impl Worker {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            Command::List(command) => command.run(context),
        }
    }
}
