//! What the journal tells about tasks and workers.

use std::collections::BTreeMap;
use std::time::Duration;

use teamster_journal::{Event, EventKind};
use teamster_types::{TaskId, Time};

use super::Conflict;

/// What happened to one task.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskStory {
    pub(super) attempts: usize,
    pub(super) last_worker: Option<String>,
    pub(super) is_merged: bool,
    /// It was completed without a change, so there is nothing of it to merge.
    pub(super) is_unchanged: bool,
    pub(super) conflicts: usize,
    pub(super) is_given_up: bool,
    /// The merged task that resolved its conflict.
    pub(super) merged_by: Option<TaskId>,
}

/// What one worker did.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkerStory {
    pub(super) done: usize,
    pub(super) failed: usize,
    pub(super) busy: Duration,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Stories {
    pub(super) tasks: BTreeMap<TaskId, TaskStory>,
    pub(super) workers: BTreeMap<String, WorkerStory>,
    pub(super) conflicts: Vec<Conflict>,
    at_work: BTreeMap<TaskId, (String, Time)>,
}

impl Stories {
    pub(super) fn of(events: &[(&Event, EventKind)]) -> Self {
        let mut stories = Self::default();
        for (event, what) in events {
            stories.apply(event, what);
        }
        // Who is still at it has been busy up to the last thing we know.
        if let Some((last, _)) = events.last() {
            let open: Vec<TaskId> = stories.at_work.keys().cloned().collect();
            for task in open {
                stories.rests(&task, last.ts);
            }
        }
        stories.resolve();
        stories
    }

    /// A conflict is resolved when the task that was made for it is merged, or its own conflict is resolved.
    fn resolve(&mut self) {
        // A task that resolves comes after the conflict, so the last are known first.
        for conflict in self.conflicts.iter().rev() {
            let fix = conflict.fix_task.as_ref().and_then(|fix| fix.parse().ok());
            let Some(fix) = fix else { continue };
            let story = self.tasks.get(&fix);
            let is_in = story.is_some_and(|fix| fix.is_merged || fix.merged_by.is_some());
            let task = conflict.task.parse::<TaskId>().ok();
            if let Some(task) = task.and_then(|task| self.tasks.get_mut(&task))
                && is_in
            {
                task.merged_by = Some(fix);
            }
        }
    }

    fn apply(&mut self, event: &Event, what: &EventKind) {
        let Some(id) = &event.task_id else {
            return;
        };
        let task = self.tasks.entry(id.clone()).or_default();
        match what {
            EventKind::TaskClaimed(_) => {
                task.attempts += 1;
                task.last_worker = Some(event.actor.clone());
                self.rests(id, event.ts);
                self.at_work
                    .insert(id.clone(), (event.actor.clone(), event.ts));
            }
            EventKind::TaskCompleted(_) => self.ends(id, event.ts, |worker| worker.done += 1),
            EventKind::TaskFailed(_) => self.ends(id, event.ts, |worker| worker.failed += 1),
            EventKind::TaskReleased(_) | EventKind::TaskRequeued(_) | EventKind::TaskDeleted(_) => {
                self.rests(id, event.ts);
            }
            // The first version called it merged, too, when there was no commit to merge.
            EventKind::MergeMerged(merged) => {
                task.is_merged = merged.commit.is_some();
                task.is_unchanged = !task.is_merged;
            }
            EventKind::MergeLost(_) => task.is_merged = false,
            EventKind::TaskUnchanged(_) => task.is_unchanged = true,
            EventKind::MergeConflict(conflict) => {
                task.conflicts += 1;
                task.is_given_up |= conflict.is_final;
                self.conflicts.push(Conflict {
                    task: id.to_string(),
                    files: conflict.files.clone(),
                    fix_task: conflict.fix_task.as_ref().map(ToString::to_string),
                    is_final: conflict.is_final,
                });
            }
            _ => {}
        }
    }

    /// An attempt came to its own end, and counts for whoever made it.
    fn ends(&mut self, task: &TaskId, at: Time, count: impl Fn(&mut WorkerStory)) {
        if let Some((worker, _)) = self.at_work.get(task) {
            count(self.workers.entry(worker.clone()).or_default());
        }
        self.rests(task, at);
    }

    fn rests(&mut self, task: &TaskId, at: Time) {
        if let Some((worker, since)) = self.at_work.remove(task) {
            let story = self.workers.entry(worker).or_default();
            story.busy = story.busy.saturating_add(at.since(since));
        }
    }
}
