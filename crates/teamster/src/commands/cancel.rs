//! Implements `teamster cancel`.

use clap::Args;
use serde_json::json;
use teamster_app::runs;
use teamster_journal::payload::StopLevel;

use crate::context::Context;
use crate::error::Result;
use crate::shown::viewed_line;

/// Cancel the run of a team, from anywhere and wherever it is
///
/// Its workers are stopped, what they have is kept on their branches, and the run ends as cancelled (13). That holds for a run
/// in another terminal, a detached one, and one that waits at its plan or at its gate, with a host or without.
/// `teamster run --resume TEAM` takes it up again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster cancel fix-auth   # exits 3
  teamster cancel fix-auth --drain   # exits 3

Exit codes:
  0  the run is cancelled; `teamster run` itself, which hosts it, exits with 13
  3  there is no such team, or it has no run
  5  the run is over already
  6  an agent called it: cancelling is for people")]
pub struct CancelArgs {
    /// The team [default: `TEAMSTER_TEAM`, else the only team of this project]
    #[arg(value_name = "TEAM")]
    team: Option<String>,
    /// Let everyone finish the current task
    #[arg(long, conflicts_with = "force")]
    drain: bool,
    /// Kill everyone at once, and the host too if it does not end
    #[arg(long)]
    force: bool,
}

impl CancelArgs {
    pub fn run(self, context: &Context) -> Result {
        context.must_be_a_person("cancelling a run")?;
        let team = context.team(self.team.as_deref())?;
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
                let reason = viewed_line(&finished.reason);
                format!("{word}: {reason}\n`teamster run --resume {team}` goes on\n")
            },
        )
    }
}
