//! The API under `/api/v1`: its types, its routes, and the documents that are made from them.

mod openapi;
mod routes;
mod types;
mod typescript;

pub use teamster_app::diffs::{Branch, ChangedFile, Changes, Diff};
pub use teamster_app::logs::{Log, LogLine, LogPart};

pub use openapi::openapi;
pub use routes::{Describe, Method, Parameter, ROUTES, Route};
pub use types::*;
pub use typescript::typescript;

/// Where the `OpenAPI` document lies, in the project.
pub const OPENAPI_FILE: &str = "docs/openapi.json";
/// Where the page's types lie, in the project.
pub const TYPESCRIPT_FILE: &str = "web/src/api.ts";
