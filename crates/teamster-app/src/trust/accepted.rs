//! Stores what the user accepted in `trust.json` beside the user's own settings.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use teamster_fs::layout::{Layout, TRUST, TRUST_LOCK};
use teamster_fs::{Dir, Durability, Lock, LockWait};
use teamster_types::Time;
use teamster_types::json::{Object, to_file};

use super::key;
use crate::error::{AppError, ErrorKind, Result};

const SCHEMA: u64 = 1;
const PATIENCE: Duration = Duration::from_secs(5);

/// What was accepted for one project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustRecord {
    /// The digest of the accepted files.
    pub digest: String,
    /// When it was accepted.
    #[serde(rename = "acceptedAt")]
    pub at: Time,
    /// The names of those files.
    pub files: Vec<String>,
    /// The checks of the project that may run, by their text. Files of older versions lack them.
    #[serde(default)]
    pub checks: BTreeSet<String>,
}

/// Returns what was accepted for this project.
pub(super) fn find(layout: &Layout) -> Result<Option<TrustRecord>> {
    let Some(folder) = Dir::open_root(layout.user_folder())? else {
        return Ok(None);
    };
    let entry = read(&folder)?
        .get("projects")
        .and_then(|projects| projects.get(key(&layout.project)))
        .cloned();
    match entry {
        None => Ok(None),
        Some(entry) => serde_json::from_value(entry)
            .map(Some)
            .map_err(|error| damaged(&folder, &error.to_string())),
    }
}

/// Stores what was accepted for this project.
pub(super) fn put(layout: &Layout, accepted: &TrustRecord) -> Result {
    let folder = make(layout.user_folder())?;
    change(&folder, |projects| {
        projects.insert(key(&layout.project), json!(accepted));
        true
    })?;
    Ok(())
}

/// Revokes what was accepted for this project; returns whether there was anything.
pub fn revoke(layout: &Layout) -> Result<bool> {
    match Dir::open_root(layout.user_folder())? {
        None => Ok(false),
        Some(folder) => change(&folder, |projects| {
            projects.shift_remove(&key(&layout.project)).is_some()
        }),
    }
}

/// Creates the folder of the user's settings and its parent, if they do not exist.
fn make(folder: &Path) -> Result<Dir> {
    if let Some(above) = folder.parent() {
        Dir::open_or_create_root(above)?;
    }
    Ok(Dir::open_or_create_root(folder)?)
}

fn change(folder: &Dir, edit: impl FnOnce(&mut Object) -> bool) -> Result<bool> {
    let _lock = match Lock::wait(folder, TRUST_LOCK, PATIENCE, false)? {
        LockWait::Held(lock) => lock,
        LockWait::TimedOut => {
            return Err(AppError::new(
                ErrorKind::Conflict,
                format!(
                    "another process keeps changing {}",
                    folder.join(TRUST).display()
                ),
            )
            .hint("try again in a moment"));
        }
    };
    let mut whole = read(folder)?;
    let projects = whole.entry("projects").or_insert_with(|| json!({}));
    let Value::Object(projects) = projects else {
        return Err(damaged(folder, "`projects` is not an object"));
    };
    let is_changed = edit(projects);
    if is_changed {
        folder.replace(TRUST, &to_file(&whole), Durability::Durable)?;
    }
    Ok(is_changed)
}

/// Reads the whole file. One that cannot be parsed trusts nothing, and is never overwritten.
fn read(folder: &Dir) -> Result<Object> {
    let Some((bytes, _)) = folder.read(TRUST)? else {
        let mut new = Object::new();
        new.insert("schema".into(), json!(SCHEMA));
        new.insert("projects".into(), json!({}));
        return Ok(new);
    };
    let whole = serde_json::from_slice::<Object>(&bytes)
        .map_err(|error| damaged(folder, &error.to_string()))?;
    match whole.get("schema").and_then(Value::as_u64) {
        Some(SCHEMA) => Ok(whole),
        Some(other) => Err(damaged(
            folder,
            &format!("its schema is {other}, not {SCHEMA}"),
        )),
        None => Err(damaged(folder, "it has no schema")),
    }
}

fn damaged(folder: &Dir, why: &str) -> AppError {
    AppError::refused(format!(
        "{} cannot be understood, so no project is trusted: {why}",
        folder.join(TRUST).display()
    ))
    .hint("move it away; you are then asked about every project again")
}
