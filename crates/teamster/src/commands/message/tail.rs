//! `teamster message tail`

use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_journal::EventType;
use teamster_store::{Change, Filed, Read};
use teamster_types::TeamName;
use teamster_view::messages::to_json;

use super::{heading, indented};
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{redacted, viewed};

/// How long one wait for a change lasts. Nothing depends on it: a longer one would only wake up less often.
const PATIENCE: Duration = Duration::from_secs(30);

/// Show the latest messages, and follow new ones
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message tail
  teamster message tail --last 5 --json
  teamster message tail --follow   # until Ctrl-C")]
pub struct Tail {
    #[command(flatten)]
    team: TeamArg,
    /// Go on with new ones until interrupted
    #[arg(long)]
    follow: bool,
    /// How many to begin with
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: usize,
}

impl Tail {
    pub fn run(self, context: &Context) -> Result {
        let team = context.team(self.team.team.as_deref())?;
        let read = context.read()?;
        // Watched from before the first look, so that nothing falls between the two.
        let watch = if self.follow {
            Some(read.watch(&team, read.position(&team)?)?)
        } else {
            None
        };
        let all = in_order(read, &team)?;
        let latest = &all[all.len().saturating_sub(self.last)..];
        let Some(mut watch) = watch else {
            return context.out.answer(
                || {
                    let shown: Vec<_> = latest
                        .iter()
                        .map(|filed| redacted(to_json(filed)))
                        .collect();
                    json!({ "messages": shown })
                },
                || latest.iter().map(text).collect(),
            );
        };
        for filed in latest {
            show(context, filed)?;
        }
        let mut seen: std::collections::HashSet<String> = all
            .iter()
            .map(|filed| filed.message.id().to_owned())
            .collect();
        loop {
            let changes = watch.wait(PATIENCE)?;
            let may_be_mail = changes.iter().any(|change| match change {
                Change::Event(event) => event.is(EventType::MessageSent),
                Change::Foreign => true,
                Change::Beat(_) | Change::Task(_) => false,
            });
            if may_be_mail {
                for filed in in_order(read, &team)? {
                    if seen.insert(filed.message.id().to_owned()) {
                        show(context, &filed)?;
                    }
                }
            }
        }
    }
}

fn show(context: &Context, filed: &Filed) -> Result {
    context
        .out
        .answer(|| redacted(to_json(filed)), || text(filed))
}

/// All messages by the time they were sent; those of one box keep their order.
fn in_order(read: &dyn Read, team: &TeamName) -> Result<Vec<Filed>> {
    let mut messages = read.messages(team)?;
    messages.sort_by_key(|filed| filed.message.timestamp());
    Ok(messages)
}

fn text(filed: &Filed) -> String {
    let content = viewed(filed.message.content());
    format!("{}\n{}", heading(&filed.message), indented(&content))
}
