//! How far a team is, counted from its tasks at the moment of asking.

use serde::{Deserialize, Serialize};

use crate::task::{Status, Task};

/// Counts of a team's tasks. Internal tasks are left out.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// All of them.
    pub total_tasks: usize,
    /// Done; those that failed for good are not.
    pub completed_tasks: usize,
    /// Being worked on.
    pub in_progress_tasks: usize,
    /// Failed for good.
    pub failed_tasks: usize,
    /// Neither begun nor ended.
    pub pending_tasks: usize,
}

impl Progress {
    /// Counts these tasks.
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Self {
        let mut progress = Self::default();
        for task in tasks {
            if !task.is_internal() {
                progress.count(task.status(), task.is_failed());
            }
        }
        progress
    }

    /// Counts one more task.
    pub fn count(&mut self, status: Status, failed: bool) {
        self.total_tasks += 1;
        *match (status, failed) {
            (Status::Completed, true) => &mut self.failed_tasks,
            (Status::Completed, false) => &mut self.completed_tasks,
            (Status::InProgress, _) => &mut self.in_progress_tasks,
            (Status::Pending, _) => &mut self.pending_tasks,
        } += 1;
    }
}
