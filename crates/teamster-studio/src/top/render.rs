//! Formats texts for the screen.

use std::fmt::Write as _;

use teamster_types::redact::redact;
use teamster_types::text::{clean, one_line};
use teamster_types::time::say_span;
use teamster_types::{Time, progress::Progress};
use teamster_view::model::Spent;

/// The maximum length of a text on the screen.
const LONGEST: usize = 500;

/// Formats an untrusted text on one line: redacted, without control or deceptive characters.
pub(super) fn line(text: &str) -> String {
    // Only the visible part is processed, because a line may have a megabyte.
    let cut: String = text.chars().take(LONGEST * 4).collect();
    clean(&one_line(&redact(&cut)), LONGEST).into_owned()
}

/// Formats the progress: `3 of 10 tasks, 2 in progress, 1 failed`.
pub(super) fn progress(progress: &Progress) -> String {
    if progress.total_tasks == 0 {
        return "no tasks".to_owned();
    }
    let mut text = format!(
        "{} of {} tasks",
        progress.completed_tasks, progress.total_tasks
    );
    for (count, word) in [
        (progress.in_progress_tasks, "at work"),
        (progress.failed_tasks, "failed"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {word}");
        }
    }
    text
}

/// Formats the costs: `12.3k tokens  $1.20`; empty when nothing was reported.
pub(super) fn spent(spent: &Spent) -> String {
    if spent.reports == 0 {
        return String::new();
    }
    let least = |is: bool| if is { "≥" } else { "" };
    let tokens = thousands(spent.tokens);
    let mut text = format!("{}{tokens} tokens", least(spent.at_least));
    if let Some(cost) = spent.cost_usd {
        let _ = write!(text, "  {}${cost:.2}", least(spent.cost_at_least));
    }
    text
}

/// Formats a number: `950`, `12.3k`, `4.5M`.
#[allow(
    clippy::cast_precision_loss,
    reason = "three digits are shown; nobody counts on the rest"
)]
pub(super) fn thousands(count: u64) -> String {
    match count {
        0..=999 => count.to_string(),
        1_000..=999_999 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// Formats how long ago it was; empty when unknown.
pub(super) fn ago(now: Time, then: Option<Time>) -> String {
    then.map_or_else(String::new, |then| say_span(now.since(then)))
}
