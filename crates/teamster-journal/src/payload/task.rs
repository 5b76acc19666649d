//! The payload of every event that changes a task.

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use teamster_types::failure::Failure;
use teamster_types::json::Object;
use teamster_types::task::{Status, Task, TaskResult};

use crate::changes::changes;

/// The payload of every event that changes a task: the fields that changed, and why.
///
/// `teamster_journal::apply` rebuilds a task from all of its fields. A reader gets only the fields that are needed to
/// follow a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskChange {
    /// The previous status, if it changed; `null` for a new task.
    #[schemars(with = "Option<String>")]
    pub from: Option<Status>,
    /// The new status, if it changed; `null` for a removed task.
    #[schemars(with = "Option<String>")]
    pub to: Option<Status>,
    /// The subject, if it changed.
    pub subject: Option<String>,
    /// Why an attempt failed.
    pub error: Option<String>,
    /// Why an actor other than its worker changed it.
    pub reason: Option<String>,
    /// The worker that had it.
    pub worker: Option<String>,
    /// What changed in the task's metadata.
    #[schemars(skip)]
    metadata: MetadataChange,
    /// All fields to write; empty in a payload that was read.
    #[serde(skip)]
    written: Object,
}

/// The part of a task's metadata that a reader of an event gets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct MetadataChange {
    teamster: NotesChange,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct NotesChange {
    result: Option<TaskResult>,
}

impl TaskChange {
    /// Returns the result of the task, if the event contains it.
    pub fn result(&self) -> Option<&TaskResult> {
        self.metadata.teamster.result.as_ref()
    }

    /// Returns what changed from `before` to `after`.
    pub fn between(before: Option<&Task>, after: Option<&Task>) -> Self {
        Self {
            from: before.map(Task::status),
            to: after.map(Task::status),
            written: changes(before, after),
            ..Self::default()
        }
    }

    /// Adds why an attempt failed.
    #[must_use]
    pub fn error(mut self, error: &str) -> Self {
        self.error = Some(error.to_owned());
        self.with("error", error)
    }

    /// Adds the task's current failure record.
    #[must_use]
    pub fn failure(self, failure: Option<&Failure>) -> Self {
        self.with("failure", failure)
    }

    /// Adds why an actor other than its worker changed it.
    #[must_use]
    pub fn reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.to_owned());
        self.with("reason", reason)
    }

    /// Adds the worker that had it.
    #[must_use]
    pub fn worker(mut self, worker: &str) -> Self {
        self.worker = Some(worker.to_owned());
        self.with("worker", worker)
    }

    /// Adds the fencing token of a claim.
    #[must_use]
    pub fn fence(self, fence: u64) -> Self {
        self.with("fence", fence)
    }

    /// Adds the reserved files that the task shares with other tasks, if there are any.
    #[must_use]
    pub fn overlaps<T: Serialize>(self, overlaps: &[T]) -> Self {
        if overlaps.is_empty() {
            self
        } else {
            self.with("overlaps", overlaps)
        }
    }

    /// Adds the changes to other tasks in the same transaction, if there are any.
    #[must_use]
    pub fn also(self, also: Object) -> Self {
        if also.is_empty() {
            self
        } else {
            self.with("also", also)
        }
    }

    /// Marks the change as a record of the whole task, because only its previous status is known.
    #[must_use]
    pub fn whole(mut self, from: Status) -> Self {
        self.from = Some(from);
        self.with("whole", true).with("from", from)
    }

    /// Returns the removal of a task of which only the status is known.
    pub fn removed(from: Status) -> Self {
        let change = Self {
            from: Some(from),
            ..Self::default()
        };
        change.with("from", from).with("to", Value::Null)
    }

    fn with(mut self, key: &str, value: impl Serialize) -> Self {
        self.written
            .insert(key.to_owned(), serde_json::json!(value));
        self
    }
}

impl Serialize for TaskChange {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.written.len()))?;
        for (key, value) in &self.written {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
