//! `teamster shutdown`

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_types::{TeamName, WorkerName};
use teamster_workers::shutdown::{EndKind, ShutdownCoordinator, ShutdownRequest, StoppedWorker};

use super::span;
use super::worker::{project, tmux};
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::{CommandError, ErrorKind, Result};
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
pub struct Shutdown {
    #[command(flatten)]
    team: TeamArg,
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

/// Who is to stop, and how.
pub struct Asked {
    pub team: TeamName,
    pub only: Option<WorkerName>,
    pub drain: bool,
    pub force: bool,
    pub deadline: Duration,
}

impl Shutdown {
    pub fn run(self, context: &Context) -> Result {
        context.identity.must_be_person("shutting a team down")?;
        stop(
            context,
            Asked {
                team: context.team(self.team.team.as_deref())?,
                only: None,
                drain: self.drain,
                force: self.force,
                deadline: self.deadline,
            },
        )
    }
}

/// Stops workers, and says how each ended.
pub fn stop(context: &Context, asked: Asked) -> Result {
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
    Err(CommandError::new(
        ErrorKind::Failed,
        format!("still there: {}", names.join(", ")),
    )
    .hint("the system itself holds their processes; look at them with `ps`"))
}

/// Stops workers; how each ended.
pub fn end_workers(context: &Context, asked: Asked) -> Result<Vec<StoppedWorker>> {
    let project = project(context, &asked.team)?;
    let Some(dir) = Dir::open_root(&project)? else {
        return Ok(Vec::new());
    };
    let machine = Machine::read();
    let tmux = tmux(&project).ok();
    let out = context.out;
    let mut tell = |text: &str| {
        if !out.is_json() {
            out.remark(text);
        }
    };
    let mut stopping = ShutdownCoordinator {
        store: context.store()?,
        machine: &machine,
        project: &dir,
        tmux: tmux.as_ref(),
        tell: &mut tell,
        hurry: &teamster_workers::shutdown::no_hurry,
    };
    Ok(stopping.run(&ShutdownRequest {
        team: asked.team,
        only: asked.only,
        actor: context.identity.actor().to_owned(),
        reason: "a person asked for it".to_owned(),
        drain: asked.drain,
        force: asked.force,
        deadline: asked.deadline,
    })?)
}
