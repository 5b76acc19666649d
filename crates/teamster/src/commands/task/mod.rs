//! `teamster task …`

mod claim;
mod complete;
mod create;
mod delete;
mod fail;
mod graph;
mod import;
mod list;
mod release;
mod renew;
mod retry;
mod route;
mod show;
mod update;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use teamster_types::graph::State;
use teamster_types::task::Task as TaskFile;
use teamster_types::{TaskId, TeamName};
use teamster_view::tasks::{TaskView, judged};

use crate::context::Context;
use crate::error::Result;
use crate::shown::line;
use crate::table::Tone;

/// Make, claim, finish and show tasks
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task create --subject \"Fix the login form\"
  teamster task claim --worker worker-1
  teamster task list")]
pub struct Task {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Create),
    List(list::List),
    Show(show::Show),
    Update(update::Update),
    Claim(claim::Claim),
    Renew(renew::Renew),
    Complete(complete::Complete),
    Fail(fail::Fail),
    Release(release::Release),
    Retry(retry::Retry),
    Delete(delete::Delete),
    Graph(graph::Graph),
    Import(import::Import),
    Route(route::Route),
}

impl Task {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            Command::Create(command) => command.run(context),
            Command::List(command) => command.run(context),
            Command::Show(command) => command.run(context),
            Command::Update(command) => command.run(context),
            Command::Claim(command) => command.run(context),
            Command::Renew(command) => command.run(context),
            Command::Complete(command) => command.run(context),
            Command::Fail(command) => command.run(context),
            Command::Release(command) => command.run(context),
            Command::Retry(command) => command.run(context),
            Command::Delete(command) => command.run(context),
            Command::Graph(command) => command.run(context),
            Command::Import(command) => command.run(context),
            Command::Route(command) => command.run(context),
        }
    }
}

/// Answers with a task that was just changed.
fn answer_task(context: &Context, team: &TeamName, task: TaskFile, did: &str) -> Result {
    let view = judged(context.read()?, team, task);
    context.out.answer(
        || json!({ "task": view }),
        || format!("{did} {}", title(&view)),
    )
}

/// `task 3 "Fix the login form": claimable, free`
fn title(view: &TaskView) -> String {
    format!(
        "task {} \"{}\": {}",
        view.task().id(),
        line(view.task().subject()),
        standing(view),
    )
}

/// Where a task stands and why, unless the two are the same word.
fn standing(view: &TaskView) -> String {
    let state = view.state().as_str();
    match view.reason() {
        reason if reason == state => state.to_owned(),
        reason => format!("{state}, {}", line(reason)),
    }
}

fn ids(texts: &[String]) -> Result<Vec<TaskId>> {
    Ok(texts
        .iter()
        .map(|text| text.parse())
        .collect::<std::result::Result<_, _>>()?)
}

fn tone(state: State) -> Tone {
    match state {
        State::Completed => Tone::Faint,
        State::Claimable => Tone::Good,
        State::InProgress | State::Waiting => Tone::Notable,
        State::Blocked | State::Failed => Tone::Bad,
    }
}

/// What a worker leaves behind: an object as it is, anything else inside one.
fn result_object(bytes: &[u8]) -> Value {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Value::Object(object),
        Ok(other) => json!({ "value": other }),
        Err(_) => json!({ "text": String::from_utf8_lossy(bytes) }),
    }
}
