//! Transitions of a task that is not in progress: its work is merged, or it is given up.

use super::{Refusal, count_write, end_attempt};
use crate::Time;
use crate::failure::{ATTEMPTS, Failure};
use crate::task::{MergeMark, Status, Task};

/// Records that the work of a completed task is merged, by this commit if there was one. Recording it twice changes
/// nothing.
pub fn merged(task: &mut Task, commit: Option<&str>) -> Result<bool, Refusal> {
    if !task.is_done() {
        return Err(Refusal::IllegalStep {
            id: task.id().clone(),
            state: task.status().as_str().replace('_', " "),
            step: "merged",
        });
    }
    if task.is_merged() {
        return Ok(false);
    }
    task.set_merge_mark(MergeMark::Merged, commit);
    count_write(task);
    Ok(true)
}

/// Records that a completed task changed nothing: there is nothing to merge, and no task waits for a merge. Recording
/// it twice changes nothing.
pub fn unchanged(task: &mut Task) -> Result<bool, Refusal> {
    if !task.is_done() {
        return Err(Refusal::IllegalStep {
            id: task.id().clone(),
            state: task.status().as_str().replace('_', " "),
            step: "called unchanged",
        });
    }
    if task.is_unchanged() {
        return Ok(false);
    }
    task.set_merge_mark(MergeMark::NoChange, None);
    count_write(task);
    Ok(true)
}

/// Records whether one of several candidate results was chosen: the chosen one is merged next, the others are kept.
pub fn choose(task: &mut Task, is_chosen: bool) -> Result<(), Refusal> {
    let may_be = task.status() == Status::Completed && !(is_chosen && task.is_failed());
    if !may_be || task.merge_mark() != Some(MergeMark::Candidate) {
        return Err(Refusal::IllegalStep {
            id: task.id().clone(),
            state: format!(
                "{} and no result to choose",
                task.status().as_str().replace('_', " ")
            ),
            step: "chosen",
        });
    }
    let mark = if is_chosen {
        MergeMark::Pending
    } else {
        MergeMark::NotChosen
    };
    task.set_merge_mark(mark, None);
    count_write(task);
    Ok(())
}

/// Revokes the record that the work of a task is merged, or that it needs no merge: the merge is pending again. Other
/// tasks stay as they are.
pub fn merge_lost(task: &mut Task) -> bool {
    if !matches!(
        task.merge_mark(),
        Some(MergeMark::Merged | MergeMark::NoChange)
    ) {
        return false;
    }
    task.set_merge_mark(MergeMark::Pending, None);
    count_write(task);
    true
}

/// Marks a task as failed permanently although it could be retried or was completed: a task it waits for will not be done,
/// or its work cannot be merged. Refused while it is in progress.
pub fn give_up(
    task: &mut Task,
    before: Option<&Failure>,
    error: &str,
    now: Time,
) -> Result<Failure, Refusal> {
    if task.status() == Status::InProgress {
        return Err(Refusal::IllegalStep {
            id: task.id().clone(),
            state: "in progress".to_owned(),
            step: "given up",
        });
    }
    let failure = Failure {
        retry_count: ATTEMPTS.max(before.map_or(0, |failure| failure.retry_count)),
        ..Failure::again(before, task.id(), error, now)
    };
    end_attempt(task, &failure, None, now);
    Ok(failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskId;
    use crate::graph::{Blocker, State, explain_state};
    use crate::task::{NewTask, TaskNotes};

    fn task(number: u64, blocked_by: &[u64]) -> Task {
        let new = NewTask {
            subject: "x".to_owned(),
            blocked_by: blocked_by
                .iter()
                .copied()
                .map(TaskId::from_number)
                .collect(),
            notes: TaskNotes {
                is_to_be_merged: true,
                ..TaskNotes::default()
            },
            ..NewTask::default()
        };
        Task::new(TaskId::from_number(number), &new, Time::from_millis(0))
    }

    #[test]
    fn whoever_waits_for_a_task_waits_for_its_merge() {
        let now = Time::from_millis(0);
        let mut blocker = task(1, &[]);
        assert!(merged(&mut blocker, None).is_err(), "it is not even done");
        blocker.set_status(Status::Completed);
        let waiting = task(2, &[1]);
        let judge = |blocker: &Task| explain_state(&waiting, now, |_| Blocker::of(Some(blocker)));
        assert_eq!(judge(&blocker).state, State::Waiting);
        assert_eq!(judge(&blocker).reason, "waits for the merge of 1");
        assert!(merged(&mut blocker, Some("abc")).unwrap());
        assert_eq!(judge(&blocker).state, State::Claimable);
        assert_eq!(blocker.merge_commit(), Some("abc"));
        assert!(!merged(&mut blocker, Some("def")).unwrap(), "once");
        assert_eq!(blocker.merge_commit(), Some("abc"));
    }

    #[test]
    fn task_without_a_change_holds_nobody_up_and_is_not_called_merged() {
        let now = Time::from_millis(0);
        let mut blocker = task(1, &[]);
        assert!(unchanged(&mut blocker).is_err(), "it is not even done");
        blocker.set_status(Status::Completed);
        assert!(unchanged(&mut blocker).unwrap());
        assert!(!unchanged(&mut blocker).unwrap(), "once");
        assert!(blocker.is_unchanged() && !blocker.is_merged() && !blocker.is_unmerged());
        let waiting = task(2, &[1]);
        let standing = explain_state(&waiting, now, |_| Blocker::of(Some(&blocker)));
        assert_eq!(standing.state, State::Claimable);
    }

    #[test]
    fn task_whose_merge_was_lost_is_waited_for_again() {
        let mut blocker = task(1, &[]);
        blocker.set_status(Status::Completed);
        assert!(!merge_lost(&mut blocker), "it was never merged");
        merged(&mut blocker, Some("abc")).unwrap();
        assert!(merge_lost(&mut blocker));
        assert!(blocker.is_unmerged() && blocker.merge_commit().is_none());
        assert!(merged(&mut blocker, Some("def")).unwrap());
    }

    #[test]
    fn what_is_given_up_blocks_visibly_and_can_be_retried() {
        let now = Time::from_millis(0);
        let mut blocker = task(1, &[]);
        blocker.set_status(Status::InProgress);
        assert!(give_up(&mut blocker, None, "no", now).is_err());
        blocker.set_status(Status::Completed);
        let failure = give_up(&mut blocker, None, "a third conflict", now).unwrap();
        assert!(failure.is_final() && blocker.is_failed());
        assert_eq!(blocker.error(), Some("a third conflict"));
        let waiting = task(2, &[1]);
        let standing = explain_state(&waiting, now, |_| Blocker::of(Some(&blocker)));
        assert_eq!(standing.state, State::Blocked);
        super::super::retry(&mut blocker, Some(&failure)).unwrap();
        assert_eq!(blocker.status(), Status::Pending);
        assert!(
            blocker.is_unmerged(),
            "its next result is to be merged again"
        );
    }
}
