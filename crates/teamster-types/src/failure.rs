//! The failure sidecar, `{id}.failure.json`, and what a failure costs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::json::Object;
use crate::{TaskId, Time};

/// A task that failed this often is not tried again.
pub const ATTEMPTS: u32 = 5;

const FIRST_BACKOFF: Duration = Duration::from_secs(5);
/// Limits the pause between two attempts.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// Records how a task failed so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Which task.
    pub task_id: TaskId,
    /// What went wrong the last time.
    pub last_error: String,
    /// How often it went wrong.
    pub retry_count: u32,
    /// When it last went wrong.
    pub last_failed_at: Time,
    /// What other versions and programs have noted; it is kept.
    #[serde(flatten)]
    pub rest: Object,
}

impl Failure {
    /// Returns the record after one more failure.
    pub fn again(before: Option<&Failure>, task_id: &TaskId, error: &str, now: Time) -> Self {
        Self {
            task_id: task_id.clone(),
            last_error: error.to_owned(),
            retry_count: before.map_or(0, |failure| failure.retry_count) + 1,
            last_failed_at: now,
            rest: before.map_or_else(Object::new, |failure| failure.rest.clone()),
        }
    }

    /// Returns whether it has been tried often enough.
    pub fn is_final(&self) -> bool {
        self.retry_count >= ATTEMPTS
    }

    /// Nobody should try again before this moment.
    pub fn not_before(&self) -> Time {
        self.last_failed_at.after(backoff(self.retry_count))
    }
}

/// Returns how long to wait after the `count`-th failure: 5 s, 10 s, 20 s, 40 s, then 60 s.
pub fn backoff(count: u32) -> Duration {
    let doubled = FIRST_BACKOFF.saturating_mul(1 << count.saturating_sub(1).min(16));
    doubled.min(LONGEST_BACKOFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_a_minute() {
        let waits: Vec<u64> = (1..=7).map(|count| backoff(count).as_secs()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 60, 60, 60]);
        assert_eq!(backoff(u32::MAX).as_secs(), 60);
    }

    #[test]
    fn the_fifth_failure_is_the_last() {
        let id = TaskId::from_number(3);
        let now = Time::from_millis(0);
        let mut failure = Failure::again(None, &id, "boom", now);
        for _ in 0..3 {
            assert!(!failure.is_final());
            failure = Failure::again(Some(&failure), &id, "boom", now);
        }
        assert!(!failure.is_final());
        assert!(Failure::again(Some(&failure), &id, "boom", now).is_final());
    }
}
