//! The `OpenAPI` document.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::ApiRefusal;
use super::routes::{ApiRoute, Describe, ROUTES, STREAMED};

/// Returns the `OpenAPI` document of `/api/v1`.
pub fn openapi() -> Value {
    let mut generator = generator();
    let mut paths = Map::new();
    for route in ROUTES {
        let operation = operation(&mut generator, route);
        let path = paths
            .entry(route.path)
            .or_insert_with(|| Value::Object(Map::new()));
        path[route.method.word()] = operation;
    }
    for describe in STREAMED {
        describe(&mut generator);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "teamster studio",
            "version": "1",
            "description": "Written by `cargo xtask docs`. Every request needs an allowed Host and a cookie or a bearer token; \
                            what changes something, and the stream of events, also needs to come from the page itself.",
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "cookie": { "type": "apiKey", "in": "cookie", "name": "teamster-studio-PORT" },
                "bearer": { "type": "http", "scheme": "bearer" },
            },
        },
        "security": [{ "cookie": [] }, { "bearer": [] }],
    })
}

/// Returns a generator that describes types as they are serialised, with their names under `components`.
pub(super) fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
        .into_generator()
}

/// Returns all types of the API, by name.
pub(super) fn definitions() -> Map<String, Value> {
    let mut generator = generator();
    let all: Vec<Describe> = ROUTES
        .iter()
        .flat_map(|route| route.body.into_iter().chain(route.answer))
        .chain(STREAMED.iter().copied())
        .collect();
    for describe in all {
        describe(&mut generator);
    }
    generator.subschema_for::<ApiRefusal>();
    generator.take_definitions(true)
}

fn operation(generator: &mut SchemaGenerator, route: &ApiRoute) -> Value {
    let mut parameters: Vec<Value> = names_in(route.path)
        .map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        })
        .collect();
    parameters.extend(route.query.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "in": "query",
            "description": parameter.about,
            "schema": { "type": parameter.kind },
        })
    }));
    let content = match route.answer {
        Some(describe) => json!({ route.media: { "schema": describe(generator) } }),
        None => json!({ route.media: {} }),
    };
    let refusal = generator.subschema_for::<ApiRefusal>();
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.about,
        "parameters": parameters,
        "responses": {
            "200": { "description": "done", "content": content },
            "default": {
                "description": "not done",
                "content": { "application/json": { "schema": refusal } },
            },
        },
    });
    if let Some(describe) = route.body {
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": describe(generator) } },
        });
    }
    operation
}

/// Returns the names of the variable parts of a path.
pub(super) fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('{')
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('}')?.0))
}
