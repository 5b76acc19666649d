//! Implements the commands about the whole state: `teamster state-file path`, `read`, `init` and `cleanup`.

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use teamster_claude::state::{AgentState, Begin, Model, Op, Pattern, Phase, States};
use teamster_store::{Clock, SystemClock};
use teamster_types::Time;

use super::{apply, no_state};
use crate::context::Context;
use crate::error::Result;
use crate::shown::{ago, say_progress, viewed_line};
use crate::table::TextTable;

/// Print where the state of this project is, whether it exists or not
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state-file path
  cat \"$(teamster state-file path)\" || true")]
pub struct StateFilePathArgs {}

impl StateFilePathArgs {
    pub fn run(self, context: &Context) -> Result {
        let states = States::of(&context.layout);
        let path = states.path();
        context.out.answer(
            || {
                // Like every other operation this one shows the state, too, if there is one to show.
                let state = states.read().ok().flatten();
                let mut answer = state.map_or_else(|| json!({}), |state| json!(state));
                answer["path"] = json!(path);
                answer
            },
            || path.display().to_string(),
        )
    }
}

/// Show the state
#[derive(Args, Debug)]
#[command(after_help = "\
A state is `live`, `stale` (enabled, but not updated for more than five minutes) or `ended`.
Exit code 3: this project has no state.

Examples:
  teamster state-file read
  teamster state-file read --json")]
pub struct StateFileReadArgs {}

impl StateFileReadArgs {
    pub fn run(self, context: &Context) -> Result {
        let state = States::of(&context.layout).read()?.ok_or_else(no_state)?;
        let now = SystemClock.now();
        context.out.answer(
            || &state,
            || state_text(&state, now, context.out.has_colour()),
        )
    }
}

fn state_text(state: &AgentState, now: Time, colour: bool) -> String {
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
        let mut table = TextTable::new(["NAME", "ROLE", "MODEL", "STATUS", "TASK"]);
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

/// Begin a session, or enable it again
#[derive(Args, Debug)]
#[command(after_help = "\
A finished state of another session is kept in .bkit/sessions/. While another session is live, this
one gets a file of its own there and is shown when the other one ends.

Examples:
  teamster state-file init --team fix-login --feature login
  teamster state-file init --team fix-login --feature login --phase do --json")]
pub struct StateFileInitArgs {
    /// The team
    #[arg(long, value_name = "TEAM")]
    team: String,
    /// What it works on
    #[arg(long, value_name = "FEATURE")]
    feature: String,
    /// Where that stands: plan, design, do, check or act
    #[arg(long, value_name = "PHASE", value_parser = phase)]
    phase: Option<Phase>,
    /// How the team is organised: leader, swarm, council or watchdog
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pattern: Option<Pattern>,
    /// The lead's model: opus, sonnet or haiku
    #[arg(long, value_name = "MODEL", value_parser = model)]
    cto: Option<Model>,
    /// The session [default: none in particular]
    #[arg(long, value_name = "SESSION", default_value = "")]
    session: String,
}

impl StateFileInitArgs {
    pub fn run(self, context: &Context) -> Result {
        let begin = Begin {
            team: self.team,
            feature: self.feature,
            phase: self.phase,
            pattern: self.pattern,
            cto: self.cto,
        };
        apply(context, &self.session, Op::Init(begin), |_| {
            "the session is shown as active".to_owned()
        })
    }
}

fn phase(word: &str) -> std::result::Result<Phase, String> {
    // The words of a PDCA status file are understood too.
    match word {
        "pm" | "qa" | "report" | "archived" => Ok(Phase::nearest(word)),
        _ => Phase::parse(word).ok_or_else(|| "expected plan, design, do, check or act".to_owned()),
    }
}

fn pattern(word: &str) -> std::result::Result<Pattern, String> {
    Pattern::parse(word).ok_or_else(|| "expected leader, swarm, council or watchdog".to_owned())
}

pub(super) fn model(word: &str) -> std::result::Result<Model, String> {
    Model::of(word).ok_or_else(|| "expected opus, sonnet or haiku".to_owned())
}

/// Show the session as ended; its progress and messages stay
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state-file cleanup
  teamster state-file cleanup --json")]
pub struct StateFileCleanupArgs {}

impl StateFileCleanupArgs {
    pub fn run(self, context: &Context) -> Result {
        apply(context, "", Op::CleanUp, |_| {
            "the session is shown as ended".to_owned()
        })
    }
}
