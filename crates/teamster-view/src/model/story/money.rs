//! What was spent, as the journal tells it.

use std::collections::BTreeMap;

use teamster_journal::Event;
use teamster_journal::cost::{Cost as ToldCost, Money};
use teamster_journal::payload::{BudgetExhausted, BudgetReserved, Limit, UsageReported};
use teamster_types::TaskId;

use crate::model::cost::{Cost, CostPoint, Exhausted, Spent, TaskCost};

/// Points of the cost over time.
const MOST_POINTS: usize = 200;

#[derive(Clone, Debug, Default)]
pub(super) struct Spending {
    total: Sum,
    by_task: BTreeMap<Option<TaskId>, Sum>,
    points: Vec<CostPoint>,
    reserved: u64,
    exhausted: Option<Exhausted>,
}

impl Spending {
    pub(super) fn usage(&mut self, event: &Event, used: &UsageReported) {
        self.total.add(used);
        let by_task = self.by_task.entry(event.task_id.clone()).or_default();
        by_task.add(used);
        let total = self.total.spent();
        self.points.push(CostPoint {
            at: event.ts,
            seq: event.seq,
            tokens: total.tokens,
            cost_usd: total.cost_usd,
        });
        // Sums only grow, so every other point can go and the curve stays true.
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

    pub(super) fn reserved(&mut self, reserved: &BudgetReserved) {
        self.reserved = reserved.tokens;
    }

    pub(super) fn exhausted(&mut self, event: &Event, exhausted: &BudgetExhausted) {
        self.exhausted = Some(Exhausted {
            what: exhausted
                .what
                .map(Limit::as_str)
                .unwrap_or_default()
                .to_owned(),
            limit: exhausted.limit,
            used: exhausted.used,
            at: event.ts,
        });
    }

    /// All but what the crew and the run know.
    pub(super) fn cost(&self) -> Cost {
        Cost {
            total: self.total.spent(),
            by_worker: Vec::new(),
            by_task: self
                .by_task
                .iter()
                .map(|(task_id, spent)| TaskCost {
                    task_id: task_id.clone(),
                    spent: spent.spent(),
                })
                .collect(),
            over_time: self.points.clone(),
            budget: None,
            reserved_tokens: self.reserved,
            exhausted: self.exhausted.clone(),
        }
    }

    pub(super) fn of_task(&self, id: &TaskId) -> Spent {
        let spent = self.by_task.get(&Some(id.clone()));
        spent.map(Sum::spent).unwrap_or_default()
    }
}

/// What clients told, summed up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    cost: ToldCost,
    /// How many times a client told what it used.
    pub(super) reports: u64,
}

impl Sum {
    pub(super) fn add(&mut self, used: &UsageReported) {
        self.cost = self.cost.plus(ToldCost::told(used));
        self.reports += 1;
    }

    pub(super) fn spent(&self) -> Spent {
        let tokens = self.cost.tokens.unwrap_or_default();
        Spent {
            tokens: tokens.total(),
            input: tokens.input,
            cached_input: tokens.cached_input,
            cache_write: tokens.cache_write,
            output: tokens.output,
            cost_usd: self.cost.money.map(Money::usd),
            at_least: self.cost.tokens_at_least,
            cost_at_least: self.cost.money_at_least,
            reports: self.reports,
        }
    }
}
