//! What was spent, as the journal tells it.

use std::collections::BTreeMap;

use serde_json::Value;
use teamster_types::TaskId;
use teamster_journal::Event;
use teamster_journal::Used;

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
    let used = Used::of(&event.data);
    if let Some(tokens) = used.tokens {
        for (sum, more) in [
            (&mut spent.input, tokens.input),
            (&mut spent.cached_input, tokens.cached_input),
            (&mut spent.cache_write, tokens.cache_write),
            (&mut spent.output, tokens.output),
        ] {
            *sum = sum.saturating_add(more);
            spent.tokens = spent.tokens.saturating_add(more);
        }
    }
    if let Some(usd) = used.usd {
        // To the billionth: sums must not depend on their order.
        let sum = spent.cost_usd.unwrap_or(0.0) + usd;
        spent.cost_usd = Some((sum * 1e9).round() / 1e9);
    }
    spent.at_least |= used.at_least || used.tokens.is_none();
    spent.cost_at_least |= used.at_least || used.usd.is_none();
    spent.reports += 1;
}
