//! `teamster message send`

use clap::Args;
use serde_json::json;
use teamster_app::messages;
use teamster_store::Recipient;
use teamster_types::message::Message;

use crate::cli::TeamArg;
use crate::commands::agent::BridgeClient;
use crate::context::Context;
use crate::error::Result;
use crate::shown::line;

/// Send a message to a worker, the lead or everyone
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message send --to worker-1 \"Please look at task 3 first\"
  teamster message send --to lead --from worker-1 \"The form needs a designer\"
  teamster message send --to all \"Tests must stay green\"")]
pub struct Send {
    #[command(flatten)]
    team: TeamArg,
    /// The recipient: a worker, `lead` or `all`
    #[arg(long, value_name = "NAME")]
    to: String,
    /// The sender [default: `TEAMSTER_WORKER`, else `lead`, or `user` when it goes to the lead]
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// What it says, at most 64 KiB
    text: String,
}

impl Send {
    pub fn run(self, context: &Context) -> Result {
        let from = context
            .actor
            .sender(self.from.as_deref(), self.to == "lead")?;
        if let Some(bridge) = BridgeClient::find() {
            return bridge.send(context, &self.to, &self.text);
        }
        let team = context.team(self.team.team.as_deref())?;
        let (to, sent) = messages::send(context, &team, from, &self.to, self.text)?;
        context.out.answer(
            || match (&to, sent.first()) {
                (Recipient::All, _) | (_, None) => json!({ "sent": sent.len() }),
                (_, Some(message)) => json!({ "message": message.as_object() }),
            },
            || said(&to, &sent),
        )
    }
}

fn said(to: &Recipient, sent: &[Message]) -> String {
    let names: Vec<String> = sent.iter().map(|message| line(message.to())).collect();
    match (to, sent) {
        (Recipient::Worker(_) | Recipient::Lead, [message]) => {
            format!(
                "sent message {} to {}",
                line(message.id()),
                names.join(", ")
            )
        }
        _ => format!("sent to {} members: {}", sent.len(), names.join(", ")),
    }
}
