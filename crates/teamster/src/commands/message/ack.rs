//! `teamster message ack`

use clap::Args;
use serde_json::json;

use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;

/// Acknowledge a message and everything before it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message ack --as worker-1 \"$MESSAGE\"")]
pub struct Ack {
    #[command(flatten)]
    team: TeamArg,
    /// Whose mail: a worker or `lead` [default: `TEAMSTER_WORKER`]
    #[arg(long = "as", value_name = "NAME")]
    reader: Option<String>,
    /// The message's id
    id: String,
}

impl Ack {
    pub fn run(self, context: &Context) -> Result {
        let reader = context.actor.reader(self.reader.as_deref())?;
        let team = context.team(self.team.team.as_deref())?;
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
