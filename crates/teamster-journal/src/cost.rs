//! The cost of a run so far, computed from its journal alone, and whether it is still within budget.
//!
//! Clients report what they used in `usage` events. Some report tokens but no money, some report nothing, and a killed
//! client reports nothing more. A sum therefore has two parts: the known amount, and whether that is all of it. An
//! unknown amount is never counted as 0.

mod budget;

use std::collections::BTreeMap;

use teamster_types::TaskId;
use teamster_types::usage::Usage;

use crate::event::Event;
use crate::kind::EventKind;
use crate::payload::UsageReported;

pub use budget::LimitReached;

/// An amount of money in billionths of a US dollar. Integer sums do not depend on the order of addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

impl Money {
    /// Converts from dollars. Returns `None` when the amount is negative or not finite.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked, and a cast that is too large stops at the largest number"
    )]
    pub fn from_usd(usd: f64) -> Option<Self> {
        (usd.is_finite() && usd >= 0.0).then(|| Self((usd * 1e9).round() as u64))
    }

    /// Returns the amount in dollars.
    #[allow(
        clippy::cast_precision_loss,
        reason = "exact up to nine million dollars"
    )]
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e9
    }

    fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// The cost of a run, a worker or a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The known tokens; `None` when none were ever reported.
    pub tokens: Option<Usage>,
    /// Whether `tokens` is a lower bound, because some usage was not reported.
    pub tokens_at_least: bool,
    /// The known money; `None` when none was ever reported.
    pub money: Option<Money>,
    /// Whether `money` is a lower bound.
    pub money_at_least: bool,
}

impl Cost {
    /// The cost of an agent that reported nothing.
    pub const UNKNOWN: Self = Self {
        tokens: None,
        tokens_at_least: true,
        money: None,
        money_at_least: true,
    };

    /// Adds two costs. The known parts are summed; the result is a lower bound if either operand is.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: either(self.tokens, other.tokens, Usage::plus),
            tokens_at_least: self.tokens_at_least || other.tokens_at_least,
            money: either(self.money, other.money, Money::plus),
            money_at_least: self.money_at_least || other.money_at_least,
        }
    }

    /// Returns the total of all known tokens, which is what a budget counts.
    pub fn total(&self) -> Option<u64> {
        self.tokens.map(|tokens| tokens.total())
    }

    /// Formats the tokens for people: `12,345`, `at least 12,345`, `unknown`.
    pub fn say_tokens(&self) -> String {
        say(
            self.total().map(with_commas),
            self.tokens_at_least,
            "0".to_owned(),
        )
    }

    /// Formats tokens and money for people: `12,345 tokens · $1.23`, `12,345 tokens · cost not reported`.
    pub fn words(&self) -> String {
        let is_unknown = self.money.is_none() && self.money_at_least;
        let money = if is_unknown {
            "cost not reported".to_owned()
        } else {
            self.say_money()
        };
        match (self.tokens.is_none() && self.tokens_at_least, is_unknown) {
            (true, true) => money,
            (true, false) => format!("tokens not reported · {money}"),
            (false, _) => format!("{} tokens · {money}", self.say_tokens()),
        }
    }

    /// Formats the money for people: `$1.23`, `at least $1.23`, `unknown`.
    pub fn say_money(&self) -> String {
        let money = self.money.map(|money| say_usd(money.usd()));
        say(money, self.money_at_least, "$0.00".to_owned())
    }

    /// Returns the cost that a client reported.
    pub fn reported(used: &UsageReported) -> Self {
        let tokens = used.tokens();
        let money = used.usd.and_then(Money::from_usd);
        Self {
            tokens,
            tokens_at_least: used.at_least || tokens.is_none(),
            money,
            money_at_least: used.at_least || money.is_none(),
        }
    }
}

fn either<T>(left: Option<T>, right: Option<T>, plus: impl Fn(T, T) -> T) -> Option<T> {
    match (left, right) {
        (Some(left), Some(right)) => Some(plus(left, right)),
        (left, right) => left.or(right),
    }
}

fn say(known: Option<String>, at_least: bool, nothing: String) -> String {
    match (known, at_least) {
        (Some(known), true) => format!("at least {known}"),
        (Some(known), false) => known,
        (None, true) => "unknown".to_owned(),
        // No agent worked, so the usage is known to be zero.
        (None, false) => nothing,
    }
}

/// Formats dollars with two decimals, or four for amounts below one cent.
pub fn say_usd(usd: f64) -> String {
    if usd > 0.0 && usd < 0.01 {
        format!("${usd:.4}")
    } else {
        format!("${usd:.2}")
    }
}

/// Formats a number with thousands separators.
pub fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// All costs of a run, folded from its journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// The cost of the whole run.
    pub run: Cost,
    /// The cost of each worker.
    pub workers: BTreeMap<String, Cost>,
    /// The cost of each task, summed over all attempts.
    pub tasks: BTreeMap<TaskId, Cost>,
    /// What clients reported, in total.
    pub reported: ReportedCost,
    /// What clients reported, by worker.
    pub reported_by_worker: BTreeMap<String, ReportedCost>,
    /// What clients reported, by task; usage outside any task is under `None`.
    pub reported_by_task: BTreeMap<Option<TaskId>, ReportedCost>,
    /// The tokens that are reserved for running attempts.
    pub reserved_tokens: u64,
    /// Totals over the finished attempts.
    finished: FinishedAttempts,
    /// The running attempts.
    open: BTreeMap<TaskId, Attempt>,
}

