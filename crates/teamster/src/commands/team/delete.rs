//! Implements `teamster team delete`.

use std::fmt::Write as _;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use teamster_app::workers::{self, StopRequest};
use teamster_fs::{Dir, layout};
use teamster_run::host::ProjectLock;
use teamster_types::TeamName;
use teamster_types::team::TeamOrigin;
use teamster_view::teams::{Alive, alive};

use crate::commands::shutdown;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};

/// Remove a team that nobody works in any more
#[derive(Args, Debug)]
#[command(after_help = "\
A team is never removed under a living process: `teamster shutdown` stops its workers. Its files
are kept in the trash for 7 days, and its journal with the project's reports.

Examples:
  teamster team delete fix-auth --force")]
pub struct TeamDeleteArgs {
    /// The team
    #[arg(value_name = "TEAM")]
    name: String,
    /// Also while the lease of a claim still runs, and while a run or workers of ours are alive: they are ended first.
    /// Where somebody is alive that we cannot end, nothing is touched
    #[arg(long)]
    force: bool,
}

impl TeamDeleteArgs {
    pub fn run(self, context: &Context) -> Result {
        let team: TeamName = self.name.parse()?;
        context.actor.must_be_person("removing a team")?;
        let store = context.store()?;
        let config = store.team(&team)?;
        if config.kind() == TeamOrigin::Claude {
            return Err(AppError::refused(format!(
                "team {team} belongs to Claude Code and is not ours to remove"
            ))
            .hint("its own session removes it when it ends"));
        }
        if self.force {
            let beyond = workers::beyond_reach(context, &team)?;
            if !beyond.is_empty() {
                return Err(still_alive(&team, &beyond, true));
            }
            shutdown::end_workers(
                context,
                StopRequest {
                    team: team.clone(),
                    only: None,
                    drain: false,
                    force: true,
                    deadline: std::time::Duration::ZERO,
                },
            )?;
        }
        let living = alive(store, &team, &config)?;
        if !living.is_empty() {
            let who: Vec<String> = living.iter().map(Alive::to_string).collect();
            return Err(still_alive(&team, &who, self.force));
        }
        let deleted = store.delete_team(&team, &context.actor.recorded_as(), self.force)?;
        if let Some(project) = config.project() {
            forget_stage(Path::new(project), &team)?;
        }
        context.out.answer(
            || {
                json!({
                    "team": config.as_object(),
                    "trash": deleted.trash,
                    "journal": deleted.journal,
                })
            },
            || {
                let mut text = format!("removed team {team}");
                if let Some(trash) = &deleted.trash {
                    let _ = write!(text, "\nits files are kept for 7 days in {trash}");
                }
                if let Some(journal) = &deleted.journal {
                    let _ = write!(text, "\nits journal is kept in {journal}");
                }
                text
            },
        )
    }
}

/// Takes away what tells others the stage of the team's run. Whoever hosts another run in the project has written that
/// file over, and writes it again and again; it is left to them.
fn forget_stage(project: &Path, team: &TeamName) -> Result {
    let [first, second] = layout::OUR_STATE;
    let Some(dir) = Dir::open_root(project)? else {
        return Ok(());
    };
    let Some(ours) = dir.child(first)? else {
        return Ok(());
    };
    let Some(state) = ours.child(second)? else {
        return Ok(());
    };
    if state.stamp(layout::TEAM_STATE)?.is_none() {
        return Ok(());
    }
    let Some(_lock) = ProjectLock::take(&dir)? else {
        return Ok(());
    };
    let Some((bytes, _)) = state.read(layout::TEAM_STATE)? else {
        return Ok(());
    };
    let told: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if told["team"] == team.as_str() {
        state.remove(layout::TEAM_STATE)?;
    }
    Ok(())
}

fn still_alive(team: &TeamName, who: &[String], force: bool) -> AppError {
    let hint = if force {
        // What is left is not ours to end: another machine's, or another program's.
        format!(
            "end them where they run, wait until `teamster worker list --team {team}` calls nobody alive, and try again"
        )
    } else {
        format!(
            "`teamster shutdown --team {team}` stops its workers; --force ends them and removes the team"
        )
    };
    AppError::new(
        ErrorKind::Conflict,
        format!("team {team} is still alive: {}", who.join(", ")),
    )
    .hint(hint)
}
