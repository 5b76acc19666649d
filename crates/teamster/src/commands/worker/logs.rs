//! Implements `teamster worker logs` and `attach`, which show what a worker's agent does.

use std::time::Duration;

use clap::Args;
use teamster_app::env_vars;
use teamster_app::logs::{LogEntry, LogLines, LogLocation, WorkerLog};
use teamster_app::workers::tmux;
use teamster_isolate::detached;
use teamster_types::text::fit;

use super::WorkerSelector;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::display_line;

const LOOK_AGAIN: Duration = Duration::from_millis(200);
const WIDTH: usize = 160;

/// Show what a worker's agent did (redacted)
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker logs worker-1
  teamster worker logs worker-1 --task 3 --last 20
  teamster worker logs worker-1 --follow   # until Ctrl-C
  teamster worker logs worker-1 --raw
  teamster worker logs worker-1 --json")]
pub struct WorkerLogsArgs {
    #[command(flatten)]
    worker: WorkerSelector,
    /// Show the log of this task [default: the latest]
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Keep showing new lines, also of the next tasks, until interrupted
    #[arg(long)]
    follow: bool,
    /// Only the last N lines
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Show the agent's output unformatted
    #[arg(long)]
    raw: bool,
    /// Show the output of the worker's bridge instead
    #[arg(long, conflicts_with = "task")]
    bridge: bool,
}

impl WorkerLogsArgs {
    pub fn run(self, context: &Context) -> Result {
        let named = self.worker.find(context)?;
        let nothing = AppError::not_found(format!("there is no log of {} yet", named.worker))
            .hint("`teamster worker list` shows whether it runs");
        let source = match self.task.as_deref() {
            _ if self.bridge => WorkerLog::Bridge,
            Some(task) => WorkerLog::Task(task.parse()?),
            None => WorkerLog::Latest,
        };
        let place = LogLocation::find(context, named)?;
        place.fetch()?;
        let brought;
        let named = if self.follow {
            brought = place.keep_fetching();
            brought.named.clone()
        } else {
            place.named
        };
        let mut log = LogLines::new(named, source, self.last, self.follow);
        loop {
            for line in log.read()? {
                self.show(context, &line)?;
            }
            if !self.follow {
                return if log.is_found() { Ok(()) } else { Err(nothing) };
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn show(&self, context: &Context, line: &str) -> Result {
        if context.out.is_json() {
            return context.out.write(&format!("{line}\n"));
        }
        let said = LogEntry::read(line, self.raw);
        if said.is_uninteresting() {
            return Ok(());
        }
        let mut head = match said.ts.as_str() {
            "" if said.from.is_empty() => String::new(),
            ts => format!("{ts} {:8} ", said.from),
        };
        let width = if context.out.is_screen() {
            WIDTH
        } else {
            usize::MAX
        };
        // A text of several lines is shown on several lines, aligned with each other.
        for text in said.text.lines() {
            let text = format!("{head}{}", display_line(text));
            context.out.write(&format!("{}\n", fit(&text, width)))?;
            head = " ".repeat(head.len());
        }
        Ok(())
    }
}

/// Attach to a worker's tmux pane (detach with Ctrl-b d)
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker attach worker-1   # in a terminal")]
pub struct WorkerAttachArgs {
    #[command(flatten)]
    worker: WorkerSelector,
}

impl WorkerAttachArgs {
    pub fn run(self, context: &Context) -> Result {
        let named = self.worker.find(context)?;
        let no_pane = || {
            AppError::not_found(format!("{} does not run in a tmux pane", named.worker)).hint(
                format!(
                    "`teamster worker logs {} --follow` shows what it does; `worker start --tmux` gives it a pane",
                    named.worker
                ),
            )
        };
        let failed = |error: teamster_isolate::tmux::TmuxError| {
            AppError::new(ErrorKind::Failed, error.to_string()).hint(error.hint())
        };
        let tmux = tmux(&named.project).map_err(failed)?;
        let pane = tmux
            .pane_of(&named.team, &named.worker)
            .map_err(failed)?
            .ok_or_else(no_pane)?;
        let command = tmux.attach_command(&pane);
        if !context.out.is_screen() {
            return Err(
                AppError::usage("there is no terminal to show it in").hint("run it in a terminal")
            );
        }
        let environment: Vec<_> = std::env::vars_os()
            .filter(|(name, _)| name != env_vars::TMUX && name != env_vars::STORE)
            .collect();
        let [program, args @ ..] = command.as_slice() else {
            return Err(no_pane());
        };
        let error = detached::become_program(program.as_ref(), args, &environment);
        Err(AppError::new(
            ErrorKind::Failed,
            format!("tmux could not be started: {error}"),
        ))
    }
}
