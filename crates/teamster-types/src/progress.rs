//! The progress of a team, counted from its tasks when it is requested.

use serde::{Deserialize, Serialize};

use crate::task::{Status, Task};

/// The number of a team's tasks by state. Internal tasks are not counted.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The number of all tasks.
    pub total_tasks: usize,
    /// Completed tasks, without those that failed permanently.
    pub completed_tasks: usize,
    /// Tasks in progress.
    pub in_progress_tasks: usize,
    /// Tasks that failed permanently.
    pub failed_tasks: usize,
    /// Pending tasks.
    pub pending_tasks: usize,
}

impl Progress {
    /// Counts the given tasks.
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
