//! A task, as stored in its file.
//!
//! Claude Code and other programs write these files too, so a [`Task`] keeps the whole JSON object it was read from.
//! All of teamster's own data is under `metadata.teamster`: Claude Code drops unknown top-level keys when it rewrites a
//! task, but keeps `metadata`.

mod claim;
mod metadata;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::json::{self, Object};
use crate::{TaskId, Time, WorkerName};

pub use claim::{Claim, Token};
pub use metadata::{MergeMark, TaskConflict, TaskFix, TaskNotes, TaskResult, TaskReview};

/// The longest subject, in characters.
pub const SUBJECT_LIMIT: usize = 500;
/// The longest description, in characters.
pub const DESCRIPTION_LIMIT: usize = 10_000;

/// The three states that a task file knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The task is not in progress.
    Pending,
    /// Its owner works on it.
    InProgress,
    /// Done, or failed permanently (`metadata.permanentlyFailed`).
    Completed,
}

impl Status {
    /// Returns the name used in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }

    /// Returns the status with this name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Pending, Self::InProgress, Self::Completed]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}

/// A task file.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    id: TaskId,
    status: Status,
    blocked_by: Vec<TaskId>,
    blocks: Vec<TaskId>,
    raw: Object,
}

/// The contents of a new task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewTask {
    /// One line that says what to do.
    pub subject: String,
    /// Everything a worker needs to know.
    pub description: String,
    /// Its form while it is in progress ("Fixing …"); without it, viewers show the subject.
    pub active_form: Option<String>,
    /// Tasks that must be completed first.
    pub blocked_by: Vec<TaskId>,
    /// The worker it is assigned to.
    pub owner: Option<WorkerName>,
    /// The capabilities that its worker must have.
    pub capabilities: Vec<String>,
    /// The files it will change.
    pub paths: Vec<String>,
    /// Commands that verify that it is done.
    pub verify: Vec<String>,
    /// What a run records about it.
    pub notes: TaskNotes,
    /// Its label in the plan that it came from.
    pub label: Option<String>,
}

impl Task {
    /// Returns a fresh, pending task.
    pub fn new(id: TaskId, new: &NewTask, now: Time) -> Self {
        let mut raw = Object::new();
        raw.insert("id".into(), json!(id));
        raw.insert("subject".into(), json!(new.subject));
        raw.insert("description".into(), json!(new.description));
        if let Some(active_form) = &new.active_form {
            raw.insert("activeForm".into(), json!(active_form));
        }
        raw.insert("status".into(), json!(Status::Pending));
        if let Some(owner) = &new.owner {
            raw.insert("owner".into(), json!(owner));
        }
        raw.insert("blocks".into(), json!([]));
        raw.insert("blockedBy".into(), json!(new.blocked_by));
        raw.insert("metadata".into(), metadata::fresh(new, now));
        Self {
            id,
            status: Status::Pending,
            blocked_by: new.blocked_by.clone(),
            blocks: Vec::new(),
            raw,
        }
    }

    /// Parses the bytes of `{id}.json`. The error says what is wrong with them.
    pub fn parse(id: &TaskId, bytes: &[u8]) -> Result<Self, String> {
        Self::from_object(id, json::parse_object(bytes)?)
    }

    /// Converts an object to the task `id`, if it is valid.
    pub fn from_object(id: &TaskId, raw: Object) -> Result<Self, String> {
        match raw.get("id") {
            Some(Value::String(inner)) if inner == id.as_str() => {}
            Some(Value::String(inner)) => {
                return Err(format!("holds the task \"{inner}\", not \"{id}\""));
            }
            _ => return Err("has no `id` text".to_owned()),
        }
        let status = match raw.get("status") {
            Some(Value::String(word)) => {
                Status::parse(word).ok_or_else(|| format!("has the unknown status \"{word}\""))?
            }
            _ => return Err("has no `status` text".to_owned()),
        };
        if !matches!(raw.get("subject"), Some(Value::String(_))) {
            return Err("has no `subject` text".to_owned());
        }
        if !matches!(
            raw.get("metadata"),
            None | Some(Value::Null | Value::Object(_))
        ) {
            return Err("has `metadata` that is not an object".to_owned());
        }
        Ok(Self {
            id: id.clone(),
            status,
            blocked_by: ids(&raw, "blockedBy")?,
            blocks: ids(&raw, "blocks")?,
            raw,
        })
    }

    /// Returns the bytes of the task's file.
    pub fn to_file(&self) -> Vec<u8> {
        json::to_file(&self.raw)
    }

    /// Returns the whole object, foreign keys included.
    pub fn as_object(&self) -> &Object {
        &self.raw
    }

    /// Returns the object without the claim's token, so that it may be shown.
    pub fn public(&self) -> Object {
        let mut shown = self.raw.clone();
        metadata::hide_token(&mut shown);
        shown
    }

    /// Returns the id.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Returns the one line that says what to do.
    pub fn subject(&self) -> &str {
        self.text("subject").unwrap_or_default()
    }

