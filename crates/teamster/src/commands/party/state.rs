//! Implements `teamster state`: `transition`, `status` and `check-lock`.

use clap::{Args, Subcommand};
use serde_json::json;
use teamster_app::session_gate;

use super::{NONE, beside, party, session};
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::display_line;

/// Move a session from phase to phase
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state transition PLANNING \"the cause is known\"
  teamster state status
  teamster state check-lock")]
pub struct StateArgs {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Debug, Subcommand)]
enum StateCommand {
    Transition(StateTransitionArgs),
    Status(StateStatusArgs),
    CheckLock(StateCheckLockArgs),
}

/// Enter another phase, if the flow allows it and its requirements are met
///
/// An illegal transition changes nothing, exits with 4 and lists the legal ones.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state transition PLANNING \"the cause is known\"
  teamster state transition DONE \"too early\"   # exits 4")]
struct StateTransitionArgs {
    /// The phase to enter
    state: String,
    /// Why the phase is entered
    #[arg(default_value = "", hide_default_value = true)]
    reason: String,
}

/// Show the session's phase and the next possible phases
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state status
  teamster state status --json")]
struct StateStatusArgs {}

/// Exit with 1 while a session is active, else with 0
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state check-lock")]
struct StateCheckLockArgs {}

impl StateArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            StateCommand::Transition(command) => command.run(context),
            StateCommand::Status(command) => command.run(context),
            StateCommand::CheckLock(command) => command.run(context),
        }
    }
}

impl StateTransitionArgs {
    fn run(self, context: &Context) -> Result {
        let state = self.state.to_uppercase();
        let stepped = session_gate::transition(context, &party(context)?, &state, &self.reason)?;
        context.out.answer(
            || json!({ "from": stepped.step.from, "to": stepped.step.to, "session": stepped.session }),
            || stepped.step.to_string(),
        )
    }
}

impl StateStatusArgs {
    fn run(self, context: &Context) -> Result {
        let Some((party, session)) = session(context)? else {
            return context.out.answer(
                || json!({ "phase": "NONE", "active": false }),
                || NONE.to_owned(),
            );
        };
        let next = party.next_states(&session)?;
        context.out.answer(
            || json!({ "phase": session.phase, "active": session.is_active(), "next": next }),
            || {
                format!(
                    "{}; next: {}",
                    display_line(&session.phase),
                    next.join(", ")
                )
            },
        )
    }
}

impl StateCheckLockArgs {
    fn run(self, context: &Context) -> Result {
        let others = beside(context)?.into_iter().map(|(_, session)| session);
        let shared = session(context)?.map(|(_, session)| session);
        let mut all = shared.into_iter().chain(others);
        match all.find(teamster_party::PartySession::is_active) {
            None => context.out.answer(
                || json!({ "active": false }),
                || "no session is under way".to_owned(),
            ),
            Some(session) => Err(AppError::new(
                ErrorKind::Failed,
                format!("session {} is under way, in {}", session.id, session.phase),
            )
            .hint("`teamster session status` shows it")),
        }
    }
}
