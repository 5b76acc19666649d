//! `teamster message …`

mod ack;
mod broadcast;
mod list;
mod read;
mod send;
mod tail;

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use teamster_types::message::Message as Letter;
use teamster_types::quote::ends_line;

use crate::context::Context;
use crate::error::Result;
use crate::shown::{line, moment};

/// Send, read and follow messages
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message send --to worker-1 \"Please look at task 3 first\"
  teamster message read --as worker-1 --ack")]
pub struct Message {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Send(send::Send),
    Broadcast(broadcast::Broadcast),
    Read(read::Read),
    Ack(ack::Ack),
    List(list::List),
    Tail(tail::Tail),
}

impl Message {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            Command::Send(command) => command.run(context),
            Command::Broadcast(command) => command.run(context),
            Command::Read(command) => command.run(context),
            Command::Ack(command) => command.run(context),
            Command::List(command) => command.run(context),
            Command::Tail(command) => command.run(context),
        }
    }
}

/// `2026-02-07 12:00:00  lead → worker-1` and, unless it is a plain message, its type. The content follows.
fn heading(message: &Letter) -> String {
    let at = message.timestamp().map_or_else(String::new, moment);
    let mut text = format!("{at}  {} → {}", line(message.from()), line(message.to()));
    if message.kind() != "message" {
        let _ = write!(text, "  [{}]", line(message.kind()));
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
