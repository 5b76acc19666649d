//! Formats that other programs rely on, as specified: every key, its type and its values. Keys may be added; none of
//! these is renamed or changes its type.

mod answers;
mod files;
mod journal;
mod mail;
mod party;
mod scripted;
mod state_file;

use serde_json::Value;

/// Asserts that an object has all of these keys; it may have others.
#[track_caller]
pub fn has_keys(object: &Value, keys: &[&str]) {
    for key in keys {
        assert!(object.get(key).is_some(), "`{key}` is missing in {object}");
    }
}

/// Asserts that a value is ISO 8601 in UTC with milliseconds: `2026-02-07T12:00:00.123Z`.
#[track_caller]
pub fn is_moment(value: &Value) {
    let text = value.as_str().unwrap_or_default();
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{value}");
}

/// Asserts that a value is an integer of milliseconds since 1970, in a plausible range.
#[track_caller]
pub fn is_millis(value: &Value) {
    let millis = value.as_i64().unwrap_or_default();
    assert!(millis > 1_700_000_000_000, "{value}");
}

/// Asserts that a value identifies a process: the start time is an integer, as in `/proc/PID/stat`.
#[track_caller]
pub fn names_process(value: &Value) {
    assert!(value["pid"].as_u64().is_some_and(|pid| pid > 0), "{value}");
    assert!(value["processStartTime"].is_u64(), "{value}");
    for key in ["bootId", "pidNs"] {
        assert!(
            value[key].as_str().is_some_and(|text| !text.is_empty()),
            "{key} of {value}"
        );
    }
}

/// Asserts the counts that every display of a team's progress has.
#[track_caller]
pub fn is_progress(value: &Value, total: u64) {
    for key in [
        "totalTasks",
        "completedTasks",
        "inProgressTasks",
        "failedTasks",
        "pendingTasks",
    ] {
        assert!(value[key].is_u64(), "{key} of {value}");
    }
    assert_eq!(value["totalTasks"], total, "{value}");
}
