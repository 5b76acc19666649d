//! Implements `teamster cancel`.

use clap::Args;
use serde_json::json;
use teamster_app::runs;
use teamster_journal::payload::StopLevel;

use crate::cli::TeamArgument;
use crate::context::Context;
use crate::error::Result;
use crate::shown::display_line;

/// Cancel a team's run, from any terminal and at any stage
///
/// Its workers are stopped, their work is kept on their branches, and the run ends as cancelled (13). This works for a run
/// in another terminal, a detached run, and a run that waits for a decision on its plan or at its gate, with a host or without.
/// `teamster run --resume TEAM` continues it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster cancel fix-auth   # exits 3
  teamster cancel fix-auth --drain   # exits 3

Exit codes:
  0  the run is cancelled; the `teamster run` that hosts it exits with 13
  3  there is no such team, or it has no run
  5  the run has already ended
  6  called by an agent: only a person can cancel a run")]
pub struct CancelArgs {
    #[command(flatten)]
    team: TeamArgument,
    /// Let workers finish their current tasks
    #[arg(long, conflicts_with = "force")]
    drain: bool,
    /// Kill all workers at once, and the host if it does not exit
    #[arg(long)]
    force: bool,
}

impl CancelArgs {
    pub fn run(self, context: &Context) -> Result {
        context.must_be_a_person("cancelling a run")?;
        let team = self.team.selector().find(context)?;
        let level = match (self.force, self.drain) {
            (true, _) => StopLevel::Kill,
            (false, true) => StopLevel::Drain,
            (false, false) => StopLevel::Stop,
        };
        let out = context.out;
        let finished = runs::cancel(context, &team, level, &mut |text| out.remark(text))?;
        let word = finished.end.word();
        out.answer(
            || json!({ "team": team, "outcome": word, "reason": finished.reason }),
            || {
                let reason = display_line(&finished.reason);
                format!("{word}: {reason}\nresume: `teamster run --resume {team}`\n")
            },
        )
    }
}
