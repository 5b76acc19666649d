//! `teamster team join`

use clap::Args;
use serde_json::json;
use teamster_types::TeamName;
use teamster_types::team::NewMember;

use crate::context::Context;
use crate::error::Result;

/// Add a worker to a team, or change the client it drives
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster team join fix-auth worker-3
  teamster team join fix-auth worker-2 --provider codex")]
pub struct Join {
    /// The team
    #[arg(value_name = "TEAM")]
    name: String,
    /// The worker's name: 1 to 64 of A-Z, a-z, 0-9, `_` and `-`
    worker: String,
    /// The client it drives: claude, codex, gemini, command:…, scripted:…
    #[arg(long, default_value = "", hide_default_value = true)]
    provider: String,
}

impl Join {
    pub fn run(self, context: &Context) -> Result {
        let team: TeamName = self.name.parse()?;
        let member = NewMember {
            name: self.worker.parse()?,
            provider: self.provider,
            capabilities: None,
        };
        let config = context.store()?.join_team(&team, &member)?;
        context.out.answer(
            || json!({ "team": config.as_object() }),
            || format!("{} is a member of team {team}", member.name),
        )
    }
}
