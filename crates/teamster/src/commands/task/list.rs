//! Implements the commands that show tasks: `teamster task list`, `show` and `route`.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use serde_json::json;
use teamster_types::failure::Failure;
use teamster_types::graph::State;
use teamster_types::task::Status;
use teamster_types::text::fit;
use teamster_types::transitions::Block;
use teamster_types::{TaskId, Time};
use teamster_view::routes::{self, WorkerRoute};
use teamster_view::tasks::{self, TaskListView, TaskView, is_offered};

use super::{TaskSelector, state_text, tone};
use crate::cli::TeamSelector;
use crate::commands::agent::BridgeClient;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{display_line, moment, plain, plain_line, say_progress};
use crate::table::{TableCell, TextTable, Tone};

/// The width of the subject column.
const SUBJECT_WIDTH: usize = 60;

/// List tasks and their states
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task list
  teamster task list --claimable
  teamster task list --status in_progress --json")]
pub struct TaskListArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// Only tasks with this recorded status (the first three values) or derived state (the others)
    #[arg(long, value_name = "STATUS")]
    status: Option<TaskFilter>,
    /// Only tasks that can be claimed now
    #[arg(long)]
    claimable: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum TaskFilter {
    Pending,
    InProgress,
    Completed,
    Claimable,
    Waiting,
    Blocked,
    Failed,
}

impl TaskFilter {
    fn fits(self, view: &TaskView) -> bool {
        match self {
            Self::Pending => view.task().status() == Status::Pending,
            Self::InProgress => view.task().status() == Status::InProgress,
            Self::Completed => view.task().status() == Status::Completed,
            Self::Claimable => view.state() == State::Claimable,
            Self::Waiting => view.state() == State::Waiting,
            Self::Blocked => view.state() == State::Blocked,
            Self::Failed => view.state() == State::Failed,
        }
    }
}

impl TaskListArgs {
    pub fn run(self, context: &Context) -> Result {
        let team = self.team.find(context)?;
        let mut list = tasks::list(context.read()?, &team)?;
        list.note_reservations(context.config.reservations.value);
        list.tasks.retain(|view| {
            self.status.is_none_or(|wanted| wanted.fits(view))
                && (!self.claimable || is_offered(view))
        });
        context.out.answer(
            || {
                json!({
                    "tasks": list.tasks,
                    "problems": list.problems,
                    "progress": list.progress,
                })
            },
            || list_text(&list, context.out.has_colour()),
        )
    }
}

fn list_text(list: &TaskListView, colour: bool) -> String {
    let mut table = TextTable::new(["ID", "STATE", "OWNER", "SUBJECT", "WHY"]);
    for view in &list.tasks {
        let task = view.task();
        table.row([
            task.id().as_str().into(),
            TableCell::new(view.state().as_str(), tone(view.state())),
            display_line(task.owner().unwrap_or_default()).into(),
            fit(&display_line(task.subject()), SUBJECT_WIDTH).into(),
            TableCell::new(display_line(view.reason()), Tone::Faint),
        ]);
    }
    let mut text = String::new();
    if !table.is_empty() {
        text.push_str(&table.render(colour));
        text.push('\n');
    }
    let _ = writeln!(text, "{}", say_progress(&list.progress));
    for problem in &list.problems {
        let problem_text = format!(
            "{} cannot be read: {}",
            display_line(&problem.file),
            display_line(&problem.error)
        );
        let _ = writeln!(text, "{}", Tone::Bad.paint(&problem_text, colour));
    }
    text
}

/// Show a task in full
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task show 3
  teamster task show 3 --json")]
pub struct TaskShowArgs {
    #[command(flatten)]
    task: TaskSelector,
}

impl TaskShowArgs {
    pub fn run(self, context: &Context) -> Result {
        if let Some(bridge) = BridgeClient::find(context, self.task.team.team.as_deref())? {
            return bridge.show_task(context, &self.task.id);
        }
        let (team, id) = self.task.find(context)?;
        let read = context.read()?;
        let view = tasks::task(read, &team, &id)?;
        let failure = read.failure(&team, &id)?;
        context.out.answer(
            || json!({ "task": view, "failure": failure }),
            || task_text(&view, failure.as_ref()),
        )
    }
}

