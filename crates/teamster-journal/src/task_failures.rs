//! The tasks of a run that failed: how often in a row for the same reason, and which of them the leader gave up.
//!
//! A task that fails twice for the same reason will probably fail a third time, so the leader is woken then. A failed or blocked
//! task that the leader cancels without creating another one is given up: the run continues, but a person has to know.

use std::collections::{BTreeMap, BTreeSet};

use teamster_types::TaskId;

use crate::actor::EventActor;
use crate::event::Event;
use crate::kind::EventKind;

/// The number of consecutive failures of a task for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedFailure {
    /// The reason without its numbers, which vary between attempts.
    kind: String,
    /// The last reason, as recorded.
    pub reason: String,
    /// The number of consecutive failures.
    pub times: u32,
    /// The position of the event that recorded the second of them.
    pub second: u64,
}

/// The failures of a run's tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFailures {
    /// The tasks that failed, each with its last reason.
    repeated: BTreeMap<TaskId, RepeatedFailure>,
    /// Failed or blocked tasks that the leader cancelled in a turn in which it created no other task.
    given_up: Vec<TaskId>,
    /// Tasks that have failed or were blocked, and have not been completed since.
    troubled: BTreeSet<TaskId>,
    /// The troubled tasks that the leader has cancelled in its current turn, and whether it has created a task in that
    /// turn.
    cancelling: (Vec<TaskId>, bool),
}

impl TaskFailures {
    /// Returns how a task failed last, and how often in a row for that reason; `None` when it has not failed since it was
    /// completed or restarted.
    pub fn repeated(&self, task: &TaskId) -> Option<&RepeatedFailure> {
        self.repeated.get(task)
    }

    /// Returns the failed or blocked tasks that the leader cancelled without creating another one.
    pub fn given_up(&self) -> &[TaskId] {
        &self.given_up
    }

    /// Applies one event.
    pub(crate) fn apply(&mut self, event: &Event, what: &EventKind) {
        self.count(event, what);
        self.track_cancelled(event, what);
    }

    /// Counts consecutive failures of a task for the same reason.
    fn count(&mut self, event: &Event, what: &EventKind) {
        let Some(task) = &event.task_id else {
            return;
        };
        match what {
            EventKind::TaskFailed(change) => {
                let reason = change.error.clone().unwrap_or_default();
                let kind: String = reason.chars().filter(|c| !c.is_ascii_digit()).collect();
                let known = self.repeated.get(task).filter(|known| known.kind == kind);
                let (times, second) = match known {
                    Some(known) if known.times > 1 => (known.times + 1, known.second),
                    Some(known) => (known.times + 1, event.seq),
                    None => (1, 0),
                };
                let failure = RepeatedFailure {
                    kind,
                    reason,
                    times,
                    second,
                };
                self.repeated.insert(task.clone(), failure);
            }
            EventKind::TaskCompleted(_)
            | EventKind::TaskRetried(_)
            | EventKind::TaskDeleted(_)
            | EventKind::TaskUnblocked(_) => {
                self.repeated.remove(task);
            }
            _ => {}
        }
    }

    /// Tracks the work that the leader gives up: a troubled task that it cancels without creating another one.
    fn track_cancelled(&mut self, event: &Event, what: &EventKind) {
        let is_leader = event.actor == EventActor::Leader;
        match (what, &event.task_id) {
            (EventKind::TaskFailed(_) | EventKind::TaskBlocked(_), Some(task)) => {
                self.troubled.insert(task.clone());
            }
            (EventKind::TaskCompleted(_), Some(task)) => {
                self.troubled.remove(task);
            }
            (EventKind::TaskDeleted(_), Some(task)) => {
                let was_troubled = self.troubled.remove(task);
                let cancelled = (was_troubled && is_leader).then(|| task.clone());
                self.cancelling.0.extend(cancelled);
            }
            (EventKind::TaskCreated(_), _) if is_leader => self.cancelling.1 = true,
            (EventKind::LeaderWoken(_), _) => self.cancelling = (Vec::new(), false),
            (EventKind::LeaderActed(_), _) => {
                let (cancelled, has_others) = std::mem::take(&mut self.cancelling);
                if !has_others {
                    self.given_up.extend(cancelled);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use teamster_types::Time;

    use super::*;
    use crate::event::NewEvent;
    use crate::payload::{LeaderActed, LeaderWoken, TaskChange};

    fn failing(task: &str, errors: &[&str]) -> Option<RepeatedFailure> {
        let mut failures = TaskFailures::default();
        for (seq, error) in (1..).zip(errors) {
            let what = EventKind::TaskFailed(TaskChange::default().error(error));
            let event = NewEvent::new("worker-1", what).task(&"1".parse().unwrap());
            let at = Time::from_millis(1_000);
            let event = event.placed(seq, String::new(), at, "t".into());
            failures.apply(&event, &event.payload());
        }
        failures.repeated.remove(&task.parse().unwrap())
    }

    #[test]
    fn failures_for_the_same_reason_are_counted_whatever_their_figures_are() {
        let failed = failing("1", &["exit code 3 after 12 s", "exit code 3 after 9 s"]).unwrap();
        assert_eq!((failed.times, failed.second), (2, 2));
        assert_eq!(failed.reason, "exit code 3 after 9 s");
        let failed = failing("1", &["a", "a", "a"]).unwrap();
        assert_eq!(
            (failed.times, failed.second),
            (3, 2),
            "the second time counts"
        );
        let failed = failing("1", &["a", "b"]).unwrap();
        assert_eq!((failed.times, failed.second), (1, 0));
        assert_eq!(failing("2", &["a", "a"]), None);
    }

    #[test]
    fn failed_task_is_given_up_when_the_leader_cancels_it_without_another() {
        let task: TaskId = "1".parse().unwrap();
        for (creates_another, is_given_up) in [(false, true), (true, false)] {
            let leader = |what| NewEvent::new(EventActor::Leader, what);
            let failed = EventKind::TaskFailed(TaskChange::default().error("no"));
            let mut events = vec![
                NewEvent::new("worker-1", failed).task(&task),
                leader(EventKind::LeaderWoken(LeaderWoken::default())),
                leader(EventKind::TaskDeleted(TaskChange::default())).task(&task),
                leader(EventKind::LeaderActed(LeaderActed::default())),
            ];
            if creates_another {
                let created = EventKind::TaskCreated(TaskChange::default());
                events.insert(3, leader(created).task(&"2".parse().unwrap()));
            }
            let mut failures = TaskFailures::default();
            for (seq, event) in (1..).zip(events) {
                let event = event.placed(seq, String::new(), Time::from_millis(0), "t".into());
                failures.apply(&event, &event.payload());
            }
            assert_eq!(failures.given_up() == [task.clone()], is_given_up);
        }
    }
}
