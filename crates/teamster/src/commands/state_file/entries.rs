//! Implements the commands that change entries of the state: `teamster state-file add`, `status`, `remove`,
//! `progress` and `message`.

use clap::Args;
use teamster_claude::state::{Model, Op, Status as TeammateStatus, TeammateRow};
use teamster_types::progress::Progress;

use super::session::model;
use super::{StateSessionArgs, apply};
use crate::context::Context;
use crate::error::Result;
use crate::shown::{display_line, say_progress};

/// Add a teammate as spawning, replacing one of the same name
#[derive(Args, Debug)]
#[command(after_help = "\
At most ten are shown. When there are ten, the oldest completed or failed one is replaced.
Exit code 6: all ten are active. Exit code 3: this project has no state.

Examples:
  teamster state-file add worker-1 --role developer --model opus
  teamster state-file add worker-2 --task \"Fix the login form\" --task-id 3")]
pub struct StateFileAddArgs {
    /// Its name
    name: String,
    /// What it is for
    #[arg(long, value_name = "ROLE", default_value = "agent")]
    role: String,
    /// Its model: opus, sonnet or haiku
    #[arg(long, value_name = "MODEL", default_value = "sonnet", value_parser = model)]
    model: Model,
    /// What it works on
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// The task's id
    #[arg(long, value_name = "ID")]
    task_id: Option<String>,
    #[command(flatten)]
    session: StateSessionArgs,
}

impl StateFileAddArgs {
    pub fn run(self, context: &Context) -> Result {
        let name = display_line(&self.name);
        let row = TeammateRow {
            name: self.name,
            role: self.role,
            model: self.model,
            task: self.task,
            task_id: self.task_id,
        };
        apply(context, &self.session, Op::Add(row), |_| {
            format!("{name} is spawning")
        })
    }
}

/// Change the status of a teammate
#[derive(Args, Debug)]
#[command(after_help = "\
Without a task, `idle` and `completed` clear the current one.
Exit code 3: no teammate has that name. Exit code 4: the status cannot change like that.

Examples:
  teamster state-file status worker-1 working --task \"Fix the login form\"
  teamster state-file status worker-1 idle --json")]
pub struct StateFileStatusArgs {
    /// Its name
    name: String,
    /// The status: spawning, working, idle, completed or failed
    #[arg(value_name = "STATUS", value_parser = teammate_status)]
    word: TeammateStatus,
    /// What it works on
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// The task's id
    #[arg(long, value_name = "ID")]
    task_id: Option<String>,
    #[command(flatten)]
    session: StateSessionArgs,
}

impl StateFileStatusArgs {
    pub fn run(self, context: &Context) -> Result {
        let said = format!("{} is {}", display_line(&self.name), self.word.as_str());
        let op = Op::Status {
            name: self.name,
            status: self.word,
            task: self.task,
            task_id: self.task_id,
        };
        apply(context, &self.session, op, |_| said)
    }
}

fn teammate_status(word: &str) -> std::result::Result<TeammateStatus, String> {
    TeammateStatus::parse(word)
        .ok_or_else(|| "expected spawning, working, idle, completed or failed".to_owned())
}

/// Remove a teammate
#[derive(Args, Debug)]
#[command(after_help = "\
Exit code 3: no teammate has that name; nothing is written.

Examples:
  teamster state-file remove worker-1
  teamster state-file remove nobody   # exits 3")]
pub struct StateFileRemoveArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    session: StateSessionArgs,
}

impl StateFileRemoveArgs {
    pub fn run(self, context: &Context) -> Result {
        let said = format!("{} is gone", display_line(&self.name));
        apply(
            context,
            &self.session,
            Op::Remove { name: self.name },
            |_| said,
        )
    }
}

/// Set the progress of the tasks
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state-file progress --total 5 --completed 2 --pending 3
  teamster state-file progress --total 5 --completed 5 --json")]
pub struct StateFileProgressArgs {
    /// Number of tasks
    #[arg(long, value_name = "N")]
    total: usize,
    /// Completed tasks
    #[arg(long, value_name = "N", default_value_t = 0)]
    completed: usize,
    /// Tasks in progress
    #[arg(long = "in-progress", value_name = "N", default_value_t = 0)]
    begun: usize,
    /// Tasks that failed permanently
    #[arg(long, value_name = "N", default_value_t = 0)]
    failed: usize,
    /// Tasks not yet started
    #[arg(long, value_name = "N", default_value_t = 0)]
    pending: usize,
    #[command(flatten)]
    session: StateSessionArgs,
}

impl StateFileProgressArgs {
    pub fn run(self, context: &Context) -> Result {
        let counts = Progress {
            total_tasks: self.total,
            completed_tasks: self.completed,
            in_progress_tasks: self.begun,
            failed_tasks: self.failed,
            pending_tasks: self.pending,
        };
        apply(context, &self.session, Op::Progress(counts), |state| {
            say_progress(&state.progress)
        })
    }
}

/// Add a message; the last fifty are kept
#[derive(Args, Debug)]
#[command(after_help = "\
This only shows a message; `teamster message send` delivers one.

Examples:
  teamster state-file message --from worker-1 --to lead \"The form is fixed\"
  teamster state-file message \"Tests are green\"")]
pub struct StateFileMessageArgs {
    /// The sender
    #[arg(long, value_name = "NAME", default_value = "unknown")]
    from: String,
    /// The recipient
    #[arg(long, value_name = "NAME", default_value = "all")]
    to: String,
    /// The text
    text: String,
    #[command(flatten)]
    session: StateSessionArgs,
}

impl StateFileMessageArgs {
    pub fn run(self, context: &Context) -> Result {
        let op = Op::Message {
            from: self.from,
            to: self.to,
            content: self.text,
            timestamp: None,
        };
        apply(context, &self.session, op, |_| {
            "the message is shown".to_owned()
        })
    }
}
