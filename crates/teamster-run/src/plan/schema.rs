//! The schema that is published for editors and leaders that write plans.

use serde_json::{Map, Value, json};

use super::fields::{Holds, PLAN, PlanField, TASK, names};

/// Where it is published, in the repository.
pub const SCHEMA_FILE: &str = "docs/plan.schema.json";
/// What a worker may be called; the same rule as [`teamster_types::WorkerName`] but for the names that are reserved.
const WORKER: &str = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$";
/// A text that says something.
const NOT_BLANK: &str = "\\S";

/// The JSON schema of a plan, made from the table that the reader uses.
pub fn schema() -> Value {
    let mut root = object(&PLAN);
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A plan of teamster",
        "description": "Tasks that name each other by labels. `teamster plan check FILE` says what is wrong with one.",
    });
    if let (Value::Object(head), Value::Object(rest)) = (head, &mut root) {
        let mut whole = head;
        whole.append(rest);
        return Value::Object(whole);
    }
    root
}

/// The schema as the file holds it.
pub fn schema_text() -> String {
    let mut text = format!("{:#}", schema());
    text.push('\n');
    text
}

fn object(fields: &[PlanField]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|field| (field.name.to_owned(), property(field)))
        .collect();
    let needed: Vec<PlanField> = fields
        .iter()
        .copied()
        .filter(|field| field.is_needed)
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": names(&needed),
        "additionalProperties": false,
    })
}

fn property(field: &PlanField) -> Value {
    let one_of = |word: &str| {
        if field.is_needed {
            json!(word)
        } else {
            json!([word, "null"])
        }
    };
    let filled = json!({ "type": ["string", "number"], "pattern": NOT_BLANK });
    let mut made = match field.holds {
        Holds::Label => filled,
        Holds::Text(limit) => {
            let mut text = json!({ "type": one_of("string") });
            if field.is_needed {
                text["pattern"] = json!(NOT_BLANK);
            }
            if let Some(limit) = limit {
                text["maxLength"] = json!(limit);
            }
            text
        }
        Holds::Worker => json!({ "type": one_of("string"), "pattern": WORKER }),
        Holds::Texts | Holds::Labels => json!({ "type": one_of("array"), "items": filled }),
        Holds::Tasks => json!({ "type": "array", "minItems": 1, "items": object(&TASK) }),
    };
    made["description"] = json!(field.about);
    made
}
