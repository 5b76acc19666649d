//! The budget of a run, and how long it has worked.

use std::time::{Duration, Instant};

use teamster_journal::RunState;
use teamster_journal::cost::LimitReached;
use teamster_journal::payload::RunSpec;
use teamster_types::flow::Stage;

/// Measures how long this host has worked, by a monotonic clock. Time spent waiting for a person is not counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkClock {
    since: Instant,
    waited: Duration,
    waiting_since: Option<Instant>,
}

impl WorkClock {
    /// Starts a clock.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            waited: Duration::ZERO,
            waiting_since: None,
        }
    }

    /// Notes that the run waits for a person from now on, unless it does already.
    pub(super) fn begin_waiting(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// Notes that the run no longer waits for a person.
    pub(super) fn end_waiting(&mut self, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.saturating_duration_since(since);
        }
    }

    /// Follows the stage of the run: at the gate it waits for a person.
    pub(super) fn follow(&mut self, stage: Option<Stage>, now: Instant) {
        if stage == Some(Stage::Approval) {
            self.begin_waiting(now);
        } else {
            self.end_waiting(now);
        }
    }

    /// Returns how long this host has worked.
    pub(super) fn hosted(&self, now: Instant) -> Duration {
        let waits = self
            .waiting_since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        now.saturating_duration_since(self.since)
            .saturating_sub(self.waited + waits)
    }
}

/// Returns the limit of minutes, if it was reached. It applies in every stage except at the gate, which waits for a
/// person.
pub(super) fn time_limit_reached(
    spec: &RunSpec,
    state: &RunState,
    hosted: Duration,
) -> Option<LimitReached> {
    let is_at_work = !matches!(state.stage, Some(Stage::Approval | Stage::End(_)));
    let reached = || spec.budget.out_of_minutes(state.worked(hosted));
    is_at_work.then(reached).flatten()
}

/// Returns the limit that was reached, if one was. Time in which the run had no host is not counted.
pub(super) fn limit_reached(
    spec: &RunSpec,
    state: &RunState,
    hosted: Duration,
) -> Option<LimitReached> {
    let spent = &state.spent;
    let reached = spec.budget.exceeded(&spent.run, state.worked(hosted));
    // No worker is running, and none may start a task: the rest of the budget is less than the reservation for a task.
    let short_of = || spec.budget.short_of(&spent.run, spent.reservation());
    reached.or_else(|| (spent.running() == 0).then(short_of).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_at_the_gate_is_not_time_at_work() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let mut clock = WorkClock::new(began);
        clock.follow(Some(Stage::Execute), at(10));
        assert_eq!(clock.hosted(at(10)), Duration::from_secs(10));
        clock.follow(Some(Stage::Approval), at(10));
        clock.follow(Some(Stage::Approval), at(30));
        assert_eq!(clock.hosted(at(40)), Duration::from_secs(10));
        clock.follow(Some(Stage::Revise), at(60));
        assert_eq!(clock.hosted(at(65)), Duration::from_secs(15));
    }
}