    /// Returns everything that a worker needs to know.
    pub fn description(&self) -> &str {
        self.text("description").unwrap_or_default()
    }

    /// Returns the status in the file.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the owner's name in the file (a foreign program may write any name).
    pub fn owner(&self) -> Option<&str> {
        self.text("owner").filter(|owner| !owner.is_empty())
    }

    /// Returns the tasks that must be completed first.
    pub fn blocked_by(&self) -> &[TaskId] {
        &self.blocked_by
    }

    /// Returns the tasks that wait for this one.
    pub fn blocks(&self) -> &[TaskId] {
        &self.blocks
    }

    /// Returns whether it is completed, and not because it failed permanently.
    pub fn is_done(&self) -> bool {
        self.status == Status::Completed && !self.is_failed()
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.raw.get(key)?.as_str()
    }

    pub(crate) fn set_status(&mut self, status: Status) {
        self.status = status;
        self.raw.insert("status".into(), json!(status));
    }

    pub(crate) fn set_owner(&mut self, owner: Option<&WorkerName>) {
        json::set(&mut self.raw, "owner", owner.map(|owner| json!(owner)));
    }

    pub(crate) fn set_text(&mut self, key: &str, text: &str) {
        self.raw.insert(key.to_owned(), json!(text));
    }

    pub(crate) fn set_blocked_by(&mut self, ids: Vec<TaskId>) {
        self.raw.insert("blockedBy".into(), json!(ids));
        self.blocked_by = ids;
    }

    pub(crate) fn set_blocks(&mut self, ids: Vec<TaskId>) {
        self.raw.insert("blocks".into(), json!(ids));
        self.blocks = ids;
    }
}

/// Parses a list of ids: strings, or numbers as some programs write them.
fn ids(raw: &Object, key: &str) -> Result<Vec<TaskId>, String> {
    let list = match raw.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(format!("has `{key}` that is not a list")),
    };
    list.iter()
        .map(|item| {
            let text = match item {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            text.parse()
                .map_err(|error| format!("has in `{key}` no task id: {error}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREIGN: &str = r#"{
  "zeta": 1.50,
  "id": "3",
  "subject": "Test parser",
  "description": "Add tests",
  "status": "pending",
  "blocks": [],
  "blockedBy": [
    "1"
  ],
  "metadata": {
    "area": "tests",
    "big": 123456789012345678901234567890,
    "teamster": {
      "later": {
        "b": 1,
        "a": 2
      }
    }
  },
  "alpha": null
}"#;

    fn id(text: &str) -> TaskId {
        text.parse().unwrap()
    }

    #[test]
    fn what_a_foreign_program_wrote_comes_back_byte_for_byte() {
        let task = Task::parse(&id("3"), FOREIGN.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(task.to_file()).unwrap(), FOREIGN);
    }

    #[test]
    fn our_changes_leave_foreign_keys_and_their_order_alone() {
        let mut task = Task::parse(&id("3"), FOREIGN.as_bytes()).unwrap();
        task.set_status(Status::Completed);
        task.count_version();
        let expected = FOREIGN.replace("\"pending\"", "\"completed\"").replace(
            "\"a\": 2\n      }\n",
            "\"a\": 2\n      },\n      \"version\": 1\n",
        );
        assert_eq!(String::from_utf8(task.to_file()).unwrap(), expected);
    }

    #[test]
    fn a_file_that_is_no_task_says_why() {
        let why = |text: &str| Task::parse(&id("3"), text.as_bytes()).unwrap_err();
        assert_eq!(why(""), "the file is empty");
        assert_eq!(why(r#"{"id":3}"#), "has no `id` text");
        assert_eq!(why(r#"{"id":"4"}"#), "holds the task \"4\", not \"3\"");
        let with = |rest: &str| why(&format!(r#"{{"id":"3","subject":"s",{rest}}}"#));
        assert_eq!(
            with(r#""status":"done""#),
            "has the unknown status \"done\""
        );
        assert_eq!(
            with(r#""status":"pending","metadata":[]"#),
            "has `metadata` that is not an object"
        );
        assert!(
            with(r#""status":"pending","blockedBy":["../x"]"#)
                .starts_with("has in `blockedBy` no task id")
        );
    }

    #[test]
    fn numbers_are_taken_as_ids_where_a_program_writes_them_so() {
        let text = r#"{"id":"3","subject":"s","status":"pending","blockedBy":[1,"2"]}"#;
        let task = Task::parse(&id("3"), text.as_bytes()).unwrap();
        assert_eq!(task.blocked_by(), [id("1"), id("2")]);
    }

    #[test]
    fn the_token_is_never_shown() {
        let text = r#"{"id":"3","subject":"s","status":"in_progress","metadata":{"teamster":{"claim":{"token":"secret","worker":"w"}}}}"#;
        let task = Task::parse(&id("3"), text.as_bytes()).unwrap();
        assert!(
            !serde_json::to_string(&task.public())
                .unwrap()
                .contains("secret")
        );
        assert!(!format!("{:?}", Token::new("secret")).contains("secret"));
    }
}
