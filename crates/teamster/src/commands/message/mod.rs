//! Implements `teamster message`: `send.rs` has what sends messages, `inbox.rs` what shows and acknowledges them.

mod inbox;
mod send;

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use teamster_types::message::Message;
use teamster_types::text::ends_line;

use self::inbox::{MessageAckArgs, MessageListArgs, MessageReadArgs, MessageTailArgs};
use self::send::{MessageBroadcastArgs, MessageSendArgs};
use crate::context::Context;
use crate::error::Result;
use crate::shown::{moment, plain_line};

/// Send, read and follow messages
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message send --to worker-1 \"Please look at task 3 first\"
  teamster message read --as worker-1 --ack")]
pub struct MessageArgs {
    #[command(subcommand)]
    command: MessageCommand,
}

#[derive(Debug, Subcommand)]
enum MessageCommand {
    Send(MessageSendArgs),
    Broadcast(MessageBroadcastArgs),
    Read(MessageReadArgs),
    Ack(MessageAckArgs),
    List(MessageListArgs),
    Tail(MessageTailArgs),
}

impl MessageArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            MessageCommand::Send(command) => command.run(context),
            MessageCommand::Broadcast(command) => command.run(context),
            MessageCommand::Read(command) => command.run(context),
            MessageCommand::Ack(command) => command.run(context),
            MessageCommand::List(command) => command.run(context),
            MessageCommand::Tail(command) => command.run(context),
        }
    }
}

/// Returns `2026-02-07 12:00:00  lead → worker-1` and the type, unless it is a plain message. The content follows.
fn heading(message: &Message) -> String {
    let at = message.timestamp().map_or_else(String::new, moment);
    let mut text = format!(
        "{at}  {} → {}",
        plain_line(message.from()),
        plain_line(message.to())
    );
    if message.kind() != "message" {
        let _ = write!(text, "  [{}]", plain_line(message.kind()));
    }
    text
}

pub(super) fn indented(text: &str) -> String {
    let mut shifted = String::new();
    for line in text.trim_end_matches(ends_line).split(ends_line) {
        let _ = writeln!(shifted, "  {line}");
    }
    shifted
}
