//! `teamster zombies …`

mod reap;
mod render;
mod restore;
mod scan;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use teamster_fs::proc::Machine;
use teamster_gc::zombies::{Panes, ScanOptions, TimeBudget, TmuxEnvironment};
use teamster_store::{Clock, SystemClock};

use crate::context::Context;
use crate::env_vars;
use crate::error::Result;
pub use reap::remove;
pub use scan::find;

/// Find and remove what is over but still there
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

/// Options for a person, who has the time for everything.
fn scan_options<'a>(
    context: &'a Context,
    machine: &'a Machine,
    ttl: Duration,
) -> Result<ScanOptions<'a>> {
    context.check_home()?;
    Ok(ScanOptions {
        layout: &context.layout,
        machine,
        now: SystemClock.now(),
        ttl,
        panes: Panes::ask(&context.layout, &tmux_environment()),
        budget: TimeBudget::unlimited(),
    })
}

fn tmux_environment() -> TmuxEnvironment {
    TmuxEnvironment {
        path: env_vars::get(env_vars::PATH).unwrap_or_default(),
        run_folder: env_vars::get(env_vars::RUN_FOLDER).map(PathBuf::from),
        inside: env_vars::text(env_vars::TMUX),
        sockets: env_vars::get(env_vars::TMUX_TMPDIR).map(PathBuf::from),
    }
}
