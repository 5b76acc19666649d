//! Reports the error of a failed command.

use std::io::Write;

use serde_json::json;
pub use teamster_app::error::{AppError, ErrorKind, Result};

use crate::exit_codes;
use crate::shown::plain;

/// Writes an error to the standard error stream, as text or as one JSON object, and returns the exit code.
pub fn report(error: &AppError, json: bool) -> u8 {
    if error.kind() != ErrorKind::Unheard {
        let text = if json {
            let error = json!({
                "kind": error.kind().word(),
                "message": error.message(),
                "hint": error.advice(),
            });
            json!({ "error": error }).to_string()
        } else {
            let mut text = format!("error: {}", plain(error.message()));
            if let Some(hint) = error.advice() {
                text.push_str("\nhint: ");
                text.push_str(&plain(hint));
            }
            text
        };
        // If even this cannot be written, the exit code still reports the failure.
        let line = format!("{text}\n");
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
    exit_codes::of(error.kind())
}
