//! What the run may cost, and what happens when that is used up.

use teamster_types::event::NewEvent;
use teamster_types::flow::Outcome;

use super::{Host, Next, Result};
use crate::cost::Exceeded;
use crate::exit;
use crate::story::HOST;

impl Host<'_> {
    /// The limit that was reached, if one was. The time that nobody hosted the run is not counted.
    pub(super) fn exhausted(&self) -> Option<Exceeded> {
        let elapsed = self.story.worked(self.hosting_since.elapsed());
        let spent = &self.story.spent;
        let reached = self.order.budget.exceeded(&spent.run, elapsed);
        // Nobody works, and nobody may begin: what is left is less than a task is worth.
        let is_stuck =
            || spent.running() == 0 && !self.order.budget.fits(&spent.run, spent.reservation());
        reached.or_else(|| {
            is_stuck()
                .then(|| self.order.budget.nearest(&spent.run))
                .flatten()
        })
    }

    /// Running agents are interrupted; what they have is committed on their branches.
    pub(super) fn out_of_budget(&mut self, exceeded: &Exceeded) -> Result<Next> {
        self.record(
            NewEvent::new("budget.exhausted", HOST)
                .with("what", exceeded.what.as_str())
                .with("limit", exceeded.limit)
                .with("used", exceeded.used),
        )?;
        self.stop_crew("the budget is used up")?;
        let why = format!("the budget is used up: {}", exceeded.words());
        self.finish(Outcome::Failed, "budget_exhausted", exit::BUDGET, &why)?;
        Ok(Next::GoOn)
    }
}
