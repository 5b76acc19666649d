//! Implements `teamster task`: `claim.rs` has the commands with which workers do a task, `edit.rs` those that create
//! and change tasks, `list.rs` and `graph.rs` those that show them.

mod claim;
mod edit;
mod graph;
mod list;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use teamster_types::graph::State;
use teamster_types::task::Task;
use teamster_types::{TaskId, TeamName};
use teamster_view::tasks::{TaskView, judged};

use self::claim::{TaskClaimArgs, TaskCompleteArgs, TaskFailArgs, TaskReleaseArgs, TaskRenewArgs};
use self::edit::{
    TaskAnswerArgs, TaskCreateArgs, TaskDeleteArgs, TaskImportArgs, TaskRetryArgs, TaskUpdateArgs,
};
use self::graph::TaskGraphArgs;
use self::list::{TaskListArgs, TaskRouteArgs, TaskShowArgs};
use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::Result;
use crate::shown::plain_line;
use crate::table::Tone;

/// Create, claim, complete and show tasks
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task create --subject \"Fix the login form\"
  teamster task claim --worker worker-1
  teamster task list")]
pub struct TaskArgs {
    #[command(subcommand)]
    command: TaskCommand,
}

#[derive(Debug, Subcommand)]
enum TaskCommand {
    Create(TaskCreateArgs),
    List(TaskListArgs),
    Show(TaskShowArgs),
    Update(TaskUpdateArgs),
    Claim(TaskClaimArgs),
    Renew(TaskRenewArgs),
    Complete(TaskCompleteArgs),
    Fail(TaskFailArgs),
    Release(TaskReleaseArgs),
    Retry(TaskRetryArgs),
    Answer(TaskAnswerArgs),
    Delete(TaskDeleteArgs),
    Graph(TaskGraphArgs),
    Import(TaskImportArgs),
    Route(TaskRouteArgs),
}

impl TaskArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            TaskCommand::Create(command) => command.run(context),
            TaskCommand::List(command) => command.run(context),
            TaskCommand::Show(command) => command.run(context),
            TaskCommand::Update(command) => command.run(context),
            TaskCommand::Claim(command) => command.run(context),
            TaskCommand::Renew(command) => command.run(context),
            TaskCommand::Complete(command) => command.run(context),
            TaskCommand::Fail(command) => command.run(context),
            TaskCommand::Release(command) => command.run(context),
            TaskCommand::Retry(command) => command.run(context),
            TaskCommand::Answer(command) => command.run(context),
            TaskCommand::Delete(command) => command.run(context),
            TaskCommand::Graph(command) => command.run(context),
            TaskCommand::Import(command) => command.run(context),
            TaskCommand::Route(command) => command.run(context),
        }
    }
}

/// Which task of which team.
#[derive(Args, Debug)]
struct TaskSelector {
    #[command(flatten)]
    team: TeamSelector,
    /// The task
    id: String,
}

impl TaskSelector {
    /// Returns the selected team and task, whether or not the team has such a task.
    fn find(&self, context: &Context) -> Result<(TeamName, TaskId)> {
        let id = self.id.parse()?;
        Ok((self.team.find(context)?, id))
    }
}

/// Prints a task that was just changed.
fn answer_task(context: &Context, team: &TeamName, task: Task, did: &str) -> Result {
    let view = judged(context.read()?, team, task);
    context.out.answer(
        || json!({ "task": view }),
        || format!("{did} {}", title(&view)),
    )
}

/// Returns a task in one line: `task 3 "Fix the login form": claimable, free`.
fn title(view: &TaskView) -> String {
    format!(
        "task {} \"{}\": {}",
        view.task().id(),
        plain_line(view.task().subject()),
        state_text(view),
    )
}

/// Returns the state of a task and its reason, unless the two are the same word.
fn state_text(view: &TaskView) -> String {
    let state = view.state().as_str();
    match view.reason() {
        reason if reason == state => state.to_owned(),
        reason => format!("{state}, {}", plain_line(reason)),
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

/// Returns a worker's result as an object: JSON objects as they are, anything else wrapped in one.
fn result_object(bytes: &[u8]) -> Value {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Value::Object(object),
        Ok(other) => json!({ "value": other }),
        Err(_) => json!({ "text": String::from_utf8_lossy(bytes) }),
    }
}
