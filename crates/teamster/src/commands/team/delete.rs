//! Implements `teamster team delete`.

use std::fmt::Write as _;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use teamster_app::workers::{self, StopRequest};
use teamster_fs::{Dir, OrTrace as _, layout};
use teamster_run::host::ProjectLock;
use teamster_types::TeamName;
use teamster_types::team::TeamOrigin;
use teamster_view::teams::{LiveProcess, alive};

use crate::commands::shutdown;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};

/// Delete a team that has no running workers
#[derive(Args, Debug)]
#[command(after_help = "\
A team with a running process is not removed: stop its workers with `teamster shutdown`. Its files
are kept in the trash for 7 days, and its journal with the project's reports.

Examples:
  teamster team delete fix-auth --force")]
pub struct TeamDeleteArgs {
    /// The team
    #[arg(value_name = "TEAM")]
    name: String,
    /// Delete it even if a claim's lease has not expired or its run or workers are alive: these are ended first. If one
    /// of them cannot be ended from here, nothing is changed
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
                "team {team} belongs to Claude Code and cannot be removed by teamster"
            ))
            .hint("its own session removes it when it ends"));
        }
        if self.force {
            let beyond = workers::unreachable_members(context, &team)?;
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
            let who: Vec<String> = living.iter().map(LiveProcess::to_string).collect();
            return Err(still_alive(&team, &who, self.force));
        }
        let deleted = store.delete_team(&team, &context.actor.recorded_as(), self.force)?;
        if let Some(project) = config.project() {
            // The team is deleted either way.
            let project = Path::new(project);
            forget_stage(project, &team).or_trace("remove the state of a deleted team");
            workers::forget_dead_launches(context, project, &team)
                .or_trace("remove the launch records of a deleted team");
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

/// Removes the file that shows other programs the stage of the team's run. If the file names another team, it belongs
/// to the host of that team's run and is kept.
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
        // Whatever is left cannot be ended from here: it belongs to another machine or another program.
        format!(
            "end them where they run, wait until `teamster worker list --team {team}` shows none of them alive, and try again"
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
