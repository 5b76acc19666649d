//! Implements the commands about the whole state: `teamster state-file path`, `read`, `init` and `cleanup`.

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use teamster_claude::state::{AgentState, Begin, Liveness, Model, Op, Pattern, Phase, StateFiles};
use teamster_store::{Clock, SystemClock};
use teamster_types::Time;

use super::{StateSessionArgs, apply, no_state};
use crate::context::Context;
use crate::error::Result;
use crate::shown::{ago, display_line, say_progress};
use crate::table::TextTable;

/// Print the path of this project's state, whether it exists or not
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state-file path
  cat \"$(teamster state-file path)\" || true")]
pub struct StateFilePathArgs {}

impl StateFilePathArgs {
    pub fn run(self, context: &Context) -> Result {
        let states = StateFiles::of(&context.layout);
        let path = states.path();
        context.out.answer(
            || {
                // Like every other operation, this one also prints the state, if there is one.
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
Without an option it is the state shown by viewers. A state is `live`, `ended`, or `stale`:
enabled, not updated for more than five minutes, and without a visible process of its session.
Exit code 3: this project has no state.

Examples:
  teamster state-file read
  teamster state-file read --session script --json
  teamster state-file read --all")]
pub struct StateFileReadArgs {
    /// Show the state of this session
    #[arg(long, value_name = "SESSION", conflicts_with = "all")]
    session: Option<String>,
    /// Show the states of all sessions, the one shown by viewers first
    #[arg(long)]
    all: bool,
}

impl StateFileReadArgs {
    pub fn run(self, context: &Context) -> Result {
        let states = StateFiles::of(&context.layout);
        let now = SystemClock.now();
        let text = |state: &AgentState| {
            let liveness = states.liveness(state, now);
            state_text(state, liveness, now, context.out.has_colour())
        };
        if self.all {
            let all: Vec<AgentState> = states.all()?.into_iter().map(|shown| shown.state).collect();
            return context.out.answer(
                || json!({ "sessions": all }),
                || {
                    let texts = all.iter().map(|state| {
                        format!(
                            "session {}\n{}",
                            display_line(&state.session_id),
                            text(state)
                        )
                    });
                    texts.collect::<Vec<_>>().join("\n")
                },
            );
        }
        let state = match &self.session {
            Some(session) => states.of_session(session)?,
            None => states.read()?,
        };
        let state = state.ok_or_else(no_state)?;
        context.out.answer(|| &state, || text(&state))
    }
}

fn state_text(state: &AgentState, liveness: Liveness, now: Time, colour: bool) -> String {
    let mut text = liveness.as_str().to_owned();
    for (what, name) in [("team", &state.team_name), ("feature", &state.feature)] {
        if !name.is_empty() {
            let _ = write!(text, ", {what} {}", display_line(name));
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
                display_line(&row.name).into(),
                display_line(&row.role).into(),
                row.model.as_str().into(),
                row.status.as_str().into(),
                display_line(row.current_task.as_deref().unwrap_or_default()).into(),
            ]);
        }
        text.push_str(&table.render(colour));
    }
    for letter in &state.recent_messages {
        let _ = writeln!(
            text,
            "{} → {}: {}",
            display_line(&letter.from),
            display_line(&letter.to),
            display_line(&letter.content)
        );
    }
    text
}

/// Start a session, or enable it again
#[derive(Args, Debug)]
#[command(after_help = "\
Without --session a new session starts, and the state of the last script is kept in
.bkit/sessions/; a named session continues where it was. While another session is live, this one
gets its own file there and is shown when the other one ends.

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
    /// The phase: plan, design, do, check or act
    #[arg(long, value_name = "PHASE", value_parser = phase)]
    phase: Option<Phase>,
    /// How the team is organised: leader, swarm, council or watchdog
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pattern: Option<Pattern>,
    /// The leader, usually the name of a model [default: opus]
    #[arg(long, value_name = "MODEL")]
    cto: Option<String>,
    #[command(flatten)]
    session: StateSessionArgs,
}

impl StateFileInitArgs {
    pub fn run(self, context: &Context) -> Result {
        let begin = Begin {
            team: self.team,
            feature: self.feature,
            phase: self.phase,
            pattern: self.pattern,
            cto: self.cto,
            // Two scripts that name no session cannot be told apart, so this may be a different script than the last.
            anew: !self.session.is_named(),
        };
        apply(context, &self.session, Op::Init(begin), |_| {
            "the session is shown as active".to_owned()
        })
    }
}

fn phase(word: &str) -> std::result::Result<Phase, String> {
    // The status words of a PDCA status file are also accepted.
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

/// Mark the session as ended; its progress and messages are kept
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state-file cleanup
  teamster state-file cleanup --session script --json")]
pub struct StateFileCleanupArgs {
    #[command(flatten)]
    session: StateSessionArgs,
}

impl StateFileCleanupArgs {
    pub fn run(self, context: &Context) -> Result {
        apply(context, &self.session, Op::CleanUp, |_| {
            "the session is shown as ended".to_owned()
        })
    }
}
