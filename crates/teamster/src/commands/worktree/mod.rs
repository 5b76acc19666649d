//! `teamster worktree …`

mod gc;
mod list;
mod live;
mod runs;
mod salvage;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use teamster_app::env_vars;
use teamster_claude::zombies::shell;
use teamster_fs::team_store;
use teamster_isolate::git::{self, Git, Listed, Listing, Removal, Repo, State};
use teamster_types::TeamName;

use crate::context::Context;
use crate::error::Result;
use live::{Live, RUN_GOES_ON};

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

/// The repository of the project.
fn repo(context: &Context) -> Result<Repo> {
    let git = Git::find(&env_vars::get(env_vars::PATH).unwrap_or_default())?;
    Ok(Repo::find(&git, &context.layout.project)?.repo)
}

/// A worktree and whether somebody is at work in it.
struct Seen {
    listed: Listed,
    /// Why it is said to be in use.
    live: Option<String>,
}

impl Seen {
    /// Why it stays; `None` when it may go.
    fn stays(&self) -> Option<String> {
        self.live.clone().or_else(|| self.listed.holds())
    }

    /// Removes it, if it still holds nothing. No run begins in the project while that of a run goes.
    fn remove(&self, repo: &Repo) -> Result<Removal> {
        let mut held = None;
        if matches!(self.listed.listing, Listing::Integration | Listing::Checks) {
            held = team_store::hold_off_runs(repo.project())?;
            if held.is_none() {
                let why = RUN_GOES_ON.to_owned();
                return Ok(Removal::Kept { why });
            }
        }
        let removal = self.listed.remove_if_safe(repo);
        drop(held);
        Ok(removal?)
    }

    /// What removes it all the same, for a shell; what is in use is stopped first.
    fn command(&self) -> String {
        let listed = &self.listed;
        let path = shell::word(&listed.path.to_string_lossy());
        let branch = listed.branch.as_deref().map(shell::word);
        let branch = branch.map(|branch| format!("git branch -D {branch}"));
        match (&listed.listing, &listed.state) {
            (Listing::Foreign, _) => format!("rm -r -- {path}"),
            (_, State::Gone) => branch.unwrap_or_else(|| "git worktree prune".to_owned()),
            _ => {
                let remove = format!("git worktree remove --force {path}");
                branch.map_or(remove.clone(), |branch| format!("{remove} && {branch}"))
            }
        }
    }

    fn to_json(&self) -> Value {
        let listed = &self.listed;
        json!({
            "team": listed.team,
            "name": listed.name,
            "kind": kind(&listed.listing),
            "path": listed.path.to_string_lossy(),
            "branch": listed.branch,
            "head": listed.head.as_ref().map(ToString::to_string),
            "state": state(&listed.state),
            "unmerged": listed.unmerged,
            "unpinned": listed.unpinned,
            "live": self.live,
            "kept": self.stays(),
        })
    }
}

/// Removes the worktree of this name if it holds nothing and nobody is at work in it; why it stays otherwise. With
/// `dry_run` nothing is removed.
pub fn remove_one(
    context: &Context,
    team: &str,
    name: &str,
    dry_run: bool,
) -> Result<Option<String>> {
    let repo = repo(context)?;
    let seen = look(context, &repo, Some(team))?;
    let Some(seen) = seen.into_iter().find(|seen| seen.listed.name == name) else {
        return Ok(Some("git does not know it".to_owned()));
    };
    Ok(match seen.stays() {
        Some(why) => Some(why),
        None if dry_run => None,
        None => match seen.remove(&repo)? {
            Removal::Removed => None,
            Removal::Kept { why } => Some(why),
        },
    })
}

/// The worktrees of one team, or of all.
fn look(context: &Context, repo: &Repo, team: Option<&str>) -> Result<Vec<Seen>> {
    let teams: Vec<TeamName> = match team {
        Some(name) => vec![name.parse()?],
        None => git::teams(repo)?,
    };
    let mut seen = Vec::new();
    for team in teams {
        let live = Live::of(context, &team)?;
        for listed in git::list(repo, &team)? {
            seen.push(Seen {
                live: live.why(&listed),
                listed,
            });
        }
    }
    Ok(seen)
}

fn kind(listing: &Listing) -> &'static str {
    match listing {
        Listing::Worker(_) => "worker",
        Listing::Kept(_) => "kept",
        Listing::Integration => "integration",
        Listing::Checks => "checks",
        Listing::Salvaged => "salvaged",
        Listing::Foreign => "foreign",
    }
}

fn state(state: &State) -> &'static str {
    match state {
        State::Clean => "clean",
        State::Dirty { .. } => "dirty",
        State::Gone => "gone",
        State::Unknown { .. } => "unknown",
    }
}
