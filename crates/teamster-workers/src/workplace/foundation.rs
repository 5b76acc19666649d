//! The finished work that a task starts from when no run merges it.

use std::collections::BTreeSet;

use teamster_store::{ReadStore, Result};
use teamster_types::task::Task;
use teamster_types::{TaskId, TeamName, WorkerName};

/// The commit of a finished task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedWork {
    /// The task.
    pub task: TaskId,
    /// The commit that holds its work.
    pub commit: String,
}

/// The finished work that a task starts from, in addition to what its team has merged.
///
/// A run merges finished work before another task builds on it, so this is empty for its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foundation {
    /// The work of the tasks that this task depends on, directly or indirectly, in the order of their numbers.
    pub waited_for: Vec<FinishedWork>,
    /// The work that the worker itself has finished, in the order of its tasks' numbers.
    pub own: Vec<FinishedWork>,
    /// The commits that merged work of these tasks: wherever they have landed, a task begins there.
    pub merges: Vec<String>,
}

impl Foundation {
    /// Returns the finished work that a worker's task starts from, or, without a task, all that the worker has finished.
    pub fn of(
        store: &dyn ReadStore,
        team: &TeamName,
        worker: &WorkerName,
        task: Option<&Task>,
    ) -> Result<Self> {
        if task.is_some_and(|task| task.merge_mark().is_some()) {
            return Ok(Self::default());
        }
        let tasks = store.tasks(team)?.tasks;
        Ok(Self::among(&tasks, worker, task))
    }

    fn among(tasks: &[Task], worker: &WorkerName, task: Option<&Task>) -> Self {
        let waited_for = task.map(|task| waited_for(tasks, task)).unwrap_or_default();
        let mut found = Self::default();
        for done in tasks.iter().filter(|done| done.is_done()) {
            let is_waited_for = waited_for.contains(done.id());
            let is_own = done.owner() == Some(worker.as_str());
            if !is_waited_for && !is_own {
                continue;
            }
            if let Some(merge) = done.merge_commit().filter(|_| done.is_merged()) {
                found.merges.push(merge.to_owned());
            }
            let Some(commit) = done.commit().filter(|_| done.merge_mark().is_none()) else {
                continue;
            };
            let work = FinishedWork {
                task: done.id().clone(),
                commit: commit.to_owned(),
            };
            if is_waited_for {
                found.waited_for.push(work);
            } else {
                found.own.push(work);
            }
        }
        found
    }
}

/// Returns every task that a task depends on, directly or indirectly.
fn waited_for(tasks: &[Task], task: &Task) -> BTreeSet<TaskId> {
    let mut all = BTreeSet::new();
    let mut next: Vec<TaskId> = task.blocked_by().to_vec();
    while let Some(id) = next.pop() {
        let Some(blocker) = tasks.iter().find(|task| *task.id() == id) else {
            continue;
        };
        if all.insert(id) {
            next.extend(blocker.blocked_by().iter().cloned());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use teamster_types::Time;
    use teamster_types::task::NewTask;

    use super::*;

    fn task(number: u64, owner: &str, blocked_by: &[u64], ours: Value) -> Task {
        let id = TaskId::from_number(number);
        let new = NewTask {
            blocked_by: blocked_by
                .iter()
                .copied()
                .map(TaskId::from_number)
                .collect(),
            ..NewTask::default()
        };
        let made = Task::new(id.clone(), &new, Time::from_millis(0));
        let mut raw = made.as_object().clone();
        raw.insert("owner".into(), json!(owner));
        let is_done = ours.get("result").is_some();
        raw.insert(
            "status".into(),
            json!(if is_done { "completed" } else { "pending" }),
        );
        raw["metadata"]["teamster"] = ours;
        Task::from_object(&id, raw).unwrap()
    }

    fn done(number: u64, owner: &str, blocked_by: &[u64]) -> Task {
        let result = json!({ "result": { "commit": format!("c{number}") } });
        task(number, owner, blocked_by, result)
    }

    fn numbers(work: &[FinishedWork]) -> Vec<u128> {
        work.iter().map(|work| work.task.number()).collect()
    }

    #[test]
    fn task_begins_with_all_it_waited_for_and_what_its_worker_finished() {
        let ann: WorkerName = "ann".parse().unwrap();
        let last = task(5, "ann", &[2], json!({}));
        let tasks = [
            done(1, "ben", &[]),
            done(2, "cyn", &[1]),
            done(3, "ann", &[]),
            done(4, "ben", &[]),
            last.clone(),
        ];
        let found = Foundation::among(&tasks, &ann, Some(&last));
        assert_eq!(numbers(&found.waited_for), [1, 2]);
        assert_eq!(numbers(&found.own), [3]);
        let found = Foundation::among(&tasks, &ann, None);
        assert_eq!(numbers(&found.own), [3]);
        assert!(found.waited_for.is_empty());
    }

    #[test]
    fn merged_work_counts_by_the_commit_that_merged_it() {
        let ann: WorkerName = "ann".parse().unwrap();
        let merged = json!({ "result": { "commit": "c1" }, "merged": true, "mergeCommit": "m1" });
        let tasks = [task(1, "ann", &[], merged), done(2, "ann", &[])];
        let found = Foundation::among(&tasks, &ann, None);
        assert_eq!(found.merges, ["m1"]);
        assert_eq!(numbers(&found.own), [2]);
    }
}
