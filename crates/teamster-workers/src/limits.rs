//! How long things may take, and what an agent may do.

use std::time::Duration;

/// What a bridge goes by. Tests make the times short; everything else is for the configuration to say.
#[derive(Clone, Debug)]
pub struct WorkerLimits {
    /// The agent must show that it is there within this time.
    pub start: Duration,
    /// It may say nothing for this long,
    pub idle: Duration,
    /// and a task may take this long in all.
    pub task: Duration,
    /// An agent that is asked to stop has this long before it is ended.
    pub grace: Duration,
    /// The heart beats this often.
    pub beat: Duration,
    /// The lease is renewed this often.
    pub renew: Duration,
    /// Signals and news are looked for this often.
    pub look: Duration,
    /// The first pause after trouble that is not the task's; it doubles each time,
    pub pause: Duration,
    /// up to this.
    pub longest_pause: Duration,
    /// Failures in a row after which the worker takes no more tasks.
    pub quarantine_errors: u32,
    /// The longest prompt, in characters.
    pub prompt: usize,
    /// A log file of this size is put aside.
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
    /// The pause after the `count`th trouble in a row, counted from 1.
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
