//! The costs of a team, as the page shows them.

use teamster_journal::cost::{Costs, Money, ReportedCost};
use teamster_journal::payload::Limit;
use teamster_journal::{Event, TeamState};
use teamster_types::TaskId;

use crate::model::cost::{BudgetView, CostPoint, CostView, Exhausted, Spent, TaskCost, WorkerCost};

/// The maximum number of points of the cost curve.
const MOST_POINTS: usize = 200;

/// The cumulative cost over time, thinned out to a few points.
#[derive(Clone, Debug, Default)]
pub(super) struct CostCurve {
    points: Vec<CostPoint>,
}

impl CostCurve {
    /// Adds the cumulative cost at an event that reported usage.
    pub(super) fn add(&mut self, event: &Event, costs: &Costs) {
        let total = spent(&costs.reported);
        self.points.push(CostPoint {
            at: event.ts,
            seq: event.seq,
            tokens: total.tokens,
            cost_usd: total.cost_usd,
        });
        // Sums only grow, so dropping every other point keeps the curve correct.
        if self.points.len() > MOST_POINTS {
            let newest = self.points.len() - 1;
            let mut place = 0;
            self.points.retain(|_| {
                let keeps = place % 2 == 0 || place == newest;
                place += 1;
                keeps
            });
        }
    }

    /// Returns all costs.
    pub(super) fn cost(&self, state: &TeamState) -> CostView {
        let costs = &state.run.spent;
        let history = &state.run.history;
        CostView {
            total: spent(&costs.reported),
            by_worker: costs
                .reported_by_worker
                .iter()
                .map(|(worker, reported)| WorkerCost {
                    worker: worker.clone(),
                    spent: spent(reported),
                })
                .collect(),
            by_task: costs
                .reported_by_task
                .iter()
                .map(|(task_id, reported)| TaskCost {
                    task_id: task_id.clone(),
                    spent: spent(reported),
                })
                .collect(),
            over_time: self.points.clone(),
            budget: history.spec.as_ref().map(|spec| BudgetView {
                tokens: spec.budget.tokens,
                usd: spec.budget.usd,
                minutes: spec.budget.minutes,
            }),
            reserved_tokens: costs.reserved_tokens,
            exhausted: history.exhausted.as_ref().map(|(at, exhausted)| Exhausted {
                what: exhausted
                    .what
                    .map(Limit::as_str)
                    .unwrap_or_default()
                    .to_owned(),
                limit: exhausted.limit,
                used: exhausted.used,
                at: *at,
            }),
        }
    }
}

/// Returns the costs of one task.
pub(super) fn of_task(costs: &Costs, id: &TaskId) -> Spent {
    let reported = costs.reported_by_task.get(&Some(id.clone()));
    reported.map(spent).unwrap_or_default()
}

/// Returns the costs of one worker.
pub(super) fn of_worker(costs: &Costs, name: &str) -> Spent {
    let reported = costs.reported_by_worker.get(name);
    reported.map(spent).unwrap_or_default()
}

fn spent(reported: &ReportedCost) -> Spent {
    let cost = &reported.cost;
    let tokens = cost.tokens.unwrap_or_default();
    Spent {
        tokens: tokens.total(),
        input: tokens.input,
        cached_input: tokens.cached_input,
        cache_write: tokens.cache_write,
        output: tokens.output,
        cost_usd: cost.money.map(Money::usd),
        at_least: cost.tokens_at_least,
        cost_at_least: cost.money_at_least,
        reports: reported.reports,
    }
}
