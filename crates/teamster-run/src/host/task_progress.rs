//! Determines from the tasks alone what is left to do.

use std::collections::{BTreeMap, BTreeSet};

use teamster_types::TaskId;
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::task::{MergeMark, Status, Task};

/// Returns the task that the work of this one belongs to: itself, or the one whose conflict it resolves.
pub(super) fn root(task: &Task) -> TaskId {
    task.resolves().unwrap_or_else(|| task.id().clone())
}

/// Returns whether a task is done but its work is not merged yet. A task that was added to the run by hand has no mark,
/// but a commit.
pub(super) fn waits_for_merge(task: &Task) -> bool {
    let unnoted = || task.merge_mark().is_none() && task.commit().is_some();
    task.is_done() && (task.is_unmerged() || unnoted())
}

/// Returns whether a task changed files that it had not reserved.
pub(super) fn needs_review(task: &Task) -> bool {
    task.result().is_some_and(|result| result.needs_review)
}

/// The tasks that resolve conflicts, by the task with the conflict. A host needs them for every task, so they are
/// collected once instead of searching all tasks each time.
pub(super) struct Resolutions<'t>(BTreeMap<TaskId, Vec<&'t Task>>);

impl<'t> Resolutions<'t> {
    /// Collects the resolutions among these tasks.
    pub(super) fn among(tasks: &'t [Task]) -> Self {
        let mut found: BTreeMap<TaskId, Vec<&Task>> = BTreeMap::new();
        for task in tasks {
            if let Some(root) = task.resolves() {
                found.entry(root).or_default().push(task);
            }
        }
        Self(found)
    }

