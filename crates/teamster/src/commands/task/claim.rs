//! `teamster task claim`

use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_store::{ClaimRequest, Claimed};
use teamster_types::TaskId;
use teamster_view::tasks::{TaskView, judged};

use super::show;
use crate::cli::TeamArg;
use crate::commands::span;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::moment;

/// Take a task to work on; prints it with the token that finishes it
#[derive(Args, Debug)]
#[command(after_help = "\
Without an id the worker gets its own tasks first, then free ones that it can do, the lowest
number first. Exit code 5: nothing is claimable now. Exit code 4: that task is taken.

Examples:
  teamster task claim --worker worker-1
  teamster task claim --worker worker-2 3 --lease 10m --json
  teamster task claim --worker worker-2 2   # exits 4")]
pub struct Claim {
    #[command(flatten)]
    team: TeamArg,
    /// Who asks [default: `TEAMSTER_WORKER`]
    #[arg(long)]
    worker: Option<String>,
    /// A certain task instead of the next one
    id: Option<String>,
    /// How long the claim lasts unless renewed [default: the setting `claim.lease`, 120s]
    #[arg(long, value_name = "TIME", value_parser = span)]
    lease: Option<Duration>,
}

impl Claim {
    pub fn run(self, context: &Context) -> Result {
        let request = ClaimRequest {
            worker: context.actor.worker(self.worker.as_deref(), "--worker")?,
            id: self.id.as_deref().map(str::parse::<TaskId>).transpose()?,
            lease: self.lease,
        };
        let team = context.team(self.team.team.as_deref())?;
        let store = context.store()?;
        let Some(claimed) = store.claim(&team, &request)? else {
            return Err(AppError::new(
                ErrorKind::Nothing,
                format!("nothing is claimable for {} in team {team}", request.worker),
            )
            .hint("`teamster task list` shows what each task waits for"));
        };
        let view = judged(store, &team, claimed.task.clone());
        let answered = context.out.answer(
            || {
                json!({
                    "task": view,
                    "token": claimed.token,
                    "fence": claimed.fence,
                    "leasedUntil": claimed.leased_until,
                })
            },
            || text(&view, &claimed),
        );
        if answered.is_err() {
            // Nobody has the token, so nobody could ever finish the task: it goes back.
            let actor = context.actor.name();
            store.release(&team, actor, claimed.task.id(), Some(&claimed.token))?;
            return Err(AppError::new(
                ErrorKind::Failed,
                format!(
                    "the claim of task {} could not be answered and was given back",
                    claimed.task.id()
                ),
            )
            .hint("check where the answer goes, and claim again"));
        }
        Ok(())
    }
}

fn text(view: &TaskView, claimed: &Claimed) -> String {
    format!(
        "{}\ntoken {}\nyours until {} UTC; `teamster task renew {} --token TOKEN` makes it longer\n",
        show::text(view, None),
        claimed.token.reveal(),
        moment(claimed.leased_until),
        view.task().id(),
    )
}