/// Formats all details of one task. Nothing is redacted: its worker needs the text as it was written.
pub(super) fn task_text(view: &TaskView, failure: Option<&Failure>) -> String {
    let task = view.task();
    let list = |ids: &[TaskId]| {
        let ids: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
        ids.join(", ")
    };
    let at = |time: Option<Time>| time.map_or_else(String::new, moment);
    let failed = failure.map_or_else(String::new, |failure| {
        format!(
            "{} times, last at {}: {}",
            failure.retry_count,
            moment(failure.last_failed_at),
            failure.last_error
        )
    });
    // A worker's report is shown in separate rows; a task completed by hand may have any result.
    let reported = task.result().filter(|result| result.summary.is_some());
    let result = task
        .raw_result()
        .filter(|_| reported.is_none())
        .map_or_else(String::new, ToString::to_string);
    let reported = reported.unwrap_or_default();
    let answers = task.block_answers().into_iter();
    let answers: Vec<String> = answers
        .map(|given| format!("{} → {} ({})", given.reason, given.answer, given.by))
        .collect();
    let answers = answers.join("; ");
    let mut text = format!("task {}: {}\n", task.id(), plain_line(task.subject()));
    let rows = [
        ("state", state_text(view)),
        ("owner", task.owner().unwrap_or_default().to_owned()),
        ("blocked by", list(task.blocked_by())),
        ("blocks", list(task.blocks())),
        ("needs", task.capabilities().join(", ")),
        ("paths", task.paths().join(", ")),
        ("proof", task.verify().join("; ")),
        ("done when", task.accept().join("; ")),
        ("created", at(task.created_at())),
        ("completed", at(task.completed_at())),
        ("failed", failed),
        (
            "asks",
            task.block().as_ref().map(block_text).unwrap_or_default(),
        ),
        ("answered", answers),
        ("result", result),
        ("summary", reported.summary.unwrap_or_default()),
        ("hands over", reported.handover.unwrap_or_default()),
        ("left open", reported.problems.join("; ")),
        ("changed", reported.files.join(", ")),
        ("commit", reported.commit.unwrap_or_default()),
        ("kept as", reported.kept_as.unwrap_or_default()),
        ("outside", reported.outside_reservation.join(", ")),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(text, "  {name:<10}  {}", plain_line(value));
    }
    if !task.description().is_empty() {
        let _ = writeln!(text, "\n{}", plain(task.description()));
    }
    text
}

/// Returns what the worker of a blocked task needs to know before the task can continue.
fn block_text(block: &Block) -> String {
    format!("{} ({})", block.reason, block.by)
}

/// Show which worker suits a task best
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task route 3
  teamster task route 3 --explain")]
pub struct TaskRouteArgs {
    #[command(flatten)]
    task: TaskSelector,
    /// Show how each worker scores
    #[arg(long)]
    explain: bool,
}

impl TaskRouteArgs {
    pub fn run(self, context: &Context) -> Result {
        let (team, id) = self.task.find(context)?;
        let read = context.read()?;
        let config = read.team(&team)?;
        let view = tasks::task(read, &team, &id)?;
        let limits = context.config.limits();
        let places = routes::routes(read, &team, &config, view.task(), &limits)?;
        let best = places.iter().find(|place| place.out.is_none());
        context.out.answer(
            || {
                json!({
                    "task": view,
                    "worker": best.map(|place| &place.worker),
                    "workers": places,
                })
            },
            || {
                let mut text = match best {
                    Some(place) => format!("task {id} suits {} best\n", place.worker),
                    None => format!("no worker of team {team} suits task {id}\n"),
                };
                if self.explain {
                    text.push('\n');
                    text.push_str(&route_text(&places, context.out.has_colour()));
                }
                text
            },
        )
    }
}

fn route_text(places: &[WorkerRoute], colour: bool) -> String {
    let mut table = TextTable::new(["WORKER", "SCORE", "SUM"]);
    for place in places {
        let tone = match place.out {
            Some(_) => Tone::Faint,
            None => Tone::Plain,
        };
        table.row([
            TableCell::new(place.worker.as_str(), tone),
            TableCell::new(format!("{:.2}", place.score), tone),
            TableCell::new(display_line(&place.sum), tone),
        ]);
    }
    table.render(colour)
}
