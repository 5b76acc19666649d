//! The state files of a project as they lie on the disk, read without the product's own code.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::product::Place;

/// The fields of a state, in order.
const FIELDS: [&str; 13] = [
    "version",
    "enabled",
    "teamName",
    "feature",
    "pdcaPhase",
    "orchestrationPattern",
    "ctoAgent",
    "startedAt",
    "lastUpdated",
    "teammates",
    "progress",
    "recentMessages",
    "sessionId",
];
/// Names that may be beside the states at any time.
const USUAL: [&str; 2] = [".agent-state.lock", "sessions"];

/// Everything a check looks at, and everything that must not be.
#[derive(Debug, Default)]
pub(super) struct States {
    /// The one that viewers poll counts where a session has two.
    by_session: BTreeMap<String, Value>,
    /// Ends that were recorded.
    pub(super) records: Vec<Value>,
    /// Names of files that are no states.
    pub(super) leftovers: Vec<String>,
    /// What is wrong, whatever the hook was.
    pub(super) problems: Vec<String>,
}

impl States {
    pub(super) fn read(place: &Place) -> Result<Self> {
        let mut states = Self::default();
        let bkit = place.project().join(".bkit");
        states.read_folder(&bkit.join("sessions"))?;
        states.read_folder(&bkit)?;
        states.read_records(&place.claude().join("zombie-alerts.jsonl"));
        Ok(states)
    }

    /// The state of a session.
    pub(super) fn of(&self, session: &str) -> Option<&Value> {
        self.by_session.get(session)
    }

    pub(super) fn has_row(&self, session: &str, name: &str) -> bool {
        self.of(session)
            .is_some_and(|state| names(state).contains(&name))
    }

    fn read_folder(&mut self, folder: &Path) -> Result<()> {
        if !folder.is_dir() {
            return Ok(());
        }
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if USUAL.contains(&name.as_ref()) {
                continue;
            }
            if name.starts_with('.') || path.extension().is_none_or(|end| end != "json") {
                self.leftovers.push(name.into_owned());
                continue;
            }
            let bytes = std::fs::read(&path)?;
            match serde_json::from_slice::<Value>(&bytes) {
                Ok(state) => {
                    let fields: Vec<&String> = state
                        .as_object()
                        .into_iter()
                        .flat_map(|o| o.keys())
                        .collect();
                    if fields != FIELDS {
                        self.problems.push(format!("{name} has fields {fields:?}"));
                    }
                    let session = state["sessionId"].as_str().unwrap_or_default();
                    self.by_session.insert(session.to_owned(), state);
                }
                Err(error) => self.problems.push(format!("{name} is torn: {error}")),
            }
        }
        Ok(())
    }

    fn read_records(&mut self, file: &Path) {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if !text.is_empty() && !text.ends_with('\n') {
            self.problems.push("the last record is torn".to_owned());
        }
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(record) => self.records.push(record),
                Err(error) => self.problems.push(format!("a record is torn: {error}")),
            }
        }
    }
}

/// The names in a roster, in order.
pub(super) fn names(state: &Value) -> Vec<&str> {
    let rows = state["teammates"].as_array().into_iter().flatten();
    let mut names: Vec<&str> = rows.filter_map(|row| row["name"].as_str()).collect();
    names.sort_unstable();
    names
}
