//! What the run may cost, and what happens when that is used up.

use std::time::Duration;

use teamster_journal::EventKind;
use teamster_journal::cost::Exceeded;
use teamster_journal::payload::RunEnd;
use teamster_types::flow::Stage;

use super::{Host, Next, Result};

impl Host<'_> {
    /// Whether the minutes of the run are used up, where somebody works or a check runs. Nobody works at the gate.
    pub(super) fn is_out_of_time(&self) -> bool {
        self.out_of_time().is_some()
    }

    /// How long this host has been at work, by a clock that nobody can set. A person who takes their time at the gate uses
    /// none of the team's.
    pub(super) fn hosted(&self) -> Duration {
        let waits = self
            .at_gate_since
            .map_or(Duration::ZERO, |since| since.elapsed());
        self.hosting_since
            .elapsed()
            .saturating_sub(self.waited_at_gate + waits)
    }

    /// How long the run may still take; `None` without a limit of minutes.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let minutes = self.spec.budget.minutes?;
        let limit = Duration::try_from_secs_f64(minutes * 60.0).unwrap_or(Duration::MAX);
        Some(limit.saturating_sub(self.state.worked(self.hosted())))
    }

    /// The limit of minutes, if it was reached. It holds in every stage but at the gate, which waits for a person.
    pub(super) fn out_of_time(&self) -> Option<Exceeded> {
        let is_at_work = !matches!(self.state.stage, Some(Stage::Approval | Stage::End(_)));
        let elapsed = self.state.worked(self.hosted());
        let reached = || self.spec.budget.out_of_minutes(elapsed);
        is_at_work.then(reached).flatten()
    }

    /// The limit that was reached, if one was. The time that nobody hosted the run is not counted.
    pub(super) fn exhausted(&self) -> Option<Exceeded> {
        let elapsed = self.state.worked(self.hosted());
        let spent = &self.state.spent;
        let reached = self.spec.budget.exceeded(&spent.run, elapsed);
        // Nobody works, and nobody may begin: what is left is less than a task is worth.
        let is_stuck =
            || spent.running() == 0 && !self.spec.budget.fits(&spent.run, spent.reservation());
        reached.or_else(|| {
            is_stuck()
                .then(|| self.spec.budget.nearest(&spent.run))
                .flatten()
        })
    }

    /// Running agents are interrupted; what they have is committed on their branches.
    pub(super) fn out_of_budget(&mut self, exceeded: &Exceeded) -> Result<Next> {
        self.journal(EventKind::BudgetExhausted(exceeded.event()))?;
        self.stop_workers("the budget is used up")?;
        let why = format!("the budget is used up: {}", exceeded.words());
        self.finish(RunEnd::BudgetExhausted, &why)?;
        Ok(Next::GoOn)
    }
}
