//! Implements `teamster merge`.

use clap::Args;
use serde_json::json;
use teamster_app::runs::{self, MergeStart};

use super::run;
use crate::cli::TeamArgument;
use crate::context::Context;
use crate::error::Result;

/// Merge the finished tasks of a team that has no run
///
/// Finished tasks are merged in the order of their dependencies into the branch omc-team/TEAM/integration, and the checks run
/// there. The result then waits for your decision: `teamster approve` lands it on your branch, `teamster reject` does not,
/// `teamster revise` adds a task. Workers continue meanwhile. A task that conflicts is not merged; it is listed with the
/// reference that keeps its work.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster merge crew   # exits 3
  teamster merge crew --verify 'make test'   # exits 3

Exit codes:
  0  merged and waiting for you, or nothing to merge
  4  the team has an unfinished run, or another merge is in progress
  11 a check failed
  14 some finished tasks could not be merged")]
pub struct MergeArgs {
    #[command(flatten)]
    team: TeamArgument,
    /// A command that verifies the merged work; repeatable [default: none]
    #[arg(long, value_name = "CMD")]
    verify: Vec<String>,
}

impl MergeArgs {
    pub fn run(self, context: &Context) -> Result {
        let team = self.team.selector().find(context)?;
        match runs::merge(context, &team, &self.verify)? {
            MergeStart::Nothing => context.out.answer(
                || json!({ "type": "result", "team": team, "outcome": "nothing_to_merge", "exitCode": 0 }),
                || format!("team {team} has no finished tasks to merge\n"),
            ),
            MergeStart::Ready(ready) => run::merge(context, &team, *ready),
        }
    }
}
