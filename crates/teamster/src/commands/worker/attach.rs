//! `teamster worker attach`

use clap::Args;
use teamster_app::workers::tmux;
use teamster_isolate::detached;

use super::WorkerArg;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};

/// Look at a worker's pane (leave it with Ctrl-b d)
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker attach worker-1   # in a terminal")]
pub struct Attach {
    #[command(flatten)]
    worker: WorkerArg,
}

impl Attach {
    pub fn run(self, context: &Context) -> Result {
        let named = self.worker.find(context)?;
        let no_pane = || {
            AppError::not_found(format!("{} runs in no pane of ours", named.worker)).hint(
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
        let words = tmux.attach_command(&pane);
        if !context.out.is_screen() {
            return Err(
                AppError::usage("there is no terminal to show it in").hint("run it in a terminal")
            );
        }
        let environment: Vec<_> = std::env::vars_os()
            .filter(|(name, _)| name != teamster_app::env_vars::TMUX)
            .collect();
        let [program, args @ ..] = words.as_slice() else {
            return Err(no_pane());
        };
        let error = detached::become_program(program.as_ref(), args, &environment);
        Err(AppError::new(
            ErrorKind::Failed,
            format!("tmux could not be started: {error}"),
        ))
    }
}
