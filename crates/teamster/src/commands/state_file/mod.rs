//! Implements `teamster state-file`, which reads and changes the state that viewers show: `session.rs` has the commands about
//! the state as a whole, `entries.rs` those about what is in it.

mod entries;
mod session;

use std::time::Duration;

use clap::{Args, Subcommand};
use teamster_app::env_vars;
use teamster_claude::state::{AgentState, Effect, Op, StateChange, StateFiles};
use teamster_fs::layout;
use teamster_store::{Clock, SystemClock};

use self::entries::{
    StateFileAddArgs, StateFileMessageArgs, StateFileProgressArgs, StateFileRemoveArgs,
    StateFileStatusArgs,
};
use self::session::{
    StateFileCleanupArgs, StateFileInitArgs, StateFilePathArgs, StateFileReadArgs,
};
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::plain_line;

/// How long a script waits for hooks and other scripts that hold the lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// Read and change the state shown by viewers, for scripts
#[derive(Args, Debug)]
#[command(after_help = "\
The state is .bkit/agent-state.json in the project. Any program may poll it; change it only with
these commands, so that no change is lost. With --json each prints the state.
Each session has its own state. Scripts that name no session share the session `script`; the state
of another session is changed only if --session names it.

Examples:
  teamster state-file init --team fix-login --feature login
  teamster state-file add worker-1 --role developer
  teamster state-file read")]
pub struct StateFileArgs {
    #[command(subcommand)]
    command: StateFileCommand,
}

#[derive(Debug, Subcommand)]
enum StateFileCommand {
    Path(StateFilePathArgs),
    Read(StateFileReadArgs),
    Init(StateFileInitArgs),
    Add(StateFileAddArgs),
    Status(StateFileStatusArgs),
    Remove(StateFileRemoveArgs),
    Progress(StateFileProgressArgs),
    Message(StateFileMessageArgs),
    Cleanup(StateFileCleanupArgs),
}

impl StateFileArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            StateFileCommand::Path(command) => command.run(context),
            StateFileCommand::Read(command) => command.run(context),
            StateFileCommand::Init(command) => command.run(context),
            StateFileCommand::Add(command) => command.run(context),
            StateFileCommand::Status(command) => command.run(context),
            StateFileCommand::Remove(command) => command.run(context),
            StateFileCommand::Progress(command) => command.run(context),
            StateFileCommand::Message(command) => command.run(context),
            StateFileCommand::Cleanup(command) => command.run(context),
        }
    }
}

/// Whose state is meant.
#[derive(Args, Debug)]
struct StateSessionArgs {
    /// The session [default: the one shared by scripts]
    #[arg(long, value_name = "SESSION", env = env_vars::SESSION, hide_env_values = true)]
    session: Option<String>,
}

impl StateSessionArgs {
    /// Returns the session id: scripts that name no session share one.
    fn id(&self) -> &str {
        let named = self.session.as_deref().filter(|id| !id.is_empty());
        named.unwrap_or(layout::SCRIPT_SESSION)
    }

    /// Returns whether the caller named a session.
    fn is_named(&self) -> bool {
        self.session.as_deref().is_some_and(|id| !id.is_empty())
    }
}

/// Applies one operation to the state of a session and prints the result.
fn apply(
    context: &Context,
    session: &StateSessionArgs,
    op: Op,
    said: impl FnOnce(&AgentState) -> String,
) -> Result {
    let change = StateChange::new(session.id(), SystemClock.now(), vec![op]);
    let applied = StateFiles::of(&context.layout).apply(change, PATIENCE)?;
    let no_state = || no_state_of(session);
    let state = applied.state.ok_or_else(no_state)?;
    match applied.effects.into_iter().next() {
        Some(Effect::NoState) | None => Err(no_state()),
        Some(Effect::Unknown(name)) => Err(AppError::not_found(format!(
            "no teammate is called {}",
            plain_line(&name)
        ))
        .hint("`teamster state-file read` lists them")),
        Some(Effect::Full(name)) => Err(AppError::refused(format!(
            "{} was not added: there are already ten teammates, all of them active",
            plain_line(&name)
        ))
        .hint(
            "a completed or failed teammate is replaced; `teamster state-file remove` removes one",
        )),
        Some(Effect::Refused { name, from, to }) => Err(AppError::new(
            ErrorKind::Conflict,
            format!(
                "{} is {} and cannot become {}",
                plain_line(&name),
                from.as_str(),
                to.as_str()
            ),
        )
        .hint(
            "a teammate that has ended begins again with `working`; `state-file add` starts over",
        )),
        Some(Effect::Changed | Effect::Nothing | Effect::Phase(_)) => {
            context.out.answer(|| &state, || said(&state))
        }
    }
}

fn no_state_of(session: &StateSessionArgs) -> AppError {
    let id = plain_line(session.id());
    AppError::not_found(format!("session {id} has no state in this project")).hint(
        "`teamster state-file init` starts one, `--session` selects another, and `teamster state-file read --all` lists all",
    )
}

fn no_state() -> AppError {
    AppError::not_found("this project has no state")
        .hint("`teamster state-file init --team TEAM --feature FEATURE` starts one")
}
