//! Implements `teamster task claim` and the commands that need the claim's token: `renew`, `complete`, `fail` and `release`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_app::runs;
use teamster_store::{ClaimRequest, Claimed};
use teamster_types::TaskId;
use teamster_types::task::Token;
use teamster_view::tasks::{TaskView, judged};

use super::list::task_text;
use super::{TaskSelector, answer_task, result_object};
use crate::cli::TeamSelector;
use crate::commands::span;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::input::read_named;
use crate::shown::moment;

/// Claim a task and print it with the token needed to finish it
#[derive(Args, Debug)]
#[command(after_help = "\
Without an id the worker gets its own tasks first, then unassigned ones that it can do, the lowest
number first. Exit code 5: nothing is claimable now. Exit code 4: that task is taken.

Examples:
  teamster task claim --worker worker-1
  teamster task claim --worker worker-2 3 --lease 10m --json
  teamster task claim --worker worker-2 2   # exits 4")]
pub struct TaskClaimArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// The claiming worker [default: `TEAMSTER_WORKER`]
    #[arg(long)]
    worker: Option<String>,
    /// Claim this task instead of the next one
    id: Option<String>,
    /// How long the claim lasts unless renewed [default: the setting `claim.lease`, 120s]
    #[arg(long, value_name = "TIME", value_parser = span)]
    lease: Option<Duration>,
}

impl TaskClaimArgs {
    pub fn run(self, context: &Context) -> Result {
        let request = ClaimRequest {
            worker: context.actor.worker(self.worker.as_deref(), "--worker")?,
            id: self.id.as_deref().map(str::parse::<TaskId>).transpose()?,
            lease: self.lease,
        };
        let team = self.team.find(context)?;
        runs::may_hold_claims(context, &team)?;
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
            || claim_text(&view, &claimed),
        );
        if answered.is_err() {
            // The token was not delivered, so the task could never be finished: release it.
            let actor = &context.actor.recorded_as();
            store.release(&team, actor, claimed.task.id(), Some(&claimed.token))?;
            return Err(AppError::new(
                ErrorKind::Failed,
                format!(
                    "the claim of task {} could not be printed and was released",
                    claimed.task.id()
                ),
            )
            .hint("check where the output goes, and claim again"));
        }
        Ok(())
    }
}

fn claim_text(view: &TaskView, claimed: &Claimed) -> String {
    format!(
        "{}\ntoken {}\nyours until {} UTC; `teamster task renew {} --token TOKEN` extends it\n",
        task_text(view, None),
        claimed.token.reveal(),
        moment(claimed.leased_until),
        view.task().id(),
    )
}

/// Extend the lease of a claim
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task renew 2 --token \"$TOKEN\"
  teamster task renew 2 --token \"$TOKEN\" --lease 10m")]
pub struct TaskRenewArgs {
    #[command(flatten)]
    task: TaskSelector,
    /// The token that `task claim` printed
    #[arg(long)]
    token: String,
    /// How long it lasts from now [default: the setting `claim.lease`, 120s]
    #[arg(long, value_name = "TIME", value_parser = span)]
    lease: Option<Duration>,
}

impl TaskRenewArgs {
    pub fn run(self, context: &Context) -> Result {
        let (team, id) = self.task.find(context)?;
        runs::may_hold_claims(context, &team)?;
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

/// The size limit for a result, which is a summary; larger output belongs into files of the project.
const RESULT_LIMIT: usize = 256 * 1024;

/// Mark a claimed task as completed
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task complete 2 --token \"$TOKEN\"
  teamster task complete 2 --token \"$TOKEN\" --result result.json
  echo 'all tests pass' | teamster task complete 2 --token \"$TOKEN\" --result -")]
pub struct TaskCompleteArgs {
    #[command(flatten)]
    task: TaskSelector,
    /// The token that `task claim` printed
    #[arg(long)]
    token: String,
    /// A file with the result, JSON or text; `-` is the standard input
    #[arg(long, value_name = "FILE")]
    result: Option<PathBuf>,
}

impl TaskCompleteArgs {
    pub fn run(self, context: &Context) -> Result {
        let (team, id) = self.task.find(context)?;
        runs::may_hold_claims(context, &team)?;
        let result = match &self.result {
            Some(file) => Some(result_object(&read_named(file, RESULT_LIMIT)?)),
            None => None,
        };
        let store = context.store()?;
        let task = store.complete(&team, &id, &Token::new(self.token), result)?;
        answer_task(context, &team, task, "finished")
    }
}

/// Record a failed attempt; the fifth is final
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task fail 2 --token \"$TOKEN\" --error \"the tests do not compile\"")]
pub struct TaskFailArgs {
    #[command(flatten)]
    task: TaskSelector,
    /// The token that `task claim` printed
    #[arg(long)]
    token: String,
    /// What went wrong
    #[arg(long, value_name = "TEXT")]
    error: String,
}

impl TaskFailArgs {
    pub fn run(self, context: &Context) -> Result {
        let (team, id) = self.task.find(context)?;
        runs::may_hold_claims(context, &team)?;
        let store = context.store()?;
        let task = store.fail(&team, &id, &Token::new(self.token), &self.error)?;
        answer_task(context, &team, task, "recorded a failure of")
    }
}

/// Release a claimed task without finishing it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task release 2 --token \"$TOKEN\"
  teamster task release 2 --force")]
pub struct TaskReleaseArgs {
    #[command(flatten)]
    task: TaskSelector,
    #[command(flatten)]
    right: ReleaseAuthority,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct ReleaseAuthority {
    /// The token that `task claim` printed
    #[arg(long)]
    token: Option<String>,
    /// Release it no matter which worker holds the claim; for people only
    #[arg(long)]
    force: bool,
}

impl TaskReleaseArgs {
    pub fn run(self, context: &Context) -> Result {
        if self.right.force {
            context
                .actor
                .must_be_person("taking a task from its worker")?;
        }
        let token = self.right.token.map(Token::new);
        let (team, id) = self.task.find(context)?;
        runs::may_hold_claims(context, &team)?;
        let actor = &context.actor.recorded_as();
        let task = context
            .store()?
            .release(&team, actor, &id, token.as_ref())?;
        answer_task(context, &team, task, "released")
    }
}
