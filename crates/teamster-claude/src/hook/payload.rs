//! What the client sends. Every field may be missing or have another type than last time.

use std::borrow::Cow;

use serde_json::Value;
use teamster_types::json::{self, Object};

/// A payload: a JSON object.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    fields: Object,
}

impl Payload {
    /// Reads it. The error says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        json::parse_object(bytes).map(|fields| Self { fields })
    }

    /// A text that says something; anything else counts as missing.
    pub fn text(&self, key: &str) -> Option<&str> {
        text_of(self.fields.get(key))
    }

    /// The same of a field in `tool_input`, `tool_response`, …
    pub fn inner(&self, object: &str, key: &str) -> Option<&str> {
        text_of(self.fields.get(object)?.get(key))
    }

    /// Any value in `tool_input`, `tool_response`, …
    pub fn value(&self, object: &str, key: &str) -> Option<&Value> {
        self.fields.get(object)?.get(key)
    }

    /// An id, which some write as a number.
    pub fn id(&self, key: &str) -> Option<Cow<'_, str>> {
        id_of(self.fields.get(key)?)
    }

    /// The same of a field in `tool_input`, `tool_response`, …
    pub fn inner_id(&self, object: &str, key: &str) -> Option<Cow<'_, str>> {
        id_of(self.value(object, key)?)
    }

    /// Whether the field is there and is an empty text.
    pub fn is_blank(&self, key: &str) -> bool {
        self.fields.get(key).and_then(Value::as_str) == Some("")
    }

    /// A whole number.
    pub fn integer(&self, key: &str) -> Option<i64> {
        self.fields.get(key)?.as_i64()
    }

    /// Whether anything goes on in the background of the session.
    pub fn has_background_tasks(&self) -> bool {
        let tasks = self.fields.get("background_tasks");
        let tasks = tasks.and_then(Value::as_array).into_iter().flatten();
        let is_over = |task: &Value| {
            let status = task.get("status").and_then(Value::as_str);
            matches!(
                status,
                Some("completed" | "failed" | "killed" | "stopped" | "cancelled")
            )
        };
        tasks.filter(|task| !is_over(task)).count() > 0
    }
}

fn text_of(value: Option<&Value>) -> Option<&str> {
    value?.as_str().filter(|text| !text.is_empty())
}

fn id_of(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) if !text.is_empty() => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_another_type_counts_as_missing() {
        let payload = Payload::parse(
            br#"{"session_id":{"a":1},"agent_id":7,"task_id":7,"agent_type":"","exit_code":"1","tool_input":[]}"#,
        )
        .unwrap();
        assert_eq!(payload.text("session_id"), None);
        assert_eq!(payload.text("agent_id"), None);
        assert_eq!(payload.id("task_id").as_deref(), Some("7"));
        assert_eq!(payload.integer("exit_code"), None);
        assert_eq!(payload.inner("tool_input", "name"), None);
        assert!(payload.is_blank("agent_type"));
        for wrong in ["", "null", "[]", "42", "{", "\"x\"", "{} {}"] {
            assert!(Payload::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_what_still_runs_is_in_the_background() {
        let with = |tasks: &str| {
            let text = format!("{{\"background_tasks\":{tasks}}}");
            Payload::parse(text.as_bytes())
                .unwrap()
                .has_background_tasks()
        };
        assert!(with(r#"[{"status":"running"}]"#));
        assert!(with(r"[{}]"));
        assert!(!with("[]"));
        assert!(!with(r#"[{"status":"completed"}]"#));
        assert!(!with("null"));
        assert!(!with("{\"a\":1}"));
    }
}
