//! The documentation of every kind of event, generated from the types.

use std::fmt::Write as _;

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::kind::EventType;

/// The marker before the generated part of `docs/contracts.md`.
pub const BEGIN: &str =
    "<!-- Written by `cargo xtask docs` from the types. Do not edit it by hand. -->";
/// The marker after the generated part.
pub const END: &str = "<!-- End of what is written from the types. -->";

/// Returns `document` with the descriptions of every kind of event and its payload between the two markers, or `None`
/// when it has no such markers.
pub fn documented(document: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}{END}{after}", kinds()))
}

/// Describes every kind: what it means, and the keys of its `data`. Kinds with the same payload are described together.
fn kinds() -> String {
    let mut generator = SchemaGenerator::default();
    let mut groups: Vec<(Vec<EventType>, Schema)> = Vec::new();
    for kind in EventType::ALL {
        let schema = kind.schema(&mut generator);
        match groups.iter_mut().find(|(_, known)| *known == schema) {
            Some((kinds, _)) => kinds.push(*kind),
            None => groups.push((vec![*kind], schema)),
        }
    }
    let definitions = generator.take_definitions(true);
    let mut text = String::new();
    for (kinds, schema) in groups {
        for kind in kinds {
            let _ = writeln!(text, "- `{}`:{}", kind.name(), kind.meaning());
        }
        let table = fields(schema.as_value(), &definitions);
        text.push('\n');
        if !table.is_empty() {
            let _ = writeln!(text, "| key | type | meaning |\n|---|---|---|\n{table}");
        }
    }
    text
}

fn fields(schema: &Value, definitions: &serde_json::Map<String, Value>) -> String {
    let mut rows = String::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, field) in properties.into_iter().flatten() {
        let meaning = field.get("description").and_then(Value::as_str);
        let meaning = meaning.unwrap_or_default().replace('\n', " ");
        let words = type_words(field, definitions).replace('|', "\\|");
        let _ = writeln!(rows, "| `{name}` | {words} | {meaning} |");
    }
    rows
}

/// Returns a readable name for the type of a field: `string`, `list of string`, `number or null`.
fn type_words(field: &Value, definitions: &serde_json::Map<String, Value>) -> String {
    if let Some(name) = field.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap_or(name);
        return match definitions.get(name) {
            Some(definition) => type_words(definition, definitions),
            None => name.to_owned(),
        };
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(Value::Array(items)) = field.get(choice) {
            let constant = |item: &Value| Some(format!("`{}`", item.get("const")?.as_str()?));
            let mut words: Vec<String> = items
                .iter()
                .map(|item| constant(item).unwrap_or_else(|| type_words(item, definitions)))
                .collect();
            words.dedup();
            return words.join(" or ");
        }
    }
    if let Some(Value::Array(words)) = field.get("enum") {
        let words: Vec<String> = words
            .iter()
            .filter_map(|word| Some(format!("`{}`", word.as_str()?)))
            .collect();
        return words.join(" or ");
    }
    match field.get("type") {
        Some(Value::String(word)) if word == "array" => {
            let items = field
                .get("items")
                .map(|items| type_words(items, definitions));
            format!("list of {}", items.unwrap_or_else(|| "any".to_owned()))
        }
        Some(Value::String(word)) if word == "object" => {
            let keys = field.get("properties").and_then(Value::as_object);
            let keys: Vec<String> = keys
                .into_iter()
                .flat_map(serde_json::Map::keys)
                .map(|key| format!("`{key}`"))
                .collect();
            if keys.is_empty() {
                "object".to_owned()
            } else {
                format!("object with {}", keys.join(", "))
            }
        }
        Some(Value::String(word)) => word.clone(),
        Some(Value::Array(words)) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            words.join(" or ")
        }
        _ => "any".to_owned(),
    }
}
