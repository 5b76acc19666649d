//! Implements the commands that show and acknowledge messages: `teamster message read`, `ack`, `list` and `tail`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use teamster_journal::EventType;
use teamster_store::{Change, Delivery, ReadStore, Reader, StoredMessage};
use teamster_types::message::Message;
use teamster_types::text::fit;
use teamster_types::{TeamName, Time};
use teamster_view::messages::{DELIVERY_DUE, to_json};

use super::{heading, indented};
use crate::cli::TeamSelector;
use crate::commands::agent::BridgeClient;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{ago, display_line, display_text, plain, plain_line, redacted};
use crate::table::{TableCell, TextTable, Tone};

/// Read unacknowledged messages
#[derive(Args, Debug)]
#[command(after_help = "\
Without --ack the same messages are shown next time: acknowledge them once you have handled them.

Examples:
  teamster message read --as worker-1
  teamster message read --as worker-1 --ack --limit 10 --json
  teamster message read --as lead")]
pub struct MessageReadArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// Whose messages: a worker's name or `lead` [default: `TEAMSTER_WORKER`]
    #[arg(long = "as", value_name = "NAME")]
    reader: Option<String>,
    /// Acknowledge the messages that are read
    #[arg(long)]
    ack: bool,
    /// The maximum number of messages
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl MessageReadArgs {
    pub fn run(self, context: &Context) -> Result {
        if let Some(bridge) = BridgeClient::find(context, self.team.team.as_deref())? {
            if self.reader.is_some() {
                context.actor.reader(self.reader.as_deref())?;
            }
            return bridge.read(context);
        }
        let reader = context.actor.reader(self.reader.as_deref())?;
        let team = self.team.find(context)?;
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
            || delivery_text(&delivery, reader.name()),
        )?;
        // Acknowledge only after the output was written: a reader that is killed before this gets the messages again.
        if self.ack {
            for id in last_of_each_box(&delivery, &reader) {
                store.acknowledge(&team, &reader, id)?;
            }
        }
        Ok(())
    }
}

/// Returns the last message of each box, up to which everything is acknowledged. A worker has one box; the lead has
/// one for each sender.
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

fn delivery_text(delivery: &Delivery, reader: &str) -> String {
    let mut text = String::new();
    for message in &delivery.messages {
        let _ = write!(
            text,
            "{}  ({})\n{}",
            heading(message),
            plain_line(message.id()),
            indented(&plain(message.content()))
        );
    }
    if delivery.messages.is_empty() {
        let _ = writeln!(text, "no new messages for {reader}");
    }
    if delivery.skipped > 0 {
        let _ = writeln!(
            text,
            "{} lines that are not messages were skipped",
            delivery.skipped
        );
    }
    text
}

/// Acknowledge a message and all messages before it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message ack --as worker-1 \"$MESSAGE\"")]
pub struct MessageAckArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// Whose messages: a worker's name or `lead` [default: `TEAMSTER_WORKER`]
    #[arg(long = "as", value_name = "NAME")]
    reader: Option<String>,
    /// The message's id
    id: String,
}

impl MessageAckArgs {
    pub fn run(self, context: &Context) -> Result {
        let reader = context.actor.reader(self.reader.as_deref())?;
        let team = self.team.find(context)?;
        let count = context.store()?.acknowledge(&team, &reader, &self.id)?;
        context.out.answer(
            || json!({ "acked": count }),
            || match count {
                1 => "acknowledged 1 message".to_owned(),
                count => format!("acknowledged {count} messages"),
            },
        )
    }
}

const CONTENT_WIDTH: usize = 60;

/// List all messages with their delivery states
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message list
  teamster message list --json")]
pub struct MessageListArgs {
    #[command(flatten)]
    team: TeamSelector,
}

impl MessageListArgs {
    pub fn run(self, context: &Context) -> Result {
        let team = self.team.find(context)?;
        let read = context.read()?;
        let messages = read.messages(&team)?;
        let now = read.now();
        context.out.answer(
            || {
                let shown: Vec<Value> = messages.iter().map(to_json).map(redacted).collect();
                json!({ "messages": shown })
            },
            || {
                if messages.is_empty() {
                    return format!("team {team} has no messages");
                }
                let mut table = TextTable::new(["SENT", "FROM", "TO", "STATE", "CONTENT"]);
                for filed in &messages {
                    table.row(message_cells(filed, now));
                }
                table.render(context.out.has_colour())
            },
        )
    }
}

fn message_cells(filed: &StoredMessage, now: Time) -> [TableCell; 5] {
    let message = &filed.message;
    let sent = message.timestamp();
    let (state, tone) = match (filed.acked_at, filed.delivered_at) {
        (Some(_), _) => ("acknowledged", Tone::Faint),
        (None, Some(_)) => ("delivered", Tone::Good),
        _ if sent.is_some_and(|sent| now.since(sent) > DELIVERY_DUE) => ("undelivered", Tone::Bad),
        _ => ("sent", Tone::Notable),
    };
    [
        ago(now, sent).into(),
        display_line(message.from()).into(),
        display_line(message.to()).into(),
        TableCell::new(state, tone),
        fit(&display_line(message.content()), CONTENT_WIDTH).into(),
    ]
}

/// The timeout of one wait for changes. Nothing depends on it: a longer one only wakes up less often.
const PATIENCE: Duration = Duration::from_secs(30);

/// Show the latest messages and follow new ones
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message tail
  teamster message tail --last 5 --json
  teamster message tail --follow   # until Ctrl-C")]
pub struct MessageTailArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// Keep showing new messages until interrupted
    #[arg(long)]
    follow: bool,
    /// How many past messages to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: usize,
}

impl MessageTailArgs {
    pub fn run(self, context: &Context) -> Result {
        let team = self.team.find(context)?;
        let read = context.read()?;
        // The watch starts before the first read, so that no message is lost in between.
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
                || latest.iter().map(message_text).collect(),
            );
        };
        for filed in latest {
            show_message(context, filed)?;
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
                        show_message(context, &filed)?;
                    }
                }
            }
        }
    }
}

fn show_message(context: &Context, filed: &StoredMessage) -> Result {
    context
        .out
        .answer(|| redacted(to_json(filed)), || message_text(filed))
}

/// Returns all messages by the time they were sent; those of one box keep their order.
fn in_order(read: &dyn ReadStore, team: &TeamName) -> Result<Vec<StoredMessage>> {
    let mut messages = read.messages(team)?;
    messages.sort_by_key(|filed| filed.message.timestamp());
    Ok(messages)
}

fn message_text(filed: &StoredMessage) -> String {
    let content = display_text(filed.message.content());
    format!("{}\n{}", heading(&filed.message), indented(&content))
}
