//! The schema that is published for editors and leaders that write plans, generated from the structs of the parser.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema as _, Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use teamster_types::task::{DESCRIPTION_LIMIT, SUBJECT_LIMIT};

use super::{
    ANALYSIS_LIMIT, MOST_CRITERIA, MOST_QUESTIONS, MOST_REMARKS, PlanEntry, SENTENCE_LIMIT,
    TaskEntry,
};

/// The path of the published schema in the repository.
pub const SCHEMA_FILE: &str = "docs/plan.schema.json";
/// The pattern of a worker's name; the same rule as [`teamster_types::WorkerName`], except for reserved names.
const WORKER: &str = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$";
/// The pattern of a role's name.
const ROLE: &str = "^[A-Za-z][A-Za-z0-9_-]{0,63}$";
/// The pattern of a text that is not blank.
const NOT_BLANK: &str = "\\S";

/// Returns the JSON schema of a plan.
pub fn schema() -> Value {
    let mut schema = json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A plan of teamster",
        "description": "Tasks that name each other by labels. `teamster plan check FILE` says what is wrong with one.",
    });
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let keys = PlanEntry::json_schema(&mut settings.into_generator());
    for (name, value) in keys.as_object().into_iter().flatten() {
        if schema.get(name).is_none() {
            schema.insert(name.clone(), value.clone());
        }
    }
    schema.into()
}

/// Returns the schema as it is stored in the file.
pub fn schema_text() -> String {
    let mut text = format!("{:#}", schema());
    text.push('\n');
    text
}

pub(super) fn tasks(generator: &mut SchemaGenerator) -> Schema {
    let mut task = TaskEntry::json_schema(generator);
    task.remove("description");
    json_schema!({ "type": "array", "minItems": 1, "items": task })
}

pub(super) fn label(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "number"], "pattern": NOT_BLANK })
}

pub(super) fn subject(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": NOT_BLANK, "maxLength": SUBJECT_LIMIT })
}

pub(super) fn description(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "maxLength": DESCRIPTION_LIMIT })
}

pub(super) fn analysis(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "maxLength": ANALYSIS_LIMIT })
}

pub(super) fn questions(_: &mut SchemaGenerator) -> Schema {
    sentences(MOST_QUESTIONS)
}

pub(super) fn remarks(_: &mut SchemaGenerator) -> Schema {
    sentences(MOST_REMARKS)
}

pub(super) fn criteria(_: &mut SchemaGenerator) -> Schema {
    sentences(MOST_CRITERIA)
}

fn sentences(most: usize) -> Schema {
    let sentence = json_schema!({
        "type": ["string", "number"], "pattern": NOT_BLANK, "maxLength": SENTENCE_LIMIT,
    });
    json_schema!({ "type": ["array", "null"], "maxItems": most, "items": sentence })
}

pub(super) fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"] })
}

pub(super) fn role(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "pattern": ROLE })
}

pub(super) fn worker(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "pattern": WORKER })
}

pub(super) fn texts(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["array", "null"], "items": label(generator) })
}
