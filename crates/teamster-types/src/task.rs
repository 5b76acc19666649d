//! A task, as its file holds it.
//!
//! Claude Code and other programs write these files too, so a [`Task`] keeps the whole JSON object it was read from.
//! Everything of ours lives under `metadata.teamster`: Claude Code drops unknown top-level keys when it rewrites a
//! task, but keeps `metadata`.

mod claim;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::json::{self, Object};
use crate::{TaskId, Time, WorkerName};

pub use claim::{Claim, Token};

/// The value of `merged` for a task that was completed without a change.
pub const NO_CHANGE: &str = "no change";
/// The longest subject, in characters.
pub const SUBJECT_LIMIT: usize = 500;
/// The longest description, in characters.
pub const DESCRIPTION_LIMIT: usize = 10_000;

/// The three states that a task file knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nobody works on it.
    Pending,
    /// Its owner works on it.
    InProgress,
    /// Done, or failed for good (`metadata.permanentlyFailed`).
    Completed,
}

impl Status {
    /// Returns the word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }

    /// Returns the state this word means.
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

/// Holds what a new task is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewTask {
    /// One line that says what to do.
    pub subject: String,
    /// Everything a worker needs to know.
    pub description: String,
    /// How it reads while it is being done ("Fixing …"); viewers show the subject without it.
    pub active_form: Option<String>,
    /// Tasks that must be completed first.
    pub blocked_by: Vec<TaskId>,
    /// The worker it is assigned to.
    pub owner: Option<WorkerName>,
    /// What its worker must be able to do.
    pub capabilities: Vec<String>,
    /// The files it will change.
    pub paths: Vec<String>,
    /// Commands that prove it done.
    pub verify: Vec<String>,
    /// What a run notes about it under `metadata.teamster`, such as `merged: false` until its work is merged.
    pub notes: Object,
    /// What the plan that it came from calls it.
    pub label: Option<String>,
}

impl Task {
    /// Returns a fresh, pending task.
    pub fn new(id: TaskId, new: &NewTask, now: Time) -> Self {
        let mut ours = Object::new();
        ours.insert("version".into(), json!(1));
        ours.insert("fence".into(), json!(0));
        ours.insert("createdAt".into(), json!(now));
        if let Some(label) = &new.label {
            ours.insert("label".into(), json!(label));
        }
        for (key, list) in [
            ("capabilities", &new.capabilities),
            ("paths", &new.paths),
            ("verify", &new.verify),
        ] {
            if !list.is_empty() {
                ours.insert(key.into(), json!(list));
            }
        }
        for (key, value) in &new.notes {
            ours.entry(key.clone()).or_insert_with(|| value.clone());
        }
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
        raw.insert(
            "metadata".into(),
            json!({"permanentlyFailed": false, "failedAttempts": 0, "teamster": ours}),
        );
        Self {
            id,
            status: Status::Pending,
            blocked_by: new.blocked_by.clone(),
            blocks: Vec::new(),
            raw,
        }
    }

    /// Reads the bytes of `{id}.json`. The error says what is wrong with them.
    pub fn parse(id: &TaskId, bytes: &[u8]) -> Result<Self, String> {
        Self::from_object(id, json::parse_object(bytes)?)
    }

    /// Takes an object as the task `id`, if it is one.
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

    /// Returns the object as it may be shown: without the claim's token.
    pub fn public(&self) -> Object {
        let mut shown = self.raw.clone();
        if let Some(Value::Object(claim)) = shown
            .get_mut("metadata")
            .and_then(|metadata| metadata.get_mut("teamster"))
            .and_then(|ours| ours.get_mut("claim"))
        {
            claim.shift_remove("token");
        }
        shown
    }

    /// Returns the id.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// One line that says what to do.
    pub fn subject(&self) -> &str {
        self.text("subject").unwrap_or_default()
    }

    /// Everything a worker needs to know.
    pub fn description(&self) -> &str {
        self.text("description").unwrap_or_default()
    }

    /// Returns the state in the file.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whoever has it, by the name in the file (a foreign program may write any).
    pub fn owner(&self) -> Option<&str> {
        self.text("owner").filter(|owner| !owner.is_empty())
    }

    /// Tasks that must be completed first.
    pub fn blocked_by(&self) -> &[TaskId] {
        &self.blocked_by
    }

