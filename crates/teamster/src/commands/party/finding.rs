//! `teamster finding …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use teamster_party::Phase;

use super::{now, party};
use crate::commands::agent::BridgeClient;
use crate::context::Context;
use crate::error::Result;
use crate::files;

/// A finding is read by people.
const LONGEST: usize = 1024 * 1024;

/// What a phase of a session found out
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster finding add analyzing notes.md")]
pub struct Finding {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(Add),
}

/// Add a finding; a phase is left only when it has one
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster finding add analyzing notes.md
  echo \"it was the cache\" | teamster finding add reviewing -")]
struct Add {
    /// analyzing, planning, executing or reviewing
    phase: String,
    /// A Markdown file; `-` is the standard input
    file: PathBuf,
}

impl Finding {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            Command::Add(command) => command.run(context),
        }
    }
}

impl Add {
    fn run(self, context: &Context) -> Result {
        let phase = Phase::of(&self.phase)?;
        let bytes = files::read_named(&self.file, LONGEST)?;
        let text = String::from_utf8_lossy(&bytes);
        if let Some(bridge) = BridgeClient::find() {
            return bridge.add_finding(context, &self.phase, &text);
        }
        let party = party(context)?;
        let name = party.add_finding(phase, &text, context.actor.name(), now())?;
        context.out.answer(
            || json!({ "phase": phase.as_str(), "file": name }),
            || format!("added findings/{name}"),
        )
    }
}
