//! How a change to a task is stored in an event, and how a task is rebuilt from its events.

use serde_json::{Value, json};
use teamster_types::TaskId;
use teamster_types::json::{Object, apply_patch, merge_patch};
use teamster_types::task::{Status, Task};

/// The fields of a task that are stored in `data` under their own names; all others are stored under `other`.
const FIELDS: [&str; 7] = [
    "subject",
    "description",
    "activeForm",
    "owner",
    "blocks",
    "blockedBy",
    "metadata",
];

/// Returns what changed from `before` to `after`: the changed fields, and `from` and `to` for the status. Tokens are
/// never included.
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

/// Rebuilds a task by applying the changes of one event. `None` means that the task does not exist.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn task(text: &str) -> Task {
        Task::parse(&"1".parse().unwrap(), text.as_bytes()).unwrap()
    }

    #[test]
    fn changes_name_what_changed_and_never_the_token() {
        let before = task(r#"{"id":"1","subject":"s","status":"pending"}"#);
        let after = task(
            r#"{"id":"1","subject":"s","status":"in_progress","owner":"w","x":1,
                "metadata":{"teamster":{"claim":{"worker":"w","token":"secret"}}}}"#,
        );
        let data = changes(Some(&before), Some(&after));
        assert_eq!(
            serde_json::to_string(&data).unwrap(),
            r#"{"from":"pending","to":"in_progress","owner":"w","metadata":{"teamster":{"claim":{"worker":"w"}}},"other":{"x":1}}"#
        );
    }

    #[test]
    fn a_removed_task_is_gone_after_its_event() {
        let before = task(r#"{"id":"1","subject":"s","status":"pending"}"#);
        let data = changes(Some(&before), None);
        assert_eq!(apply(Some(before), &"1".parse().unwrap(), &data), Ok(None));
    }

    /// Generates small tasks that share keys, so that patches add, change and remove fields.
    fn any_task() -> impl Strategy<Value = Task> {
        let status = prop_oneof![Just("pending"), Just("in_progress"), Just("completed")];
        let owner = prop::option::of("[a-c]");
        let extra = prop::collection::btree_map("[k-n]", 0..3_u8, 0..3);
        let meta = prop::collection::btree_map(
            "[k-n]",
            prop::collection::btree_map("[p-r]", 0..3_u8, 0..3),
            0..3,
        );
        (status, owner, extra, meta, "[s-u]{1,3}").prop_map(
            |(status, owner, extra, meta, subject)| {
                let mut raw = Object::new();
                raw.insert("id".into(), json!("1"));
                raw.insert("subject".into(), json!(subject));
                raw.insert("status".into(), json!(status));
                if let Some(owner) = owner {
                    raw.insert("owner".into(), json!(owner));
                }
                raw.insert("metadata".into(), json!(meta));
                for (key, value) in extra {
                    raw.insert(key, json!(value));
                }
                Task::from_object(&"1".parse().unwrap(), raw).unwrap()
            },
        )
    }

    proptest! {
        #[test]
        fn applying_the_changes_gives_the_task_again(before in prop::option::of(any_task()), after in any_task()) {
            let data = changes(before.as_ref(), Some(&after));
            let rebuilt = apply(before, after.id(), &data).unwrap().unwrap();
            prop_assert_eq!(Value::Object(rebuilt.as_object().clone()), Value::Object(after.as_object().clone()));
        }
    }
}
