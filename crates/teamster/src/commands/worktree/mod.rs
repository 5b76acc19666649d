//! Implements `teamster worktree`: `list` and `salvage` here, `gc` in its own file.

mod gc;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use teamster_gc::worktrees::WorktreeStatus;
use teamster_isolate::git::{self, Worktree, WorktreeKind, WorktreeState};

use self::gc::WorktreeGcArgs;
use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::{display_line, redacted};
use crate::table::{TableCell, TextTable, Tone};

/// Show, salvage and remove workers' worktrees
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worktree list
  teamster worktree salvage worker-1
  teamster worktree gc")]
pub struct WorktreeArgs {
    #[command(subcommand)]
    command: WorktreeCommand,
}

#[derive(Debug, Subcommand)]
enum WorktreeCommand {
    List(WorktreeListArgs),
    Salvage(WorktreeSalvageArgs),
    Gc(WorktreeGcArgs),
}

impl WorktreeArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            WorktreeCommand::List(command) => command.run(context),
            WorktreeCommand::Salvage(command) => command.run(context),
            WorktreeCommand::Gc(command) => command.run(context),
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

/// List workers' worktrees and what would be lost with them
#[derive(Args, Debug)]
#[command(after_help = "\
Worktrees of all teams of this project are listed, including teams that no longer exist. A
worktree that was moved aside to make room for a new one is called NAME.kept-1. In --json,
`unmerged` counts the commits that are neither in the integration branch nor in a branch of your
own, `unpinned` those of them that belong to no finished task, and `kept` says why `teamster
worktree gc` keeps the worktree; it is null for one that would be removed.

Examples:
  teamster worktree list
  teamster worktree list --team fix-auth --json")]
pub struct WorktreeListArgs {
    /// Only the worktrees of this team [default: all]
    #[arg(long, value_name = "TEAM")]
    team: Option<String>,
}

impl WorktreeListArgs {
    pub fn run(self, context: &Context) -> Result {
        let gc = teamster_app::gc::project(context);
        let seen = gc.worktrees(&gc.repo()?, self.team.as_deref())?;
        context.out.answer(
            || {
                let rows: Vec<Value> = seen.iter().map(to_json).collect();
                redacted(json!({ "worktrees": rows }))
            },
            || match seen.as_slice() {
                [] => "no worker has a worktree here\n".to_owned(),
                seen => table(seen).render(context.out.has_colour()),
            },
        )
    }
}

fn table(seen: &[WorktreeStatus]) -> TextTable {
    let mut table = TextTable::new(["TEAM", "NAME", "KIND", "STATE", "UNMERGED", "KEPT BECAUSE"]);
    for one in seen {
        let listed = &one.listed;
        let tone = match listed.state {
            WorktreeState::Clean | WorktreeState::Gone => Tone::Good,
            WorktreeState::Dirty { .. } => Tone::Notable,
            WorktreeState::Unknown { .. } => Tone::Bad,
        };
        table.row([
            listed.team.as_str().into(),
            display_line(&listed.name).into(),
            kind(&listed.kind).into(),
            TableCell::new(state(&listed.state), tone),
            listed.unmerged.to_string().into(),
            display_line(&one.kept_because().unwrap_or_default()).into(),
        ]);
    }
    table
}

/// Save the contents of a worktree to a new branch
#[derive(Args, Debug)]
#[command(after_help = "\
The branch has everything that is committed, staged, modified and untracked in the worktree, except
ignored files. The worktree and its index are not changed, so this is safe while its worker is at
work.

Examples:
  teamster worktree salvage worker-1
  teamster worktree salvage worker-1.kept-1 --team fix-auth --json")]
pub struct WorktreeSalvageArgs {
    /// The worktree: a worker, or a name that `teamster worktree list` shows
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    team: TeamSelector,
}

impl WorktreeSalvageArgs {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("salvaging a worktree")?;
        let repo = teamster_app::gc::project(context).repo()?;
        let team = self.team.find(context)?;
        let all = git::list(&repo, &team)?;
        let hint = "`teamster worktree list` lists them";
        let listed = all.iter().find(|listed| listed.name == self.name);
        let Some(listed) = listed else {
            let message = format!("team {team} has no worktree {:?}", self.name);
            return Err(AppError::not_found(message).hint(hint));
        };
        if listed.kind == WorktreeKind::Foreign {
            let message = format!("{} is not a worktree of teamster", listed.path.display());
            return Err(AppError::refused(message).hint(hint));
        }
        let worktree = match &listed.state {
            WorktreeState::Gone => None,
            _ => Worktree::named(&repo, &team, &self.name)?,
        };
        let Some(worktree) = worktree else {
            let branch = listed.branch.as_deref().unwrap_or("nothing");
            let message = format!("the folder of {} is gone; only {branch} is left", self.name);
            return Err(AppError::new(ErrorKind::Conflict, message).hint(hint));
        };
        let (branch, secrets) = worktree.salvage_telling()?;
        let commit = repo
            .resolve(&format!("refs/heads/{branch}"))?
            .map(|commit| commit.to_string());
        let private: Vec<_> = secrets
            .iter()
            .map(|secret| json!({ "path": secret.path, "kept": secret.kept }))
            .collect();
        for secret in &secrets {
            context.out.remark(&format!("not on the branch: {secret}"));
        }
        context.out.answer(
            || {
                json!({
                    "team": team,
                    "name": self.name,
                    "branch": branch,
                    "commit": commit,
                    "private": private,
                })
            },
            || format!("{branch}\n"),
        )
    }
}
