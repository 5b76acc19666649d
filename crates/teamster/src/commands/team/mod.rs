//! `teamster team …`

mod create;
mod delete;
mod join;
mod list;
mod show;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Result;

/// Make, show and remove teams
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster team create fix-login --members worker-1,worker-2
  teamster team list")]
pub struct Team {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Create),
    Join(join::Join),
    List(list::List),
    Show(show::Show),
    Delete(delete::Delete),
}

impl Team {
    /// Whether it removes a team, which must work with any settings.
    pub fn deletes(&self) -> bool {
        matches!(self.command, Command::Delete(_))
    }

    pub fn run(self, context: &Context) -> Result {
        match self.command {
            Command::Create(command) => command.run(context),
            Command::Join(command) => command.run(context),
            Command::List(command) => command.run(context),
            Command::Show(command) => command.run(context),
            Command::Delete(command) => command.run(context),
        }
    }
}