    /// Tasks that wait for this one.
    pub fn blocks(&self) -> &[TaskId] {
        &self.blocks
    }

    /// `metadata._internal`: not counted, and claimed only by id.
    pub fn is_internal(&self) -> bool {
        self.metadata("_internal") == Some(&Value::Bool(true))
    }

    /// `metadata.permanentlyFailed`: it will not be tried again.
    pub fn is_failed(&self) -> bool {
        self.metadata("permanentlyFailed") == Some(&Value::Bool(true))
    }

    /// Completed, and not because it failed for good.
    pub fn is_done(&self) -> bool {
        self.status == Status::Completed && !self.is_failed()
    }

    /// Returns whether its work has to be merged before others can build on it, and is not yet.
    pub fn is_unmerged(&self) -> bool {
        self.ours("merged") == Some(&Value::Bool(false))
    }

    /// Returns whether its work is said to be where others begin.
    pub fn is_merged(&self) -> bool {
        self.ours("merged") == Some(&Value::Bool(true))
    }

    /// Returns whether it was completed without a change, so that there is nothing of it to merge.
    pub fn is_unchanged(&self) -> bool {
        self.ours("merged").and_then(Value::as_str) == Some(NO_CHANGE)
    }

    /// Returns the error that ended it, when it failed for good.
    pub fn error(&self) -> Option<&str> {
        self.metadata("error").and_then(Value::as_str)
    }

    /// `metadata.failedAttempts`: how often it failed so far.
    pub fn failed_attempts(&self) -> u32 {
        let count = self.metadata("failedAttempts").and_then(Value::as_u64);
        count.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Returns how often it was written by us.
    pub fn version(&self) -> u64 {
        self.ours("version").and_then(Value::as_u64).unwrap_or(0)
    }

    /// Returns how often it was claimed. Grows with each claim, so that an old holder can be told from the present one.
    pub fn fence(&self) -> u64 {
        self.ours("fence").and_then(Value::as_u64).unwrap_or(0)
    }

    /// Returns the present claim, or the one it was completed under.
    pub fn claim(&self) -> Option<Claim> {
        Claim::deserialize(self.ours("claim")?).ok()
    }

    /// Returns what the plan that it came from calls it.
    pub fn label(&self) -> Option<&str> {
        self.ours("label")?.as_str()
    }

    /// Returns what its worker must be able to do.
    pub fn capabilities(&self) -> Vec<String> {
        self.texts("capabilities")
    }

    /// Returns the files it will change.
    pub fn paths(&self) -> Vec<String> {
        self.texts("paths")
    }

    /// Returns a moment of ours: `createdAt`, `notBefore`, `completedAt`.
    pub fn moment(&self, key: &str) -> Option<Time> {
        self.ours(key)?.as_str()?.parse().ok()
    }

    /// Returns a value under `metadata.teamster`.
    pub fn ours(&self, key: &str) -> Option<&Value> {
        self.metadata("teamster")?.get(key)
    }

    fn metadata(&self, key: &str) -> Option<&Value> {
        self.raw.get("metadata")?.get(key)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.raw.get(key)?.as_str()
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let list = self.ours(key).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect()
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

    pub(crate) fn set_metadata(&mut self, key: &str, value: Option<Value>) {
        let metadata = self.raw.entry("metadata").or_insert(Value::Null);
        if !metadata.is_object() {
            *metadata = Value::Object(Object::new());
        }
        if let Value::Object(metadata) = metadata {
            json::set(metadata, key, value);
        }
    }

    /// Sets a value under `metadata.teamster`; `None` removes it.
    pub fn set_ours(&mut self, key: &str, value: Option<Value>) {
        let mut ours = match self.metadata("teamster") {
            Some(Value::Object(ours)) => ours.clone(),
            _ => Object::new(),
        };
        json::set(&mut ours, key, value);
        self.set_metadata("teamster", Some(Value::Object(ours)));
    }
}

/// Ids in a foreign list: texts, or numbers as some programs write them.
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
        task.set_ours("fence", Some(json!(1)));
        let expected = FOREIGN.replace("\"pending\"", "\"completed\"").replace(
            "\"a\": 2\n      }\n",
            "\"a\": 2\n      },\n      \"fence\": 1\n",
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
