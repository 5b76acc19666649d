//! `teamster zombies reap`

use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_claude::zombies;
use teamster_fs::proc::Machine;

use super::{look, words};
use crate::commands::span;
use crate::context::Context;
use crate::error::{CommandError, ErrorKind, Result};
use crate::shown::redacted;

/// Remove what is over
#[derive(Args, Debug)]
#[command(after_help = "\
Teams go to the trash, where they stay for 7 days: `teamster zombies restore TEAM` brings one
back. Stale locks, temp files of dead processes and heartbeats of dead workers are removed. No
team with a sign of life is touched, at no age, nor anything of another user. To find nothing
is no failure.

Examples:
  teamster zombies reap
  teamster zombies reap --ttl 7d --dry-run --json")]
pub struct Reap {
    /// From which age on a team without a sign of life is over
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "24h")]
    ttl: Duration,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Also end worker processes without a team that are proven to be ours. No worker carries that proof yet, so none
    /// is ever ended; the list says how to end one by hand
    #[arg(long)]
    kill: bool,
}

impl Reap {
    pub fn run(self, context: &Context) -> Result {
        context.identity.must_be_person("removing what is over")?;
        let machine = Machine::read();
        let outcome = zombies::reap(&look(context, &machine, self.ttl)?, self.dry_run)?;
        if self.kill {
            context
                .out
                .remark("--kill: no process that runs is proven to be ours; none was ended");
        }
        context.out.answer(
            || {
                redacted(json!({
                    "zombies": outcome.zombies,
                    "purged": outcome.purged,
                    "problems": outcome.problems,
                    "killed": 0,
                    "dryRun": self.dry_run,
                }))
            },
            || words::done(&outcome, self.dry_run, context.out.has_colour()),
        )?;
        let failed = outcome.zombies.iter();
        let failed = failed.filter(|done| done.problem.is_some()).count();
        match failed + outcome.problems.len() {
            0 => Ok(()),
            count => Err(CommandError::new(
                ErrorKind::Failed,
                format!("{count} of these could not be removed"),
            )
            .hint("each line above says why; the rest has been done")),
        }
    }
}
