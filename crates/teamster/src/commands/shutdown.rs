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
use crate::shown::viewed_line;

/// Stop every worker of a team, and see that nobody is left
///
/// Each is asked, asked once more at half the deadline, and at the deadline ended with everything it started. Tasks
/// that were not finished go back; worktrees with work in them stay.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster shutdown
  teamster shutdown --drain --deadline 10m
  teamster shutdown --team fix-auth --force --json")]
pub struct ShutdownArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// Let everyone finish the current task
    #[arg(long, conflicts_with = "force")]
    drain: bool,
    /// Do not ask
    #[arg(long)]
    force: bool,
    /// How long they have to end by themselves
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

/// Stops workers, and says how each ended.
pub fn stop(context: &Context, asked: StopRequest) -> Result {
    let what = match &asked.only {
        Some(worker) => format!("{worker} does not run"),
        None => format!("no worker of team {} runs", asked.team),
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
                    note => format!(": {}", viewed_line(note)),
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
        format!("still there: {}", names.join(", ")),
    )
    .hint(
        "look at what is said about each; processes that the system itself holds are shown by `ps`",
    ))
}

/// Stops workers, and says on the terminal what is waited for.
pub fn end_workers(context: &Context, asked: StopRequest) -> Result<Vec<StoppedWorker>> {
    let out = context.out;
    workers::stop(context, asked, &mut |text| out.remark(text))
}
