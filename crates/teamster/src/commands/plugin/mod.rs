//! `teamster plugin …`

mod export;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Result;

/// Make a plugin for Claude Code
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plugin export teamster-plugin")]
pub struct Plugin {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Export(export::Export),
}

impl Plugin {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            Command::Export(command) => command.run(context),
        }
    }
}
