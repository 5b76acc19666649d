//! The levels of tasks in the dependency graph.

use std::collections::{HashMap, HashSet};

use teamster_types::TaskId;
use teamster_types::task::Task;

/// Returns the level of every task: 0 for a task without existing blockers; otherwise one more than the highest level
/// among its blockers and the task that it repairs. In a cycle made by another program, tasks keep the level at which
/// they were reached.
pub(super) fn levels(tasks: &[Task]) -> HashMap<TaskId, usize> {
    let known: HashSet<&TaskId> = tasks.iter().map(Task::id).collect();
    let mut waits: HashMap<&TaskId, usize> = HashMap::new();
    let mut behind: HashMap<&TaskId, Vec<&TaskId>> = HashMap::new();
    for task in tasks {
        let repaired = repaired(task);
        let blockers: HashSet<&TaskId> = task
            .blocked_by()
            .iter()
            .chain(&repaired)
            .filter_map(|id| known.get(id).copied())
            .collect();
        waits.insert(task.id(), blockers.len());
        for blocker in blockers {
            behind.entry(blocker).or_default().push(task.id());
        }
    }
    let mut levels: HashMap<TaskId, usize> = known.iter().map(|id| ((*id).clone(), 0)).collect();
    let mut ready: Vec<&TaskId> = waits
        .iter()
        .filter(|(_, count)| **count == 0)
        .map(|(id, _)| *id)
        .collect();
    while let Some(id) = ready.pop() {
        let level = levels.get(id).copied().unwrap_or(0);
        for next in behind.get(id).into_iter().flatten() {
            if let Some(known) = levels.get_mut(*next) {
                *known = (*known).max(level + 1);
            }
            if let Some(count) = waits.get_mut(next) {
                *count -= 1;
                if *count == 0 {
                    ready.push(next);
                }
            }
        }
    }
    levels
}

/// Returns the task whose merge conflict this task was created to resolve.
pub(super) fn repaired(task: &Task) -> Option<TaskId> {
    task.resolves()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, blocked_by: &[&str]) -> Task {
        let text = serde_json::json!({
            "id": id, "subject": id, "status": "pending", "blockedBy": blocked_by,
        });
        Task::parse(&id.parse().unwrap(), text.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_task_is_behind_the_last_one_that_it_waits_for() {
        let tasks = [
            task("1", &[]),
            task("2", &["1"]),
            task("3", &["1", "2", "99"]),
            task("4", &["5"]),
            task("5", &["4"]),
        ];
        let levels = levels(&tasks);
        let of = |id: &str| levels[&id.parse().unwrap()];
        assert_eq!([of("1"), of("2"), of("3")], [0, 1, 2]);
        assert_eq!([of("4"), of("5")], [0, 0], "a cycle ends nothing");
    }

    #[test]
    fn a_task_is_behind_the_one_that_it_repairs() {
        let text = serde_json::json!({
            "id": "2", "subject": "mend", "status": "pending",
            "metadata": { "teamster": { "resolves": "1" } },
        });
        let mends = Task::parse(&"2".parse().unwrap(), text.to_string().as_bytes()).unwrap();
        let levels = levels(&[task("1", &[]), mends]);
        assert_eq!(levels[&"2".parse().unwrap()], 1);
    }
}
