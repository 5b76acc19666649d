//! Implements the commands of sessions with an approval gate: `teamster session`, `state` and `ticket` in their own
//! files, `teamster finding` here.

mod session;
mod state;
mod ticket;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use teamster_fs::Dir;
use teamster_party::{Party, Phase};
use teamster_store::{Clock, SystemClock};
use teamster_types::{TeamName, Time};

use crate::commands::agent::BridgeClient;
use crate::context::Context;
use crate::error::{AppError, Result};
use crate::input::read_named;
pub use session::SessionArgs;
pub use state::StateArgs;
pub use ticket::TicketArgs;

/// The message when there is no session.
const NONE: &str =
    "there is no session here; `teamster session init --team TEAM --task TEXT` starts one";

fn find(context: &Context) -> Result<Option<Party>> {
    match Dir::open_root(&context.layout.project)? {
        Some(project) => Ok(Party::find(&project)?),
        None => Ok(None),
    }
}

/// Returns the project's session, if there is one.
fn session(context: &Context) -> Result<Option<(Party, teamster_party::PartySession)>> {
    let Some(party) = find(context)? else {
        return Ok(None);
    };
    Ok(party.session()?.map(|session| (party, session)))
}

/// Returns the session of a team, if it has one: its own, or the project's if that belongs to the team.
fn session_of(
    context: &Context,
    team: &TeamName,
) -> Result<Option<(Party, teamster_party::PartySession)>> {
    let Some(project) = Dir::open_root(&context.layout.project)? else {
        return Ok(None);
    };
    let Some(party) = Party::find_for(&project, team)? else {
        return Ok(None);
    };
    let session = party.session()?;
    let session = session.filter(|session| session.team == team.as_str());
    Ok(session.map(|session| (party, session)))
}

/// Returns the sessions beside the project's, by the names of their folders.
fn beside(context: &Context) -> Result<Vec<(String, teamster_party::PartySession)>> {
    match Dir::open_root(&context.layout.project)? {
        Some(project) => Ok(Party::beside(&project)?),
        None => Ok(Vec::new()),
    }
}

/// Returns the project's sessions; fails if there never was one.
fn party(context: &Context) -> Result<Party> {
    find(context)?.ok_or_else(|| {
        AppError::not_found(format!(
            "there is no session in {}",
            context.layout.project.display()
        ))
        .hint("`teamster session init --team TEAM --task TEXT` starts one")
    })
}

fn now() -> Time {
    SystemClock.now()
}

/// The size limit for a finding, which people have to read.
const LONGEST: usize = 1024 * 1024;

/// Record the findings of a session's phases
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster finding add analyzing notes.md")]
pub struct FindingArgs {
    #[command(subcommand)]
    command: FindingCommand,
}

#[derive(Debug, Subcommand)]
enum FindingCommand {
    Add(FindingAddArgs),
}

/// Add a finding; a phase cannot be left without one
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster finding add analyzing notes.md
  echo \"it was the cache\" | teamster finding add reviewing -")]
struct FindingAddArgs {
    /// The phase: analyzing, planning, executing or reviewing
    phase: String,
    /// A Markdown file; `-` is the standard input
    file: PathBuf,
}

impl FindingArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            FindingCommand::Add(command) => command.run(context),
        }
    }
}

impl FindingAddArgs {
    fn run(self, context: &Context) -> Result {
        let phase = Phase::of(&self.phase)?;
        let bytes = read_named(&self.file, LONGEST)?;
        let text = String::from_utf8_lossy(&bytes);
        if let Some(bridge) = BridgeClient::find(context, None)? {
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
