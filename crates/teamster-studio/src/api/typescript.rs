//! The page's types, generated from the same descriptions as the `OpenAPI` document.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use teamster_types::phrase::PhraseCode;

use super::openapi::definitions;
use super::routes::{Method, ROUTES};

const HEAD: &str = "\
// Written by `cargo xtask docs` from the types of the server. Do not edit it by hand: `cargo xtask ci` compares.
";

/// Returns a module with a type for each type of the API, and a table of its routes.
pub fn typescript() -> String {
    let mut text = HEAD.to_owned();
    for (name, schema) in definitions() {
        let _ = writeln!(text, "\n{}", comment(&schema, ""));
        match object_of(&schema) {
            Some(properties) => {
                let _ = writeln!(text, "export interface {name} {{");
                for (key, property) in properties {
                    let mark = if is_required(&schema, key) { "" } else { "?" };
                    let _ = writeln!(text, "{}", comment(property, "  "));
                    let _ = writeln!(text, "  {}{mark}: {};", quoted(key), type_of(property));
                }
                text.push_str("}\n");
            }
            None => {
                let _ = writeln!(text, "export type {name} = {};", type_of(&schema));
            }
        }
    }
    text.push_str("\n/** Every sentence of the server that has a code, in English. */\nexport const phrases: Record<PhraseCode, string> = {\n");
    for code in PhraseCode::ALL {
        let _ = writeln!(
            text,
            "  {}: {},",
            serde_json::json!(code),
            serde_json::json!(code.template())
        );
    }
    text.push_str("};\n");
    text.push_str("\n/** Every route: its method and its path. */\nexport const routes = {\n");
    for route in ROUTES {
        let method = match route.method {
            Method::Get => "GET",
            Method::Post => "POST",
        };
        let _ = writeln!(
            text,
            "  {}: {{ method: \"{method}\", path: \"{}\" }},",
            route.id, route.path
        );
    }
    text.push_str("} as const;\n");
    text
}

fn comment(schema: &Value, indent: &str) -> String {
    let about = schema.get("description").and_then(Value::as_str);
    match about {
        None => format!("{indent}/** */"),
        Some(about) => {
            let about: Vec<&str> = about.split_whitespace().collect();
            format!("{indent}/** {} */", about.join(" ").replace("*/", "* /"))
        }
    }
}

fn object_of(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn is_required(schema: &Value, key: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required
        .into_iter()
        .flatten()
        .any(|name| name.as_str() == Some(key))
}

fn quoted(key: &str) -> String {
    let is_plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain {
        key.to_owned()
    } else {
        format!("{key:?}")
    }
}

fn type_of(schema: &Value) -> String {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return target.rsplit('/').next().unwrap_or("unknown").to_owned();
    }
    if let Some(constant) = schema.get("const") {
        return constant.to_string();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        return values.join(" | ");
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(several).and_then(Value::as_array) {
            let choices: Vec<String> = choices.iter().map(type_of).collect();
            return choices.join(" | ");
        }
    }
    match schema.get("type") {
        Some(Value::Array(types)) => {
            let types: Vec<String> = types
                .iter()
                .filter_map(Value::as_str)
                .map(|word| named(word, schema))
                .collect();
            types.join(" | ")
        }
        Some(Value::String(word)) => named(word, schema),
        _ => "unknown".to_owned(),
    }
}

fn named(word: &str, schema: &Value) -> String {
    match word {
        "integer" | "number" => "number".to_owned(),
        "string" => "string".to_owned(),
        "boolean" => "boolean".to_owned(),
        "null" => "null".to_owned(),
        "array" => match schema.get("items") {
            Some(items) => format!("Array<{}>", type_of(items)),
            None => "unknown[]".to_owned(),
        },
        "object" => "Record<string, unknown>".to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_that_is_named_is_written() {
        let text = typescript();
        for (name, _) in definitions() {
            let is_there = [
                format!("export interface {name} {{"),
                format!("export type {name} = "),
            ];
            assert!(
                is_there.iter().any(|declared| text.contains(declared)),
                "{name} is missing"
            );
        }
        assert!(text.contains("  state: State;"), "{text}");
        assert!(!text.contains("unknown[]"), "{text}");
        assert!(text.contains("  stage?: string") || text.contains("  stage: string | null;"));
    }
}
