//! The paths of tasks that somebody is at work on.

use teamster_types::TaskId;
use teamster_types::paths::{Reservations, may_overlap};
use teamster_types::task::{Status, Task};

use crate::backend::Txn;
use crate::error::Result;

/// What is reserved, read when it is first asked for: most tasks name no paths, and need nothing of it.
#[derive(Default)]
pub(super) struct Reserved {
    tasks: Option<Vec<(TaskId, Vec<String>)>>,
}

impl Reserved {
    /// The tasks at work that may change a file which `task` may change.
    pub(super) fn by_others(&mut self, tx: &mut dyn Txn, task: &Task) -> Result<Vec<TaskId>> {
        let paths = task.paths();
        if paths.is_empty() || tx.reservations() == Reservations::Off {
            return Ok(Vec::new());
        }
        let tasks = match self.tasks.take() {
            Some(tasks) => tasks,
            None => read(tx)?,
        };
        let tasks = self.tasks.insert(tasks);
        let others = tasks
            .iter()
            .filter(|(id, theirs)| id != task.id() && may_overlap(&paths, theirs));
        Ok(others.map(|(id, _)| id.clone()).collect())
    }
}

fn read(tx: &mut dyn Txn) -> Result<Vec<(TaskId, Vec<String>)>> {
    let mut found = Vec::new();
    for id in tx.in_progress()? {
        // One that cannot be read reserves nothing that anybody could name.
        let Ok(Some(task)) = tx.look(&id) else {
            continue;
        };
        let paths = task.paths();
        if task.status() == Status::InProgress && !paths.is_empty() {
            found.push((id, paths));
        }
    }
    Ok(found)
}
