//! What a worker may change.

use std::path::PathBuf;

use teamster_types::denied;
use teamster_types::paths::{Glob, any_matches};

/// Those of `changes` that no worker may change, each with the rule.
pub(crate) fn denied(changes: &[PathBuf]) -> Vec<String> {
    changes
        .iter()
        .filter_map(|path| denied::pattern(path).map(|rule| format!("{} ({rule})", path.display())))
        .collect()
}

/// Those of `changes` that lie outside what the task reserved; a task that reserves nothing may change anything.
pub(crate) fn outside(changes: &[PathBuf], reserved: &[String]) -> Vec<String> {
    if reserved.is_empty() {
        return Vec::new();
    }
    // A text that is no glob matches nothing, so what it was meant for is looked at by a person.
    let globs: Vec<Glob> = reserved
        .iter()
        .filter_map(|text| Glob::new(text).ok())
        .collect();
    changes
        .iter()
        .filter(|path| !any_matches(&globs, &path.to_string_lossy()))
        .map(|path| path.display().to_string())
        .collect()
}
