//! What was spent, as the journal tells it.

use std::collections::BTreeMap;

use serde_json::Value;
use teamster_types::TaskId;
use teamster_types::event::Event;

use super::text;
use crate::model::cost::{Cost, CostPoint, Exhausted, Spent, TaskCost};

/// Points of the cost over time.
const MOST_POINTS: usize = 200;

#[derive(Clone, Debug, Default)]
pub(super) struct Money {
    total: Spent,
    by_task: BTreeMap<Option<TaskId>, Spent>,
    points: Vec<CostPoint>,
    reserved: u64,
    exhausted: Option<Exhausted>,
}

impl Money {
    pub(super) fn usage(&mut self, event: &Event) {
        add(&mut self.total, event);
        add(
            self.by_task.entry(event.task_id.clone()).or_default(),
            event,
        );
        self.points.push(CostPoint {
            at: event.ts,
            seq: event.seq,
            tokens: self.total.tokens,
            cost_usd: self.total.cost_usd,
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

    pub(super) fn budget(&mut self, what: &str, event: &Event) {
        match what {
            "reserved" => self.reserved = super::number(event, "tokens").unwrap_or(0),
            "exhausted" => {
                let figure = |key: &str| event.data.get(key).and_then(Value::as_f64);
                self.exhausted = Some(Exhausted {
                    what: text(event, "what").unwrap_or_default().to_owned(),
                    limit: figure("limit"),
                    used: figure("used"),
                    at: event.ts,
                });
            }
            _ => {}
        }
    }

    /// All but what the crew and the run know.
    pub(super) fn cost(&self) -> Cost {
        Cost {
            total: self.total.clone(),
            by_worker: Vec::new(),
            by_task: self
                .by_task
                .iter()
                .map(|(task_id, spent)| TaskCost {
                    task_id: task_id.clone(),
                    spent: spent.clone(),
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
        spent.cloned().unwrap_or_default()
    }
}

/// Adds what one event of the type `usage` tells.
pub(super) fn add(spent: &mut Spent, event: &Event) {
    // Older journals have the figures under `usage`, by other names.
    let usage = event.data.get("usage");
    let count = |key: &str, old: &str| {
        let now = event.data.get(key).and_then(Value::as_u64);
        let before = || usage.and_then(|usage| usage.get(old)?.as_u64());
        now.or_else(before).unwrap_or(0)
    };
    let kinds = [
        (&mut spent.input, count("tokensIn", "input")),
        (&mut spent.cached_input, count("cachedIn", "cachedInput")),
        (&mut spent.cache_write, count("cacheWrite", "cacheWrite")),
        (&mut spent.output, count("tokensOut", "output")),
    ];
    let mut told = 0_u64;
    for (sum, more) in kinds {
        *sum = sum.saturating_add(more);
        told = told.saturating_add(more);
    }
    spent.tokens = spent.tokens.saturating_add(told);
    let price = event.data.get("usd").or(event.data.get("costUsd"));
    let cost = price.and_then(Value::as_f64);
    match cost {
        Some(cost) => *spent.cost_usd.get_or_insert(0.0) += cost,
        // Where some runs have a price and others have none, the sum is a lower bound.
        None => spent.at_least |= told > 0 && spent.cost_usd.is_some(),
    }
    spent.at_least |= event.data.get("atLeast") == Some(&Value::Bool(true));
    spent.reports += 1;
}
