//! `teamster state-file …`

mod add;
mod cleanup;
mod init;
mod message;
mod path;
mod progress;
mod read;
mod remove;
mod status;

use std::time::Duration;

use clap::{Args, Subcommand};
use teamster_claude::state::{AgentState, Change, Effect, Op, States};
use teamster_store::{Clock, SystemClock};

use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::line;

/// How long a script waits for hooks and other scripts.
const PATIENCE: Duration = Duration::from_secs(2);

/// Read and change the state that viewers show, for scripts
#[derive(Args, Debug)]
#[command(after_help = "\
The state is .bkit/agent-state.json of the project. Any program may poll it; whoever changes it
uses these commands, so that no change is lost. With --json each prints the state.

Examples:
  teamster state-file init --team fix-login --feature login
  teamster state-file add worker-1 --role developer
  teamster state-file read")]
pub struct StateFile {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Path(path::Path),
    Read(read::Read),
    Init(init::Init),
    Add(add::Add),
    Status(status::Status),
    Remove(remove::Remove),
    Progress(progress::Progress),
    Message(message::Message),
    Cleanup(cleanup::Cleanup),
}

impl StateFile {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            Command::Path(command) => command.run(context),
            Command::Read(command) => command.run(context),
            Command::Init(command) => command.run(context),
            Command::Add(command) => command.run(context),
            Command::Status(command) => command.run(context),
            Command::Remove(command) => command.run(context),
            Command::Progress(command) => command.run(context),
            Command::Message(command) => command.run(context),
            Command::Cleanup(command) => command.run(context),
        }
    }
}

/// Does one thing to the state and answers with it.
fn apply(
    context: &Context,
    session: &str,
    op: Op,
    said: impl FnOnce(&AgentState) -> String,
) -> Result {
    let change = Change::new(session, SystemClock.now(), vec![op]);
    let applied = States::of(&context.layout).apply(change, PATIENCE)?;
    let state = applied.state.ok_or_else(no_state)?;
    match applied.effects.into_iter().next() {
        Some(Effect::NoState) | None => Err(no_state()),
        Some(Effect::Unknown(name)) => Err(AppError::not_found(format!(
            "nobody in the state is called {}",
            line(&name)
        ))
        .hint("`teamster state-file read` shows who is there")),
        Some(Effect::Full(name)) => Err(AppError::refused(format!(
            "{} is not added: ten teammates are there, and all of them are active",
            line(&name)
        ))
        .hint("a row gives way when its teammate is completed or failed; `teamster state-file remove` takes one out")),
        Some(Effect::Refused { name, from, to }) => Err(AppError::new(
            ErrorKind::Conflict,
            format!(
                "{} is {} and cannot become {}",
                line(&name),
                from.as_str(),
                to.as_str()
            ),
        )
        .hint("a teammate that has ended begins again with `working`; `state-file add` starts over")),
        Some(Effect::Changed | Effect::Nothing | Effect::Phase { .. }) => {
            context.out.answer(|| &state, || said(&state))
        }
    }
}

fn no_state() -> AppError {
    AppError::not_found("this project has no state")
        .hint("`teamster state-file init --team TEAM --feature FEATURE` begins one")
}
