//! `teamster state-file progress`

use clap::Args;
use teamster_claude::state::Op;
use teamster_types::progress::Progress as Counts;

use super::apply;
use crate::context::Context;
use crate::error::Result;
use crate::shown::say_progress;

/// Show how far the tasks are
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster state-file progress --total 5 --completed 2 --pending 3
  teamster state-file progress --total 5 --completed 5 --json")]
pub struct Progress {
    /// All tasks
    #[arg(long, value_name = "N")]
    total: usize,
    /// Done
    #[arg(long, value_name = "N", default_value_t = 0)]
    completed: usize,
    /// Being worked on
    #[arg(long = "in-progress", value_name = "N", default_value_t = 0)]
    begun: usize,
    /// Failed for good
    #[arg(long, value_name = "N", default_value_t = 0)]
    failed: usize,
    /// Not begun
    #[arg(long, value_name = "N", default_value_t = 0)]
    pending: usize,
}

impl Progress {
    pub fn run(self, context: &Context) -> Result {
        let counts = Counts {
            total_tasks: self.total,
            completed_tasks: self.completed,
            in_progress_tasks: self.begun,
            failed_tasks: self.failed,
            pending_tasks: self.pending,
        };
        apply(context, "", Op::Progress(counts), |state| {
            say_progress(&state.progress)
        })
    }
}
