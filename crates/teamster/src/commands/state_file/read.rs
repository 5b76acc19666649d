//! `teamster state-file read`

use std::fmt::Write as _;

use clap::Args;
use teamster_claude::state::{AgentState, States};
use teamster_store::{Clock, SystemClock};
use teamster_types::Time;

use super::no_state;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{ago, say_progress, viewed_line};
use crate::table::Table;

/// Show the state
#[derive(Args, Debug)]
#[command(after_help = "\
A state is `live`, `stale` (enabled, but not updated for more than five minutes) or `ended`.
Exit code 3: this project has no state.

Examples:
  teamster state-file read
  teamster state-file read --json")]
pub struct Read {}

impl Read {
    pub fn run(self, context: &Context) -> Result {
        let state = States::of(&context.layout).read()?.ok_or_else(no_state)?;
        let now = SystemClock.now();
        context
            .out
            .answer(|| &state, || text(&state, now, context.out.has_colour()))
    }
}

fn text(state: &AgentState, now: Time, colour: bool) -> String {
    let mut text = state.viewed(now).as_str().to_owned();
    for (what, name) in [("team", &state.team_name), ("feature", &state.feature)] {
        if !name.is_empty() {
            let _ = write!(text, ", {what} {}", viewed_line(name));
        }
    }
    let _ = writeln!(
        text,
        ", phase {}, updated {}",
        state.pdca_phase.as_str(),
        ago(now, state.updated())
    );
    let _ = writeln!(text, "{}", say_progress(&state.progress));
    if !state.teammates.is_empty() {
        let mut table = Table::new(["NAME", "ROLE", "MODEL", "STATUS", "TASK"]);
        for row in &state.teammates {
            table.row([
                viewed_line(&row.name).into(),
                viewed_line(&row.role).into(),
                row.model.as_str().into(),
                row.status.as_str().into(),
                viewed_line(row.current_task.as_deref().unwrap_or_default()).into(),
            ]);
        }
        text.push_str(&table.render(colour));
    }
    for letter in &state.recent_messages {
        let _ = writeln!(
            text,
            "{} → {}: {}",
            viewed_line(&letter.from),
            viewed_line(&letter.to),
            viewed_line(&letter.content)
        );
    }
    text
}
