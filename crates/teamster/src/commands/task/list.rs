//! `teamster task list`

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use serde_json::json;
use teamster_types::graph::State;
use teamster_types::task::Status;
use teamster_types::text::fit;
use teamster_view::tasks::{self, TaskListView, TaskView, is_offered};

use super::tone;
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{say_progress, viewed_line};
use crate::table::{Cell, Table, Tone};

/// A subject is shown as far as it fits beside the rest.
const SUBJECT_WIDTH: usize = 60;

/// Show all tasks and where they stand
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task list
  teamster task list --claimable
  teamster task list --status in_progress --json")]
pub struct List {
    #[command(flatten)]
    team: TeamArg,
    /// Only these: by the word in the file (the first three) or by where they stand
    #[arg(long, value_name = "STATUS")]
    status: Option<Wanted>,
    /// Only those that a worker could take now
    #[arg(long)]
    claimable: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Wanted {
    Pending,
    InProgress,
    Completed,
    Claimable,
    Waiting,
    Blocked,
    Failed,
}

impl Wanted {
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

impl List {
    pub fn run(self, context: &Context) -> Result {
        let team = context.team(self.team.team.as_deref())?;
        let mut list = tasks::list(context.read()?, &team)?;
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
            || text(&list, context.out.has_colour()),
        )
    }
}

fn text(list: &TaskListView, colour: bool) -> String {
    let mut table = Table::new(["ID", "STATE", "OWNER", "SUBJECT", "WHY"]);
    for view in &list.tasks {
        let task = view.task();
        table.row([
            task.id().as_str().into(),
            Cell::new(view.state().as_str(), tone(view.state())),
            viewed_line(task.owner().unwrap_or_default()).into(),
            fit(&viewed_line(task.subject()), SUBJECT_WIDTH).into(),
            Cell::new(viewed_line(view.reason()), Tone::Faint),
        ]);
    }
    let mut text = String::new();
    if !table.is_empty() {
        text.push_str(&table.render(colour));
        text.push('\n');
    }
    let _ = writeln!(text, "{}", say_progress(&list.progress));
    for problem in &list.problems {
        let words = format!(
            "{} cannot be read: {}",
            viewed_line(&problem.file),
            viewed_line(&problem.error)
        );
        let _ = writeln!(text, "{}", Tone::Bad.paint(&words, colour));
    }
    text
}
