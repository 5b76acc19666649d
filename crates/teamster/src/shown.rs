//! Prepares texts from files for display.
//!
//! There are two separate steps. Cleaning removes control sequences; everything that is printed as text is cleaned.
//! Redacting removes secrets; it applies where people watch, not where a task or message is delivered to the agent
//! that must act on it.

use std::fmt::Write as _;

use serde_json::Value;
use teamster_types::Time;
use teamster_types::progress::Progress;
use teamster_types::redact::{redact, redact_json};
pub use teamster_types::text::{plain, plain_line};
use teamster_types::time::say_span;

/// Returns a text for people who watch, redacted and cleaned.
pub fn display_text(text: &str) -> String {
    plain(&redact(text))
}

/// Returns a text for people who watch, redacted and cleaned, on one line.
pub fn display_line(text: &str) -> String {
    plain_line(&redact(text))
}

/// Returns a value with all strings redacted. JSON's own escapes make it harmless to a terminal.
pub fn redacted(mut value: Value) -> Value {
    redact_json(&mut value);
    value
}

/// Formats a time in short, in UTC: `2026-02-07 12:00:00`.
pub fn moment(time: Time) -> String {
    let iso = time.to_string();
    iso.split('.').next().unwrap_or(&iso).replace('T', " ")
}

/// Returns how long ago a time was, in words.
pub fn ago(now: Time, then: Option<Time>) -> String {
    match then {
        None => String::new(),
        Some(then) => format!("{} ago", say_span(now.since(then))),
    }
}

/// Returns how many tasks are completed, in progress, pending and failed, in one sentence.
pub fn say_progress(progress: &Progress) -> String {
    if progress.total_tasks == 0 {
        return "no tasks".to_owned();
    }
    let mut text = format!(
        "{} of {} tasks completed",
        progress.completed_tasks, progress.total_tasks
    );
    let others = [
        (progress.in_progress_tasks, "in progress"),
        (progress.pending_tasks, "pending"),
        (progress.failed_tasks, "failed permanently"),
    ];
    for (count, what) in others {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text
}
