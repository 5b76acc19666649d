//! `teamster task renew`

use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_types::TaskId;
use teamster_types::task::Token;
use teamster_view::tasks::judged;

use crate::cli::TeamArg;
use crate::commands::span;
use crate::context::Context;
use crate::error::Result;
use crate::shown::moment;

/// Make a claim last longer, from now on
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task renew 2 --token \"$TOKEN\"
  teamster task renew 2 --token \"$TOKEN\" --lease 10m")]
pub struct Renew {
    #[command(flatten)]
    team: TeamArg,
    /// The task
    id: String,
    /// The proof that `task claim` printed
    #[arg(long)]
    token: String,
    /// How long it lasts from now [default: the setting `claim.lease`, 120s]
    #[arg(long, value_name = "TIME", value_parser = span)]
    lease: Option<Duration>,
}

impl Renew {
    pub fn run(self, context: &Context) -> Result {
        let id: TaskId = self.id.parse()?;
        let team = context.team(self.team.team.as_deref())?;
        let store = context.store()?;
        let claimed = store.renew(&team, &id, &Token::new(self.token), self.lease)?;
        let view = judged(store, &team, claimed.task);
        context.out.answer(
            || {
                json!({
                    "task": view,
                    "fence": claimed.fence,
                    "leasedUntil": claimed.leased_until,
                })
            },
            || {
                format!(
                    "task {id} is yours until {} UTC",
                    moment(claimed.leased_until)
                )
            },
        )
    }
}
