//! JSON objects that other programs also write: unknown keys are preserved, and changes are made in place.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A JSON object whose keys keep their order.
pub type Object = serde_json::Map<String, Value>;

/// Returns `object` as a file: two-space indent, no final line end, as Claude Code formats its files.
pub fn to_file(object: &Object) -> Vec<u8> {
    // A map of strings to values always has a JSON form.
    serde_json::to_vec_pretty(object).unwrap_or_default()
}

/// Returns one line of a JSONL file, with its line end.
pub fn to_line(value: &impl serde::Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Parses bytes that should hold one JSON object.
pub fn parse_object(bytes: &[u8]) -> Result<Object, String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(format!("expected a JSON object, found {}", kind(&other))),
        Err(error) => Err(format!("not valid JSON: {error}")),
    }
}

/// Returns the type of a value, in words.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Sets `key` in place, or adds it at the end; `None` removes it and keeps the order of the other keys.
pub fn set(object: &mut Object, key: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            object.insert(key.to_owned(), value);
        }
        None => {
            object.shift_remove(key);
        }
    }
}

/// Returns the strings in a list; other values are skipped, and anything but a list has none.
pub fn texts_in(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

/// Deserializes a value; one of the wrong type counts as absent.
pub fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(from)?;
    Ok(T::deserialize(value).unwrap_or_default())
}

/// Deserializes the strings of a list, as [`texts_in`] does.
pub fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(texts_in(&Value::deserialize(from)?))
}

/// Returns the merge patch from `before` to `after` (RFC 7396: `null` removes); `None` when they are equal.
pub fn merge_patch(before: &Object, after: &Object) -> Option<Object> {
    let mut patch = Object::new();
    for (key, new) in after {
        match (before.get(key), new) {
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                if let Some(inner) = merge_patch(old, new) {
                    patch.insert(key.clone(), Value::Object(inner));
                }
            }
            (_, new) => {
                patch.insert(key.clone(), new.clone());
            }
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(patch)
}

/// Applies a patch that [`merge_patch`] returned.
pub fn apply_patch(object: &mut Object, patch: &Object) {
    for (key, change) in patch {
        match change {
            Value::Null => set(object, key, None),
            Value::Object(inner) => {
                if let Some(Value::Object(old)) = object.get_mut(key) {
                    apply_patch(old, inner);
                } else {
                    object.insert(key.clone(), change.clone());
                }
            }
            other => {
                object.insert(key.clone(), other.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_numbers_and_key_order_survive() {
        let text = r#"{"z":1.0e400,"a":18446744073709551616,"m":{"y":0.10,"b":[]}}"#;
        let object = parse_object(text.as_bytes()).unwrap();
        assert_eq!(
            serde_json::to_string(&object).unwrap(),
            text.replace("1.0e400", "1.0e+400")
        );
    }

    #[test]
    fn a_patch_takes_one_object_to_the_other() {
        let before = parse_object(br#"{"a":1,"b":{"c":2,"d":3},"gone":true}"#).unwrap();
        let after = parse_object(br#"{"a":1,"b":{"c":2,"d":4},"new":[1]}"#).unwrap();
        let patch = merge_patch(&before, &after).unwrap();
        assert_eq!(
            serde_json::to_string(&patch).unwrap(),
            r#"{"b":{"d":4},"new":[1],"gone":null}"#
        );
        let mut patched = before.clone();
        apply_patch(&mut patched, &patch);
        assert_eq!(patched, after);
        assert_eq!(merge_patch(&after, &after), None);
    }

    #[test]
    fn what_is_no_object_is_named() {
        assert_eq!(parse_object(b"").unwrap_err(), "the file is empty");
        assert_eq!(
            parse_object(b"[]").unwrap_err(),
            "expected a JSON object, found an array"
        );
        assert!(
            parse_object(b"{\"a\":")
                .unwrap_err()
                .starts_with("not valid JSON")
        );
    }
}
