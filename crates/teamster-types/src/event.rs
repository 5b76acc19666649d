//! The journal's lines, and how a task is rebuilt from them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::json::{Object, apply_patch, merge_patch};
use crate::task::{Status, Task};
use crate::{TaskId, Time};

/// The longest line, in bytes; longer texts go to blobs beside the journal.
pub const LINE_LIMIT: usize = 8 * 1024;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Grows by one for each event of a team.
    pub seq: u64,
    /// Unique among all teams.
    pub id: String,
    /// When.
    pub ts: Time,
    /// In which team.
    pub team: String,
    /// What happened: `task.claimed`, `message.sent`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Who did it; `foreign` for a program that is not ours.
    pub actor: String,
    /// To which task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The commit goes on in the next line; both count, or neither.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// What changed.
    #[serde(default)]
    pub data: Object,
}

/// An event that has no place in the journal yet.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// What happened.
    pub kind: &'static str,
    /// Who did it.
    pub actor: String,
    /// To which task.
    pub task_id: Option<TaskId>,
    /// What changed.
    pub data: Object,
}

impl NewEvent {
    /// Something `actor` did.
    pub fn new(kind: &'static str, actor: impl Into<String>) -> Self {
        Self {
            kind,
            actor: actor.into(),
            task_id: None,
            data: Object::new(),
        }
    }

    /// About this task.
    #[must_use]
    pub fn task(mut self, id: &TaskId) -> Self {
        self.task_id = Some(id.clone());
        self
    }

    /// With this detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Serialize) -> Self {
        self.data.insert(key.to_owned(), json!(value));
        self
    }

    /// With the fields that changed.
    #[must_use]
    pub fn changed(mut self, before: Option<&Task>, after: Option<&Task>) -> Self {
        self.data.extend(changes(before, after));
        self
    }
}

/// Fields of a task that stand in `data` under their own name; others stand under `other`.
const FIELDS: [&str; 7] = [
    "subject",
    "description",
    "activeForm",
    "owner",
    "blocks",
    "blockedBy",
    "metadata",
];

/// What changed from `before` to `after`: changed fields, `from` and `to` for the status, never a token.
pub fn changes(before: Option<&Task>, after: Option<&Task>) -> Object {
    let (old, new) = (public(before), public(after));
    let mut data = Object::new();
    if before.map(Task::status) != after.map(Task::status) {
        data.insert("from".into(), json!(before.map(Task::status)));
        data.insert("to".into(), json!(after.map(Task::status)));
    }
    if after.is_none() {
        return data;
    }
    let mut other = Object::new();
    for (key, change) in merge_patch(&old, &new).unwrap_or_default() {
        match key.as_str() {
            "id" | "status" => {}
            known if FIELDS.contains(&known) => {
                data.insert(key, change);
            }
            _ => {
                other.insert(key, change);
            }
        }
    }
    if !other.is_empty() {
        data.insert("other".into(), Value::Object(other));
    }
    data
}

fn public(task: Option<&Task>) -> Object {
    task.map(Task::public).unwrap_or_default()
}

/// Rebuilds a task by applying the changes of one event. `None`: it does not exist.
pub fn apply(task: Option<Task>, id: &TaskId, data: &Object) -> Result<Option<Task>, String> {
    let status = match data.get("to") {
        Some(Value::Null) => return Ok(None),
        Some(Value::String(word)) => {
            Status::parse(word).ok_or(format!("unknown status \"{word}\""))?
        }
        _ => match &task {
            Some(task) => task.status(),
            None => return Err(format!("task {id} changes before it was created")),
        },
    };
    let mut raw = task.map_or_else(Object::new, |task| task.as_object().clone());
    raw.insert("id".into(), json!(id));
    raw.insert("status".into(), json!(status));
    let mut patch = Object::new();
    for key in FIELDS {
        if let Some(change) = data.get(key) {
            patch.insert(key.to_owned(), change.clone());
        }
    }
    apply_patch(&mut raw, &patch);
    if let Some(Value::Object(other)) = data.get("other") {
        apply_patch(&mut raw, other);
    }
    Task::from_object(id, raw).map(Some)
}
