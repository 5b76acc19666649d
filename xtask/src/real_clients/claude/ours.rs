//! What teamster showed during a session and left after it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::product::{files, list, text};

/// Every state of the file, and contents that were not states.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) states: Vec<Value>,
    /// Contents that were not JSON.
    pub(super) torn: Vec<String>,
    /// The last content.
    pub(super) last: Vec<u8>,
}

impl Seen {
    /// Reads the state file, like a viewer.
    pub(super) fn look(&mut self, file: &Path) {
        if let Ok(bytes) = std::fs::read(file)
            && bytes != self.last
        {
            match serde_json::from_slice(&bytes) {
                Ok(state) => self.states.push(state),
                Err(_) => self.torn.push(String::from_utf8_lossy(&bytes).into_owned()),
            }
            self.last = bytes;
        }
    }
}

/// A teammate's row, from its first to its last appearance.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The statuses in the order in which they were entered.
    pub(super) statuses: Vec<String>,
    pub(super) role: String,
    pub(super) model: String,
    /// Task ids with the subjects beside them.
    pub(super) tasks: Vec<(String, String)>,
}

/// Everything about teamster that a comparison needs.
#[derive(Debug, Default)]
pub(super) struct Ours {
    pub(super) seen: Seen,
    /// Rows by the teammate's name.
    pub(super) rows: BTreeMap<String, Shown>,
    /// Names in `.bkit` at the end of the session.
    pub(super) left: Vec<String>,
    /// Ends that were recorded.
    pub(super) records: Vec<Value>,
    /// The number of calls by event, as the hooks logged them.
    pub(super) calls: BTreeMap<String, usize>,
    /// The longest call in microseconds, by its own clock.
    pub(super) longest: u64,
    /// Log lines other than the usual one that a hook is done.
    pub(super) complaints: Vec<String>,
}

impl Ours {
    /// Derives everything that the states alone contain.
    pub(super) fn of(seen: Seen) -> Self {
        Self {
            rows: rows(&seen.states),
            seen,
            ..Self::default()
        }
    }

    pub(super) fn read(session: &Path, log: &Path, seen: Seen) -> Result<Self> {
        let folder = session.join("project/.bkit");
        let left = files(&folder, &[""]).unwrap_or_default();
        let records = session.join("home/.claude/zombie-alerts.jsonl");
        let records = std::fs::read_to_string(records).unwrap_or_default();
        let records = records.lines().map(|line| {
            serde_json::from_str(line).with_context(|| format!("a record is torn: {line}"))
        });
        let mut ours = Self {
            left,
            records: records.collect::<Result<_>>()?,
            ..Self::of(seen)
        };
        ours.read_log(&std::fs::read_to_string(log).context("no hook was called")?);
        Ok(ours)
    }

    /// Returns the last state, or `None` when there never was one.
    pub(super) fn last(&self) -> Option<&Value> {
        self.seen.states.last()
    }

    /// Reads the hooks' log, whose lines are `TIME EVENT: text`.
    fn read_log(&mut self, log: &str) {
        for line in log.lines() {
            let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
            let (event, text) = rest.split_once(": ").unwrap_or_default();
            let took = text.strip_prefix("done in ");
            match took.and_then(|rest| rest.strip_suffix(" us")?.parse().ok()) {
                Some(took) => {
                    *self.calls.entry(event.to_owned()).or_default() += 1;
                    self.longest = self.longest.max(took);
                }
                None if is_usual(text) => {}
                None => self.complaints.push(line.to_owned()),
            }
        }
    }
}

/// Returns whether a hook logs this text when everything is fine.
fn is_usual(text: &str) -> bool {
    text == "the last active teammate has ended"
        // Before the first teammate there is no state to change.
        || text == "NoState"
        || text.starts_with("SweepReport {")
        // A lead has no row of its own.
        || text == "Unknown(\"team-lead\")"
}

/// Returns the rows of all teammates that ever were in a roster.
fn rows(states: &[Value]) -> BTreeMap<String, Shown> {
    let mut rows: BTreeMap<String, Shown> = BTreeMap::new();
    for state in states {
        for row in list(&state["teammates"]) {
            let text = |key: &str| text(&row[key]).to_owned();
            let shown = rows.entry(text("name")).or_default();
            if shown.statuses.last() != Some(&text("status")) {
                shown.statuses.push(text("status"));
            }
            shown.role = text("role");
            shown.model = text("model");
            let task = (text("taskId"), text("currentTask"));
            if !shown.tasks.contains(&task) {
                shown.tasks.push(task);
            }
        }
    }
    rows
}
