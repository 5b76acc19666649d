//! What a run has cost so far, from its journal alone, and whether that is still within its budget.
//!
//! Clients tell what they used in `usage` events. Some tell tokens and no money, some nothing at all, and one that is
//! killed tells nothing any more. So a sum has two parts: what is known, and whether that is all. What is not known is
//! never taken for 0.

mod budget;

use std::collections::BTreeMap;

use teamster_types::TaskId;
use teamster_types::usage::Usage;

use crate::event::Event;
use crate::kind::EventKind;
use crate::payload::UsageReported;

pub use budget::Exceeded;

/// Money, in billionths of a US dollar: sums do not depend on the order in which they are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

impl Money {
    /// So many dollars. What is no amount (negative, not a number) is `None`.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked, and a cast that is too large stops at the largest number"
    )]
    pub fn from_usd(usd: f64) -> Option<Self> {
        (usd.is_finite() && usd >= 0.0).then(|| Self((usd * 1e9).round() as u64))
    }

    /// In dollars.
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

/// What something cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The tokens that are known; `None` when nobody ever told.
    pub tokens: Option<Usage>,
    /// It was at least that: something of it nobody told.
    pub tokens_at_least: bool,
    /// The money that is known; `None` when nobody ever told.
    pub money: Option<Money>,
    /// It was at least that.
    pub money_at_least: bool,
}

impl Cost {
    /// What an agent used that told nothing.
    pub const UNKNOWN: Self = Self {
        tokens: None,
        tokens_at_least: true,
        money: None,
        money_at_least: true,
    };

    /// Both together. What is known of either stays known, and the sum says that it is not all.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: either(self.tokens, other.tokens, Usage::plus),
            tokens_at_least: self.tokens_at_least || other.tokens_at_least,
            money: either(self.money, other.money, Money::plus),
            money_at_least: self.money_at_least || other.money_at_least,
        }
    }

    /// All tokens that are known: what a budget counts.
    pub fn total(&self) -> Option<u64> {
        self.tokens.map(|tokens| tokens.total())
    }

    /// Tokens for people: `12,345`, `at least 12,345`, `unknown`.
    pub fn say_tokens(&self) -> String {
        say(
            self.total().map(with_commas),
            self.tokens_at_least,
            "0".to_owned(),
        )
    }

    /// Money for people: `$1.23`, `at least $1.23`, `unknown`.
    pub fn say_money(&self) -> String {
        let money = self.money.map(|money| say_usd(money.usd()));
        say(money, self.money_at_least, "$0.00".to_owned())
    }

    /// Returns what a client told.
    pub fn told(used: &UsageReported) -> Self {
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
        // Nobody worked, so nothing was used: that is known.
        (None, false) => nothing,
    }
}

/// Dollars with cents, and more digits where cents would show nothing.
pub fn say_usd(usd: f64) -> String {
    if usd > 0.0 && usd < 0.01 {
        format!("${usd:.4}")
    } else {
        format!("${usd:.2}")
    }
}

/// A number as people read it.
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

/// What everything cost: the fold of a journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// The whole run.
    pub run: Cost,
    /// Each worker.
    pub workers: BTreeMap<String, Cost>,
    /// Each task, all attempts together.
    pub tasks: BTreeMap<TaskId, Cost>,
    /// What clients told, all together.
    pub reported: Reported,
    /// What clients told, by worker.
    pub reported_by_worker: BTreeMap<String, Reported>,
    /// What clients told, by task; what belongs to none is under `None`.
    pub reported_by_task: BTreeMap<Option<TaskId>, Reported>,
    /// Tokens that are set aside for attempts that run.
    pub reserved_tokens: u64,
    /// Attempts that are over, and what is known of them.
    finished: FinishedAttempts,
    /// Attempts that go on.
    open: BTreeMap<TaskId, Attempt>,
}

/// What clients told, summed up. What they did not tell is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reported {
    /// The sum.
    pub cost: Cost,
    /// How many times a client told what it used.
    pub reports: u64,
}

impl Reported {
    fn add(&mut self, cost: Cost) {
        self.cost = self.cost.plus(cost);
        self.reports += 1;
    }
}

/// An attempt at a task that goes on.
#[derive(Clone, Debug, PartialEq)]
struct Attempt {
    worker: String,
    /// Its agent has shown that it was there, and so may have used something.
    started: bool,
    /// What it has told so far.
    told: Option<Cost>,
}

/// Sums over finished attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct FinishedAttempts {
    tokens: u64,
    with_tokens: u64,
    money: Money,
    with_money: u64,
}

impl Costs {
    /// The fold of these events.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut costs = Self::default();
        for event in events {
            costs.apply(event, &event.payload());
        }
        costs
    }

    /// Takes one event further. Events that say nothing about cost change nothing.
    pub fn apply(&mut self, event: &Event, what: &EventKind) {
        if let EventKind::Usage(used) = what {
            let cost = Cost::told(used);
            self.reported.add(cost);
            let by_worker = &mut self.reported_by_worker;
            by_worker
                .entry(event.actor.to_string())
                .or_default()
                .add(cost);
            let by_task = &mut self.reported_by_task;
            by_task.entry(event.task_id.clone()).or_default().add(cost);
            self.add(event.actor.as_str(), event.task_id.as_ref(), cost);
            // Whoever plans has no task, and costs all the same.
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
                // Claimed again without an end in between: whoever had it told nothing more.
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

    /// How many attempts run now.
    pub fn running(&self) -> usize {
        self.open.len()
    }

    /// What the next task is to be given in advance: the mean of the attempts so far, and nothing before the first.
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

    /// An attempt is over. One that told nothing has used nobody knows what, unless it was given back before an agent
    /// was there.
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

/// What tasks that run, or are to start, are given in advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// The number of tokens.
    pub tokens: u64,
    /// The amount of money.
    pub money: Money,
}

impl Reservation {
    /// The same for so many tasks.
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
