//! `teamster worktree list`

use clap::Args;
use serde_json::{Value, json};
use teamster_app::gc;
use teamster_gc::worktrees::WorktreeStatus;
use teamster_isolate::git::WorktreeState;

use super::{kind, state, to_json};
use crate::context::Context;
use crate::error::Result;
use crate::shown::{redacted, viewed_line};
use crate::table::{Cell, Table, Tone};

/// Show every worktree of a worker, and what would be lost with it
#[derive(Args, Debug)]
#[command(after_help = "\
All teams of this project are listed, those that are gone too. A worktree that was moved aside
to make room for a new one is called NAME.kept-1. In --json `unmerged` counts the commits that
are neither in the integration branch nor in one of your own, `unpinned` those of them that are
no finished task's either, and `kept` says why `teamster worktree gc` leaves it; it is null for
what would be removed.

Examples:
  teamster worktree list
  teamster worktree list --team fix-auth --json")]
pub struct List {
    /// Only the worktrees of this team [default: all]
    #[arg(long, value_name = "TEAM")]
    team: Option<String>,
}

impl List {
    pub fn run(self, context: &Context) -> Result {
        let gc = gc::project(context);
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

fn table(seen: &[WorktreeStatus]) -> Table {
    let mut table = Table::new(["TEAM", "NAME", "KIND", "STATE", "UNMERGED", "KEPT BECAUSE"]);
    for one in seen {
        let listed = &one.listed;
        let tone = match listed.state {
            WorktreeState::Clean | WorktreeState::Gone => Tone::Good,
            WorktreeState::Dirty { .. } => Tone::Notable,
            WorktreeState::Unknown { .. } => Tone::Bad,
        };
        table.row([
            listed.team.as_str().into(),
            viewed_line(&listed.name).into(),
            kind(&listed.kind).into(),
            Cell::new(state(&listed.state), tone),
            listed.unmerged.to_string().into(),
            viewed_line(&one.kept_because().unwrap_or_default()).into(),
        ]);
    }
    table
}