    /// Returns the tasks that resolve the conflict of a task, or the same conflict as it.
    pub(super) fn of(&self, task: &Task) -> &[&'t Task] {
        self.0.get(&root(task)).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a later resolution has replaced this task.
    pub(super) fn supersede(&self, task: &Task) -> bool {
        let number = task.id().number();
        self.of(task)
            .iter()
            .any(|other| other.id().number() > number)
    }
}

/// Returns the tasks whose work can be merged now, in the order of their numbers, but none before its dependencies.
pub(super) fn to_merge(tasks: &[Task]) -> Vec<&Task> {
    let resolutions = Resolutions::among(tasks);
    let mut waiting: Vec<&Task> = tasks
        .iter()
        .filter(|task| waits_for_merge(task) && !resolutions.supersede(task))
        .collect();
    let mut left: BTreeSet<&TaskId> = waiting.iter().map(|task| task.id()).collect();
    let mut ordered = Vec::new();
    while !waiting.is_empty() {
        let is_free = |task: &&Task| !task.blocked_by().iter().any(|id| left.contains(id));
        // A cycle can only come from editing by hand; then the numbers decide.
        let next = waiting.remove(waiting.iter().position(is_free).unwrap_or(0));
        left.remove(next.id());
        ordered.push(next);
    }
    ordered
}

/// Returns the finished tasks whose work could not be merged: a run that only merges gives them up.
pub(super) fn not_merged(tasks: &[Task]) -> Vec<&Task> {
    let is_lost =
        |task: &&Task| task.is_failed() && task.commit().is_some() && task.resolves().is_none();
    tasks.iter().filter(is_lost).collect()
}

/// Returns which finished tasks could not be merged, each with the reason and where its work is; `None` when there are none.
pub(super) fn not_merged_words(tasks: &[Task]) -> Option<Wording> {
    let lost = not_merged(tasks);
    let words: Vec<Phrase> = lost
        .iter()
        .map(|task| match task.error() {
            Some(error) => Phrase::new(
                PhraseCode::TaskError,
                [("task", task.id()), ("error", &error)],
            ),
            None => Phrase::new(PhraseCode::TaskNotMerged, [("task", task.id())]),
        })
        .collect();
    (!words.is_empty()).then(|| Wording::joined(&words, "; "))
}

/// Returns whether any work of these tasks waits to be merged, or could not be merged.
pub fn has_work_to_merge(tasks: &[Task]) -> bool {
    !to_merge(tasks).is_empty() || !not_merged(tasks).is_empty()
}

/// Returns the tasks that will never be done: they failed permanently, or depend on one that did or that was deleted. A
/// failed resolution that a later one replaces does not count.
pub(super) fn hopeless(tasks: &[Task]) -> BTreeSet<TaskId> {
    let known: BTreeSet<&TaskId> = tasks.iter().map(Task::id).collect();
    let resolutions = Resolutions::among(tasks);
    let mut hopeless: BTreeSet<TaskId> = tasks
        .iter()
        .filter(|task| task.is_failed() && task.merge_mark() != Some(MergeMark::NotChosen))
        .filter(|task| match task.resolves() {
            // If the task with the conflict was deleted, its resolution no longer matters.
            Some(root) => known.contains(&root) && !resolutions.supersede(task),
            None => true,
        })
        .map(|task| task.id().clone())
        .collect();
    loop {
        let more: Vec<TaskId> = tasks
            .iter()
            .filter(|task| task.status() == Status::Pending && !hopeless.contains(task.id()))
            .filter(|task| {
                let mut blockers = task.blocked_by().iter();
                blockers.any(|id| hopeless.contains(id) || !known.contains(id))
            })
            .map(|task| task.id().clone())
            .collect();
        if more.is_empty() {
            return hopeless;
        }
        hopeless.extend(more);
    }
}

/// Returns the results of which one is still to be chosen, including those of failed tasks.
pub(super) fn candidates(tasks: &[Task]) -> Vec<&Task> {
    tasks
        .iter()
        .filter(|task| task.merge_mark() == Some(MergeMark::Candidate))
        .collect()
}

/// Returns the tasks that still have to be done or merged.
pub(super) fn open(tasks: &[Task]) -> Vec<&Task> {
    let hopeless = hopeless(tasks);
    tasks
        .iter()
        .filter(|task| !hopeless.contains(task.id()))
        .filter(|task| task.status() != Status::Completed || waits_for_merge(task))
        .collect()
}

/// Returns a task with these notes under `metadata.teamster`; with the note `failed` it has failed permanently.
#[cfg(test)]
pub(super) fn example(
    number: u64,
    blocked_by: &[u64],
    status: &str,
    notes: &serde_json::Value,
) -> Task {
    use serde_json::json;
    let blocked_by = blocked_by.iter().copied().map(TaskId::from_number);
    let new = teamster_types::task::NewTask {
        subject: format!("task {number}"),
        blocked_by: blocked_by.collect(),
        ..Default::default()
    };
    let id = TaskId::from_number(number);
    let made = Task::new(id.clone(), &new, teamster_types::Time::from_millis(0));
    let mut raw = made.as_object().clone();
    raw.insert("status".into(), json!(status));
    for (key, value) in notes.as_object().unwrap() {
        raw["metadata"]["teamster"][key] = value.clone();
    }
    if notes.get("failed").is_some() {
        raw["metadata"]["permanentlyFailed"] = json!(true);
    }
    Task::from_object(&id, raw).unwrap()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::example as task;
    use super::*;

    fn numbers(tasks: &[&Task]) -> Vec<u128> {
        tasks.iter().map(|task| task.id().number()).collect()
    }

    #[test]
    fn whoever_waits_for_a_failed_task_is_not_waited_for_however_far_behind() {
        let none = json!({});
        let tasks = [
            task(1, &[], "completed", &json!({ "failed": true })),
            task(2, &[1], "pending", &none),
            task(3, &[2], "pending", &none),
            task(4, &[], "pending", &none),
            task(5, &[99], "pending", &none),
        ];
        let numbers_of: Vec<u128> = hopeless(&tasks).iter().map(TaskId::number).collect();
        assert_eq!(numbers_of, [1, 2, 3, 5]);
        assert_eq!(numbers(&open(&tasks)), [4]);
    }

    #[test]
    fn task_is_merged_after_those_that_it_waited_for() {
        let unmerged = json!({ "merged": false });
        let tasks = [
            task(1, &[3], "completed", &unmerged),
            task(2, &[], "completed", &unmerged),
            task(3, &[4], "completed", &unmerged),
            task(4, &[], "completed", &unmerged),
        ];
        assert_eq!(numbers(&to_merge(&tasks)), [2, 4, 3, 1]);
    }

    #[test]
    fn what_is_done_is_open_until_it_is_merged() {
        let tasks = [
            task(1, &[], "completed", &json!({ "merged": false })),
            task(2, &[], "completed", &json!({ "merged": true })),
            task(3, &[], "completed", &json!({})),
        ];
        assert_eq!(numbers(&to_merge(&tasks)), [1]);
        assert_eq!(numbers(&open(&tasks)), [1]);
    }

    #[test]
    fn a_conflict_is_the_business_of_the_last_who_resolves_it() {
        let merged = |more: Value| {
            let mut notes = json!({ "merged": false });
            for (key, value) in more.as_object().unwrap() {
                notes[key] = value.clone();
            }
            notes
        };
        let tasks = [
            task(1, &[], "completed", &merged(json!({}))),
            task(2, &[], "completed", &merged(json!({ "resolves": "1" }))),
            task(3, &[], "pending", &merged(json!({ "resolves": "1" }))),
        ];
        assert!(to_merge(&tasks).is_empty());
        assert_eq!(numbers(&open(&tasks)), [1, 2, 3]);
        assert_eq!(root(&tasks[2]).number(), 1);
    }
}
