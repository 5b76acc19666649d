//! Implements `teamster merge`.

use clap::Args;
use serde_json::json;
use teamster_app::runs::{self, MergeStart};
use teamster_types::TeamName;

use super::run;
use crate::context::Context;
use crate::error::Result;

/// Merge what the workers of a team have finished without a run
///
/// Finished tasks are merged in the order of their dependencies into the branch omc-team/TEAM/integration, and the checks are
/// run on that. Then it waits for you: `teamster approve` lands it on your branch, `teamster reject` does not, `teamster
/// revise` adds a task. Workers go on meanwhile. What conflicts is not merged and is named with the reference that keeps it;
/// the rest is merged.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster merge crew   # exits 3
  teamster merge crew --verify 'make test'   # exits 3

Exit codes:
  0  merged and waiting for you, or nothing to merge
  4  a run of the team is not over, or somebody else is merging
  11 a check failed
  14 some finished tasks could not be merged")]
pub struct MergeArgs {
    /// The team
    #[arg(value_name = "TEAM")]
    team: String,
    /// A command that verifies the merged work; repeatable [default: none]
    #[arg(long, value_name = "CMD")]
    verify: Vec<String>,
}

impl MergeArgs {
    pub fn run(self, context: &Context) -> Result {
        let team: TeamName = self.team.parse()?;
        match runs::merge(context, &team, &self.verify)? {
            MergeStart::Nothing => context.out.answer(
                || json!({ "type": "result", "team": team, "outcome": "nothing_to_merge", "exitCode": 0 }),
                || format!("no finished task of {team} waits to be merged\n"),
            ),
            MergeStart::Ready(ready) => run::merge(context, &team, *ready),
        }
    }
}
