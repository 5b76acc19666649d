//! `teamster message broadcast`

use clap::Args;
use serde_json::json;
use teamster_app::messages::{self, ALL};

use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;

/// Send a message to every member
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message broadcast \"Tests must stay green\"")]
pub struct Broadcast {
    #[command(flatten)]
    team: TeamArg,
    /// The sender [default: `TEAMSTER_WORKER`, else `lead`]
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// What it says, at most 64 KiB
    text: String,
}

impl Broadcast {
    pub fn run(self, context: &Context) -> Result {
        let from = context.actor.sender(self.from.as_deref(), false)?;
        let team = context.team(self.team.team.as_deref())?;
        let (_, sent) = messages::send(context, &team, from, ALL, self.text)?;
        context.out.answer(
            || json!({ "sent": sent.len() }),
            || format!("sent to {} members", sent.len()),
        )
    }
}
