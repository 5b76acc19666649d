//! `teamster config …`

mod show;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Result;

/// Show settings
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster config show")]
pub struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Show),
}

impl Config {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            Command::Show(command) => command.run(context),
        }
    }
}
