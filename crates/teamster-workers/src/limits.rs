//! The limits of a worker.

use std::time::Duration;

/// The limits of a worker. Tests shorten the times; the configuration sets the others.
#[derive(Clone, Debug)]
pub struct WorkerLimits {
    /// How long an agent may take to show that it runs.
    pub start: Duration,
    /// How long an agent may be silent, and how long a request waits for a person.
    pub idle: Duration,
    /// How long a task may take in all.
    pub task: Duration,
    /// How long an agent that was asked to exit has before it is killed.
    pub grace: Duration,
    /// How often the heartbeat is written.
    pub beat: Duration,
    /// How often the lead is sent a `heartbeat` message; `None` to send none.
    pub beat_messages: Option<Duration>,
    /// How often the lease of a task is renewed.
    pub renew: Duration,
    /// The poll interval for signals and changes of the team.
    pub look: Duration,
    /// The first pause after a failure of the service; it doubles with each further failure.
    pub pause: Duration,
    /// The longest pause after failures of the service.
    pub longest_pause: Duration,
    /// The number of failures in a row after which the worker takes no more tasks.
    pub quarantine_errors: u32,
    /// The longest prompt, in characters.
    pub prompt: usize,
    /// The size in bytes at which a log file is rotated.
    pub log_bytes: u64,
}

impl Default for WorkerLimits {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(58),
            idle: Duration::from_secs(10 * 60),
            task: Duration::from_secs(60 * 60),
            grace: Duration::from_secs(5),
            beat: Duration::from_secs(5),
            beat_messages: None,
            renew: Duration::from_secs(40),
            look: Duration::from_millis(500),
            pause: Duration::from_secs(5),
            longest_pause: Duration::from_secs(60),
            quarantine_errors: 3,
            prompt: 50_000,
            log_bytes: 16 * 1024 * 1024,
        }
    }
}

impl WorkerLimits {
    /// Returns the pause after the `count`th failure of the service in a row, counted from 1.
    pub fn pause_after(&self, count: u32) -> Duration {
        let doublings = count.saturating_sub(1).min(16);
        self.pause
            .saturating_mul(1 << doublings)
            .min(self.longest_pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let limits = WorkerLimits::default();
        let seconds: Vec<u64> = (1..=6)
            .map(|count| limits.pause_after(count).as_secs())
            .collect();
        assert_eq!(seconds, [5, 10, 20, 40, 60, 60]);
        assert_eq!(limits.pause_after(u32::MAX).as_secs(), 60);
    }
}
