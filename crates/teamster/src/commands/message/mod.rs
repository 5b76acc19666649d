//! `teamster message …`

mod ack;
mod broadcast;
mod list;
mod read;
mod send;
mod tail;

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use teamster_store::{Outgoing, Read, Recipient};
use teamster_types::json::Object;
use teamster_types::message::Message as Letter;
use teamster_types::quote::ends_line;
use teamster_types::{TeamName, WorkerName};

use crate::context::Context;
use crate::error::{AppError, Result};
use crate::shown::{line, moment};
pub use send::deliver;

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

/// A plain message.
fn outgoing(from: String, to: Recipient, content: String) -> Result<Outgoing> {
    if content.is_empty() {
        return Err(AppError::refused("the message is empty").hint("say something"));
    }
    Ok(Outgoing {
        from,
        to,
        kind: "message".to_owned(),
        content,
        extra: Object::new(),
    })
}

/// Whom a name on the command line means. A teammate of Claude Code may have a name that no worker of ours could
/// have; it counts only if the registry lists exactly that one.
fn recipient(read: &dyn Read, team: &TeamName, name: &str) -> Result<Recipient> {
    match name {
        "lead" => return Ok(Recipient::Lead),
        "all" => return Ok(Recipient::All),
        _ => {}
    }
    if let Err(error) = name.parse::<WorkerName>() {
        let config = read.team(team)?;
        if !config.members().iter().any(|member| member.name == name) {
            return Err(error.into());
        }
    }
    Ok(Recipient::Worker(name.to_owned()))
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

fn indented(text: &str) -> String {
    let mut shifted = String::new();
    for line in text.trim_end_matches(ends_line).split(ends_line) {
        let _ = writeln!(shifted, "  {line}");
    }
    shifted
}
