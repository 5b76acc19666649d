//! `teamster message read`

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use teamster_store::{Delivery, Reader};
use teamster_types::message::Message;

use super::{heading, indented};
use crate::cli::TeamArg;
use crate::commands::agent::BridgeClient;
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
        if let Some(bridge) = BridgeClient::find() {
            if self.reader.is_some() {
                context.actor.reader(self.reader.as_deref())?;
            }
            return bridge.read(context);
        }
        let reader = context.actor.reader(self.reader.as_deref())?;
        let team = context.team(self.team.team.as_deref())?;
        let limit = self.limit.unwrap_or(usize::MAX);
        let store = context.store()?;
        let delivery = store.receive(&team, &reader, limit, false)?;
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
        )?;
        // Only what the reader has in its hands is acknowledged: whoever is killed before this gets it again.
        if self.ack {
            for id in last_of_each_box(&delivery, &reader) {
                store.acknowledge(&team, &reader, id)?;
            }
        }
        Ok(())
    }
}

/// The messages up to which everything is acknowledged. A worker has one box; the lead has one for each sender.
fn last_of_each_box<'a>(delivery: &'a Delivery, reader: &Reader) -> Vec<&'a str> {
    let last = match reader {
        Reader::Worker(_) => delivery.messages.last().into_iter().collect(),
        Reader::Lead => {
            let mut last: BTreeMap<&str, &Message> = BTreeMap::new();
            for message in &delivery.messages {
                last.insert(message.from(), message);
            }
            last.into_values().collect::<Vec<_>>()
        }
    };
    last.into_iter().map(Message::id).collect()
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
