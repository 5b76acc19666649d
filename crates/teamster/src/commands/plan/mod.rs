//! `teamster plan`

mod check;

use std::path::Path;

use clap::{Args, Subcommand};
use teamster_run::plan::Plan as Tasks;

use crate::error::{AppError, Result};
use crate::files::read_named;
use crate::output::Output;

/// A plan is text; nobody writes, and no agent should write, a longer one.
const PLAN_LIMIT: usize = 8 * 1024 * 1024;

/// Look at plans: files with tasks that wait for each other
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan check plan.toml")]
pub struct Plan {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Check),
}

impl Plan {
    pub fn run(self, out: Output) -> Result {
        match self.command {
            Command::Check(command) => command.run(out),
        }
    }
}

/// Reads a plan for a command that wants all of it or nothing.
pub fn read_plan(file: &Path) -> Result<Tasks> {
    let bytes = read_named(file, PLAN_LIMIT)?;
    Tasks::parse(file, &bytes).map_err(|faults| {
        let first = faults.list.first().map_or_else(String::new, |fault| {
            format!("{}:{}: {}", faults.file, fault.line, fault.message)
        });
        let more = match faults.list.len() {
            0 | 1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        AppError::refused(format!("{first}{more}")).hint(format!(
            "nothing was made; `teamster plan check {}` shows all that is wrong",
            faults.file
        ))
    })
}
