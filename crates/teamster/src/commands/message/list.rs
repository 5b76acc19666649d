//! `teamster message list`

use clap::Args;
use serde_json::{Value, json};
use teamster_store::Filed;
use teamster_types::Time;
use teamster_types::text::fit;
use teamster_view::messages::{DELIVERY_DUE, to_json};

use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{ago, redacted, viewed_line};
use crate::table::{Cell, Table, Tone};

const CONTENT_WIDTH: usize = 60;

/// Show every message with what became of it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster message list
  teamster message list --json")]
pub struct List {
    #[command(flatten)]
    team: TeamArg,
}

impl List {
    pub fn run(self, context: &Context) -> Result {
        let team = context.team(self.team.team.as_deref())?;
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
                let mut table = Table::new(["SENT", "FROM", "TO", "STATE", "CONTENT"]);
                for filed in &messages {
                    table.row(cells(filed, now));
                }
                table.render(context.out.has_colour())
            },
        )
    }
}

fn cells(filed: &Filed, now: Time) -> [Cell; 5] {
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
        viewed_line(message.from()).into(),
        viewed_line(message.to()).into(),
        Cell::new(state, tone),
        fit(&viewed_line(message.content()), CONTENT_WIDTH).into(),
    ]
}