/// The sum of what clients reported. Unreported usage is not included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReportedCost {
    /// The sum.
    pub cost: Cost,
    /// The number of usage reports.
    pub reports: u64,
}

impl ReportedCost {
    fn add(&mut self, cost: Cost) {
        self.cost = self.cost.plus(cost);
        self.reports += 1;
    }
}

/// A running attempt at a task.
#[derive(Clone, Debug, PartialEq)]
struct Attempt {
    worker: String,
    /// Whether its agent has started, and so may have used something.
    started: bool,
    /// What it has reported so far.
    told: Option<Cost>,
}

/// Totals over finished attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct FinishedAttempts {
    tokens: u64,
    with_tokens: u64,
    money: Money,
    with_money: u64,
}

impl Costs {
    /// Folds these events.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut costs = Self::default();
        for event in events {
            costs.apply(event, &event.payload());
        }
        costs
    }

    /// Applies one event. Events that are unrelated to cost are ignored.
    pub fn apply(&mut self, event: &Event, what: &EventKind) {
        if let EventKind::Usage(used) = what {
            let cost = Cost::reported(used);
            self.reported.add(cost);
            let by_worker = &mut self.reported_by_worker;
            by_worker
                .entry(event.actor.to_string())
                .or_default()
                .add(cost);
            let by_task = &mut self.reported_by_task;
            by_task.entry(event.task_id.clone()).or_default().add(cost);
            self.add(event.actor.as_str(), event.task_id.as_ref(), cost);
            // The planner has no task, but its cost counts all the same.
            if let Some(task) = &event.task_id
                && let Some(attempt) = self.attempt(task, event.actor.as_str())
            {
                attempt.told = Some(attempt.told.map_or(cost, |before| before.plus(cost)));
            }
            return;
        }
        if let EventKind::BudgetReserved(reserved) = what {
            self.reserved_tokens = reserved.tokens;
        }
        let Some(task) = &event.task_id else {
            return;
        };
        match what {
            EventKind::TaskClaimed(_) => {
                // The task was claimed again without an end in between: the previous holder reports nothing more.
                self.close(task, true);
                let attempt = Attempt {
                    worker: event.actor.to_string(),
                    started: false,
                    told: None,
                };
                self.open.insert(task.clone(), attempt);
            }
            EventKind::WorkerStarted(_) => {
                if let Some(attempt) = self.attempt(task, event.actor.as_str()) {
                    attempt.started = true;
                }
            }
            EventKind::TaskCompleted(_) | EventKind::TaskFailed(_) | EventKind::TaskBlocked(_) => {
                self.close(task, true);
            }
            EventKind::TaskReleased(_) | EventKind::TaskRequeued(_) | EventKind::TaskDeleted(_) => {
                self.close(task, false);
            }
            _ => {}
        }
    }

    /// Returns the number of running attempts.
    pub fn running(&self) -> usize {
        self.open.len()
    }

    /// Returns what to reserve for the next task: the mean of the finished attempts, or nothing before the first.
    pub fn reservation(&self) -> Reservation {
        let FinishedAttempts {
            tokens,
            with_tokens,
            money,
            with_money,
        } = self.finished;
        Reservation {
            tokens: tokens.div_ceil(with_tokens.max(1)),
            money: Money(money.0.div_ceil(with_money.max(1))),
        }
    }

    fn add(&mut self, worker: &str, task: Option<&TaskId>, cost: Cost) {
        self.run = self.run.plus(cost);
        let sum = self.workers.entry(worker.to_owned()).or_default();
        *sum = sum.plus(cost);
        if let Some(task) = task {
            let sum = self.tasks.entry(task.clone()).or_default();
            *sum = sum.plus(cost);
        }
    }

    fn attempt(&mut self, task: &TaskId, worker: &str) -> Option<&mut Attempt> {
        let attempt = self.open.get_mut(task);
        attempt.filter(|attempt| attempt.worker == worker)
    }

    /// Closes an attempt. If it reported nothing, its cost is unknown, unless the task was given back before an agent
    /// started.
    fn close(&mut self, task: &TaskId, worked: bool) {
        let Some(attempt) = self.open.remove(task) else {
            return;
        };
        let Some(cost) = attempt.told else {
            if worked || attempt.started {
                self.add(&attempt.worker, Some(task), Cost::UNKNOWN);
            }
            return;
        };
        if let Some(tokens) = cost.total() {
            self.finished.tokens = self.finished.tokens.saturating_add(tokens);
            self.finished.with_tokens += 1;
        }
        if let Some(money) = cost.money {
            self.finished.money = self.finished.money.plus(money);
            self.finished.with_money += 1;
        }
    }
}

/// What is reserved for tasks that run or are about to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// The number of tokens.
    pub tokens: u64,
    /// The amount of money.
    pub money: Money,
}

impl Reservation {
    /// Returns the reservation for this many tasks.
    #[must_use]
    pub fn times(self, tasks: usize) -> Self {
        let tasks = tasks as u64;
        Self {
            tokens: self.tokens.saturating_mul(tasks),
            money: Money(self.money.0.saturating_mul(tasks)),
        }
    }
}

#[cfg(test)]
mod tests;
