//! Generates the page about the templates, `docs/prompts.md`, from the templates and from the types of their facts.

use std::fmt::Write as _;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::facts::{
    ConflictPrompt, FixPrompt, JudgePrompt, PlanPrompt, ReviewPrompt, WakePrompt, WorkerPrompt,
};
use crate::templates::{PromptKind, TEMPLATES};

/// The page's file in the repository.
pub const DOCUMENT: &str = "docs/prompts.md";

const INTRODUCTION: &str = "\
# What agents are told

Written by `cargo xtask docs` from the templates and the types of their facts. Do not edit it by hand: a test compares.

Every prompt is a Markdown template, filled with facts at the moment when it is needed. `teamster run --dry-run` shows the prompt of
each task as it will be sent.

## Your own templates

A file `prompts/NAME.md` in the folder of your settings (beside `config.toml`) replaces the template of that name, and
`.teamster/prompts/NAME.md` in a project replaces both. Those of a project count once you trust it (`teamster trust`), because they
speak to agents in teamster's name. `NAME` is `plan`, `wake`, `worker`, `fix`, `conflict`, `review` or `judge`.

A template is tried with examples before anything starts: `teamster run` and `teamster worker start` refuse a broken one with its
file, its line and the reason. One that is broken later, in the middle of a run, is replaced by ours, and the worker's log says so.

The language is that of [Jinja](https://docs.rs/minijinja/latest/minijinja/syntax/). A name that is not among the facts is an error.
`{% include \"parts/NAME.md\" %}` takes a part of ours over.

| filter | what it makes of a text |
|---|---|
| `quote` | lines that begin with `>`: text of others |
| `items` | of a list: each text on a line of its own behind a dash |
| `safe` | the text as it is; only for what the tables below call trusted |
| none | the text on one line, without control characters |

So no text of others begins a line that is not marked, unless a template applies `safe` to it. A prompt has at most 50,000 characters: where it
would be longer, the least important parts are shortened first and named at its end (`left_out`).
";

/// Returns the whole page.
pub fn document() -> String {
    let mut text = INTRODUCTION.to_owned();
    for kind in PromptKind::ALL {
        let name = kind.file_name();
        let _ = write!(text, "\n## `{name}`: {}\n\n", audience(kind));
        text.push_str("| fact | meaning |\n|---|---|\n");
        text.push_str(&facts(kind));
        text.push_str("| `left_out` | What was shortened, because the whole was too long. |\n");
        show(&mut text, name);
    }
    text.push_str("\n## Parts\n\nSeveral templates include these.\n");
    for (name, _) in TEMPLATES {
        if name.starts_with("parts/") {
            let _ = write!(text, "\n### `{name}`\n");
            show(&mut text, name);
        }
    }
    text
}

fn show(text: &mut String, name: &str) {
    let template = TEMPLATES.iter().find(|(known, _)| *known == name);
    let template = template.map_or("", |(_, template)| template.trim_end());
    let _ = write!(text, "\n````jinja\n{template}\n````\n");
}

const fn audience(kind: PromptKind) -> &'static str {
    match kind {
        PromptKind::Plan => "the leader, who is to plan",
        PromptKind::Wake => "the leader, when something happens in the run",
        PromptKind::Worker => "a worker, with a task",
        PromptKind::Fix => "a worker who is to fix what a check found",
        PromptKind::Conflict => "a worker who is to bring two sides of a conflict together",
        PromptKind::Review => "a reviewer of the merged work",
        PromptKind::Judge => "whoever chooses one of several results",
    }
}

fn facts(kind: PromptKind) -> String {
    match kind {
        PromptKind::Plan => facts_of::<PlanPrompt>(),
        PromptKind::Wake => facts_of::<WakePrompt>(),
        PromptKind::Worker => facts_of::<WorkerPrompt>(),
        PromptKind::Fix => facts_of::<FixPrompt>(),
        PromptKind::Conflict => facts_of::<ConflictPrompt>(),
        PromptKind::Review => facts_of::<ReviewPrompt>(),
        PromptKind::Judge => facts_of::<JudgePrompt>(),
    }
}

fn facts_of<P: JsonSchema>() -> String {
    let mut generator = SchemaGenerator::default();
    let schema = P::json_schema(&mut generator);
    let definitions = generator.take_definitions(true);
    let mut rows = String::new();
    list(schema.as_value(), "", &definitions, &mut rows);
    rows
}

/// Lists the fields of an object by their paths, and below each the fields of what it holds.
fn list(schema: &Value, path: &str, definitions: &Map<String, Value>, rows: &mut String) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, field) in properties.into_iter().flatten() {
        let meaning = field.get("description").and_then(Value::as_str);
        let meaning = meaning.unwrap_or_default().replace('\n', " ");
        let (inner, is_list) = inner(field, definitions);
        let path = format!("{path}{name}{}", if is_list { "[]" } else { "" });
        let _ = writeln!(rows, "| `{path}` | {meaning} |");
        if let Some(inner) = inner {
            list(inner, &format!("{path}."), definitions, rows);
        }
    }
}

/// Returns the object that a field holds, if any, and whether the field is a list.
fn inner<'a>(field: &'a Value, definitions: &'a Map<String, Value>) -> (Option<&'a Value>, bool) {
    if let Some(items) = field.get("items") {
        return (inner(items, definitions).0, true);
    }
    if let Some(name) = field.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap_or(name);
        return (definitions.get(name), false);
    }
    let choices = field.get("anyOf").and_then(Value::as_array);
    let mut choices = choices.into_iter().flatten();
    let found = choices.find_map(|choice| inner(choice, definitions).0);
    (found, false)
}
