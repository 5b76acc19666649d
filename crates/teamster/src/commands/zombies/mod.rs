//! `teamster zombies …`

mod reap;
mod render;
mod restore;
mod scan;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Result;

/// Find and remove teams, processes and worktrees left behind
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster zombies scan
  teamster zombies reap --dry-run")]
pub struct Zombies {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Scan(scan::Scan),
    Reap(reap::Reap),
    Restore(restore::Restore),
}

impl Zombies {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            Command::Scan(command) => command.run(context),
            Command::Reap(command) => command.run(context),
            Command::Restore(command) => command.run(context),
        }
    }
}
