//! `teamster worktree …`

mod gc;
mod list;
mod salvage;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use teamster_gc::worktrees::WorktreeStatus;
use teamster_isolate::git::{WorktreeKind, WorktreeState};

use crate::context::Context;
use crate::error::Result;

/// Show, save and remove the worktrees of workers
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worktree list
  teamster worktree salvage worker-1
  teamster worktree gc")]
pub struct Worktree {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Salvage(salvage::Salvage),
    Gc(gc::Gc),
}

impl Worktree {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            Command::List(command) => command.run(context),
            Command::Salvage(command) => command.run(context),
            Command::Gc(command) => command.run(context),
        }
    }
}

fn to_json(found: &WorktreeStatus) -> Value {
    let listed = &found.listed;
    json!({
        "team": listed.team,
        "name": listed.name,
        "kind": kind(&listed.kind),
        "path": listed.path.to_string_lossy(),
        "branch": listed.branch,
        "head": listed.head.as_ref().map(ToString::to_string),
        "state": state(&listed.state),
        "unmerged": listed.unmerged,
        "unpinned": listed.unpinned,
        "live": found.in_use,
        "kept": found.kept_because(),
    })
}

fn kind(kind: &WorktreeKind) -> &'static str {
    match kind {
        WorktreeKind::Worker(_) => "worker",
        WorktreeKind::Kept(_) => "kept",
        WorktreeKind::Integration => "integration",
        WorktreeKind::Checks => "checks",
        WorktreeKind::Salvaged => "salvaged",
        WorktreeKind::Foreign => "foreign",
    }
}

fn state(state: &WorktreeState) -> &'static str {
    match state {
        WorktreeState::Clean => "clean",
        WorktreeState::Dirty { .. } => "dirty",
        WorktreeState::Gone => "gone",
        WorktreeState::Unknown { .. } => "unknown",
    }
}
