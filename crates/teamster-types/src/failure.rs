//! The failure record `{id}.failure.json`, and what a failure costs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::json::Object;
use crate::{TaskId, Time};

/// The number of failures after which a task is not retried.
pub const ATTEMPTS: u32 = 5;

const FIRST_BACKOFF: Duration = Duration::from_secs(5);
/// The maximum retry delay.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// The failures of a task so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The task that failed.
    pub task_id: TaskId,
    /// The error of the last failure.
    pub last_error: String,
    /// The number of failures.
    pub retry_count: u32,
    /// When it last failed.
    pub last_failed_at: Time,
    /// Keys of other versions and programs, which are preserved.
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

    /// Returns whether the last attempt is used up.
    pub fn is_final(&self) -> bool {
        self.retry_count >= ATTEMPTS
    }

    /// Returns when the task may be retried.
    pub fn not_before(&self) -> Time {
        self.last_failed_at.after(backoff(self.retry_count))
    }
}

/// Returns the retry delay after the `count`-th failure: 5 s, 10 s, 20 s, 40 s, then 60 s.
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
