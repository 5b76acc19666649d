//! What came out of striking at every call of one operation.

use std::time::Duration;

/// The figures of one operation.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The operation, as a person types it.
    pub operation: String,
    /// Names of system calls it uses.
    pub names: usize,
    /// System calls of one undisturbed run.
    pub calls: usize,
    /// Runs that were struck at.
    pub tried: usize,
    /// Of these, how many were hit.
    pub hit: usize,
    /// The operation had happened.
    pub happened: usize,
    /// It had not.
    pub did_not: usize,
    /// It ended well and had happened, but readers were told so only after the next write.
    pub late: usize,
    /// The longest time that the next operation of somebody else took.
    pub slowest_next: Duration,
    /// What must not be, with the point where it was seen.
    pub violations: Vec<String>,
}

impl Tally {
    /// One line for a terminal.
    pub(crate) fn line(&self) -> String {
        format!(
            "  {:<28} {:>3} calls of {:>2} names: {:>4} tried, {:>4} hit, {:>4} happened, {:>4} did not, {:>2} seen late, next ≤ {:>4} ms, {} violations",
            self.operation,
            self.calls,
            self.names,
            self.tried,
            self.hit,
            self.happened,
            self.did_not,
            self.late,
            self.slowest_next.as_millis(),
            self.violations.len(),
        )
    }

    /// Adds one run.
    pub(super) fn add(&mut self, run: Run) {
        self.tried += 1;
        self.hit += usize::from(run.hit);
        match run.happened {
            Some(true) => self.happened += 1,
            Some(false) => self.did_not += 1,
            None => {}
        }
        self.late += usize::from(run.late);
        self.slowest_next = self.slowest_next.max(run.next);
        self.violations.extend(run.violations);
    }
}

/// One run that was struck at.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) hit: bool,
    pub(super) happened: Option<bool>,
    pub(super) late: bool,
    pub(super) next: Duration,
    pub(super) violations: Vec<String>,
}
