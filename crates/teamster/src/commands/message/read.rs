//! `teamster message read`

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use teamster_store::Delivery;

use super::{heading, indented};
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{line, plain};

/// Read what was not acknowledged yet, as it was written
#[derive(Args, Debug)]
#[command(after_help = "\
Without --ack the same messages come again next time: acknowledge them when they have been dealt with.

Examples:
  teamster message read --as worker-1
  teamster message read --as worker-1 --ack --limit 10 --json
  teamster message read --as lead")]
pub struct Read {
    #[command(flatten)]
    team: TeamArg,
    /// Whose mail: a worker or `lead` [default: `TEAMSTER_WORKER`]
    #[arg(long = "as", value_name = "NAME")]
    reader: Option<String>,
    /// Acknowledge what is read
    #[arg(long)]
    ack: bool,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl Read {
    pub fn run(self, context: &Context) -> Result {
        let reader = context.identity.reader(self.reader.as_deref())?;
        let team = context.team(self.team.team.as_deref())?;
        let limit = self.limit.unwrap_or(usize::MAX);
        let delivery = context.store()?.receive(&team, &reader, limit, self.ack)?;
        context.out.answer(
            || {
                let messages: Vec<Value> = delivery
                    .messages
                    .iter()
                    .map(|message| Value::Object(message.as_object().clone()))
                    .collect();
                json!({ "messages": messages, "skipped": delivery.skipped })
            },
            || text(&delivery, reader.name()),
        )
    }
}

fn text(delivery: &Delivery, reader: &str) -> String {
    let mut text = String::new();
    for message in &delivery.messages {
        let _ = write!(
            text,
            "{}  ({})\n{}",
            heading(message),
            line(message.id()),
            indented(&plain(message.content()))
        );
    }
    if delivery.messages.is_empty() {
        let _ = writeln!(text, "no new messages for {reader}");
    }
    if delivery.skipped > 0 {
        let _ = writeln!(
            text,
            "{} lines that are no messages were skipped",
            delivery.skipped
        );
    }
    text
}
