//! `teamster worktree …`

mod gc;
mod list;
mod salvage;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use teamster_gc::GcError;
use teamster_gc::worktrees::{ProjectGc, WorktreeStatus};
use teamster_isolate::git::{GitError, GitProblem, WorktreeKind, WorktreeState};

use crate::context::Context;
use crate::env_vars;
use crate::error::{CommandError, ErrorKind, Result};

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

impl From<GitError> for CommandError {
    fn from(error: GitError) -> Self {
        let kind = match error.problem {
            GitProblem::NotRepository => ErrorKind::NotFound,
            GitProblem::Bare | GitProblem::NoCommits | GitProblem::Refused => ErrorKind::Refused,
            GitProblem::Busy => ErrorKind::Conflict,
            GitProblem::NoProgram
            | GitProblem::NoRoom
            | GitProblem::NotTaken
            | GitProblem::TimedOut
            | GitProblem::Failed => ErrorKind::Failed,
        };
        Self::new(kind, error.message).hint(error.hint)
    }
}

impl From<GcError> for CommandError {
    fn from(error: GcError) -> Self {
        match error {
            GcError::Store(error) => error.into(),
            GcError::Git(error) => error.into(),
            GcError::Name(error) => error.into(),
        }
    }
}

/// The project that is cleaned up.
pub fn project_gc(context: &Context) -> ProjectGc<'_> {
    ProjectGc {
        layout: &context.layout,
        path: env_vars::get(env_vars::PATH).unwrap_or_default(),
        settings: context.config.store_settings(),
        limits: context.config.limits(),
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
