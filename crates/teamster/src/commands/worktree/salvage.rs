//! `teamster worktree salvage`

use clap::Args;
use serde_json::json;
use teamster_app::gc;
use teamster_isolate::git::{self, Worktree, WorktreeKind, WorktreeState};

use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};

/// Bring what a worktree holds to a new branch
#[derive(Args, Debug)]
#[command(after_help = "\
All that is committed, staged, changed and new in the worktree is on the branch; what git ignores
is not. The worktree itself and its index are not touched, so this can be done while its worker
is at work.

Examples:
  teamster worktree salvage worker-1
  teamster worktree salvage worker-1.kept-1 --team fix-auth --json")]
pub struct Salvage {
    /// The worktree: a worker, or a name that `teamster worktree list` shows
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    team: TeamArg,
}

impl Salvage {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("salvaging a worktree")?;
        let repo = gc::project(context).repo()?;
        let team = context.team(self.team.team.as_deref())?;
        let all = git::list(&repo, &team)?;
        let hint = "`teamster worktree list` shows those there are";
        let listed = all.iter().find(|listed| listed.name == self.name);
        let Some(listed) = listed else {
            let message = format!("team {team} has no worktree {:?}", self.name);
            return Err(AppError::not_found(message).hint(hint));
        };
        if listed.kind == WorktreeKind::Foreign {
            let message = format!("{} is not a worktree of ours", listed.path.display());
            return Err(AppError::refused(message).hint(hint));
        }
        let worktree = match &listed.state {
            WorktreeState::Gone => None,
            _ => Worktree::named(&repo, &team, &self.name)?,
        };
        let Some(worktree) = worktree else {
            let branch = listed.branch.as_deref().unwrap_or("nothing");
            let message = format!(
                "the folder of {} is gone; what is left is {branch}",
                self.name
            );
            return Err(AppError::new(ErrorKind::Conflict, message).hint(hint));
        };
        let branch = worktree.salvage()?;
        let commit = repo
            .resolve(&format!("refs/heads/{branch}"))?
            .map(|commit| commit.to_string());
        context.out.answer(
            || json!({ "team": team, "name": self.name, "branch": branch, "commit": commit }),
            || format!("{branch}\n"),
        )
    }
}
