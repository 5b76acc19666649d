//! Implements `teamster shutdown`.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_app::workers::{self, StopRequest};
use teamster_workers::shutdown::{EndKind, StoppedWorker};

use super::span;
use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::display_line;

/// Stop every worker of a team and verify that none is left
///
/// Each worker is asked to stop, asked again at half the deadline, and killed at the deadline with every process it started.
/// Unfinished tasks are released; worktrees with work in them are kept.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster shutdown
  teamster shutdown --drain --deadline 10m
  teamster shutdown --team fix-auth --force --json")]
pub struct ShutdownArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// Let workers finish their current tasks
    #[arg(long, conflicts_with = "force")]
    drain: bool,
    /// Kill at once
    #[arg(long)]
    force: bool,
    /// How long to wait for them to exit before they are killed
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span)]
    deadline: Duration,
}

impl ShutdownArgs {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("shutting a team down")?;
        stop(
            context,
            StopRequest {
                team: self.team.find(context)?,
                only: None,
                drain: self.drain,
                force: self.force,
                deadline: self.deadline,
            },
        )
    }
}

/// Stops workers, and reports how each ended.
pub fn stop(context: &Context, asked: StopRequest) -> Result {
    let what = match &asked.only {
        Some(worker) => format!("{worker} is not running"),
        None => format!("no worker of team {} is running", asked.team),
    };
    let ends = end_workers(context, asked)?;
    let left: Vec<&StoppedWorker> = ends
        .iter()
        .filter(|end| end.how == EndKind::Alive)
        .collect();
    context.out.answer(
        || json!({ "workers": ends, "verified": left.is_empty() }),
        || {
            if ends.is_empty() {
                return what;
            }
            let mut text = String::new();
            for end in &ends {
                let note = match end.note.as_str() {
                    "" => String::new(),
                    note => format!(": {}", display_line(note)),
                };
                let _ = writeln!(text, "{} {}{note}", end.worker, end.how.as_str());
            }
            text
        },
    )?;
    if left.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = left.iter().map(|end| end.worker.as_str()).collect();
    Err(AppError::new(
        ErrorKind::Failed,
        format!("still running: {}", names.join(", ")),
    )
    .hint("see the note on each; `ps` shows processes that are stuck in the kernel"))
}

/// Stops workers, and prints on the terminal what it waits for.
pub fn end_workers(context: &Context, asked: StopRequest) -> Result<Vec<StoppedWorker>> {
    let out = context.out;
    workers::stop(context, asked, &mut |text| out.remark(text))
}
