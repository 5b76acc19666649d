//! The client's tasks: their progress, and which one is next.

use teamster_fs::{Dir, layout};
use teamster_types::progress::Progress;
use teamster_types::task::{Status, Task};

use super::{NativeRegistry, NativeTeam};

/// The current tasks of one list.
#[derive(Clone, Debug, Default)]
pub struct TaskFolder {
    tasks: Vec<Task>,
}

impl NativeRegistry {
    /// Returns the tasks of a team, else those of a session without a team; `None` when nothing is known about tasks.
    pub fn tasks(&self, team: Option<&NativeTeam>, session: &str) -> Option<TaskFolder> {
        let all = self.claude().child(layout::TASKS).ok()??;
        let folder = |name: &str| all.child(name).ok().flatten();
        let folder = team
            .and_then(|team| folder(&team.folder))
            .or_else(|| folder(session))?;
        let tasks = read(&folder);
        // The client empties a list when all its tasks are completed, but keeps the number of the last task.
        let was_used = || matches!(folder.stamp(layout::HIGH_WATER_MARK), Ok(Some(_)));
        (!tasks.is_empty() || was_used()).then_some(TaskFolder { tasks })
    }
}

fn read(folder: &Dir) -> Vec<Task> {
    let mut tasks: Vec<Task> = folder
        .entries()
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let id = layout::task_of_file(&entry.name)?;
            let (bytes, _) = folder.read(&entry.name).ok()??;
            Task::parse(&id, &bytes).ok()
        })
        .collect();
    tasks.sort_by_key(|task| task.id().number());
    tasks
}

impl TaskFolder {
    /// Counts the tasks by state. The client reports a task as created or completed before its file says so.
    ///
    /// It also reports a task in progress as completed when its owner goes idle, which completes nothing: the report
    /// alone counts only for a task that was never started.
    pub fn progress(&self, created: Option<&str>, completed: Option<&str>) -> Progress {
        let mut progress = Progress::default();
        if created.is_some_and(|id| self.subject(id).is_none()) {
            progress.count(Status::Pending, false);
        }
        for task in self.tasks.iter().filter(|task| !task.is_internal()) {
            let is_done = task.status() == Status::Pending
                && completed.is_some_and(|id| task.id().as_str() == id);
            let status = if is_done {
                Status::Completed
            } else {
                task.status()
            };
            progress.count(status, task.is_failed() && !is_done);
        }
        progress
    }

    /// Returns the subject of a task.
    pub fn subject(&self, id: &str) -> Option<&str> {
        let task = self.tasks.iter().find(|task| task.id().as_str() == id)?;
        Some(task.subject())
    }

    /// Returns the task that a teammate works on; `None` when there are several, and nothing says which.
    pub fn held_by(&self, name: &str) -> Option<&Task> {
        let is_held = |task: &&Task| {
            task.status() == Status::InProgress && task.owner() == Some(name) && !task.is_internal()
        };
        let mut held = self.tasks.iter().filter(is_held);
        match (held.next(), held.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }

    /// Returns the next task that a teammate could take: not owned by another one, and not blocked.
    pub fn next_for(&self, name: &str) -> Option<&Task> {
        let is_done = |id: &teamster_types::TaskId| {
            let blocker = self.tasks.iter().find(|task| task.id() == id);
            blocker.is_none_or(Task::is_done)
        };
        self.tasks.iter().find(|task| {
            task.status() == Status::Pending
                && !task.is_internal()
                && task.claim().is_none()
                && task
                    .owner()
                    .is_none_or(|owner| owner == name || owner.is_empty())
                && task.blocked_by().iter().all(is_done)
        })
    }
}
