//! What the journal tells about tasks and workers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use teamster_journal::Event;
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
    pub(super) fn of(events: &[Event]) -> Self {
        let mut stories = Self::default();
        for event in events {
            stories.apply(event);
        }
        // Who is still at it has been busy up to the last thing we know.
        if let Some(last) = events.last() {
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

    fn apply(&mut self, event: &Event) {
        let Some(id) = &event.task_id else {
            return;
        };
        let task = self.tasks.entry(id.clone()).or_default();
        match event.kind.as_str() {
            "task.claimed" => {
                task.attempts += 1;
                task.last_worker = Some(event.actor.clone());
                self.rests(id, event.ts);
                self.at_work
                    .insert(id.clone(), (event.actor.clone(), event.ts));
            }
            "task.completed" => self.ends(id, event.ts, |worker| worker.done += 1),
            "task.failed" => self.ends(id, event.ts, |worker| worker.failed += 1),
            "task.released" | "task.requeued" | "task.deleted" => self.rests(id, event.ts),
            // The first version called it merged, too, when there was no commit to merge.
            "merge.merged" => {
                task.is_merged = event.data.get("commit").is_some_and(Value::is_string);
                task.is_unchanged = !task.is_merged;
            }
            "merge.lost" => task.is_merged = false,
            "task.unchanged" => task.is_unchanged = true,
            "merge.conflict" => {
                let is_final = event.data.get("final") == Some(&Value::Bool(true));
                task.conflicts += 1;
                task.is_given_up |= is_final;
                let files = event.data.get("files").and_then(Value::as_array);
                self.conflicts.push(Conflict {
                    task: id.to_string(),
                    files: files
                        .into_iter()
                        .flatten()
                        .filter_map(|file| file.as_str().map(str::to_owned))
                        .collect(),
                    fix_task: word(event.data.get("fixTask")),
                    is_final,
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

/// A text, or a number as a text: task ids are written either way by people who make events by hand.
pub(super) fn word(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
