//! The costs of a team, by worker and by task.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_types::{TaskId, Time};

/// Tokens and money. The token kinds do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    /// The total number of tokens, which is what a budget counts.
    pub tokens: u64,
    /// Input tokens that were not read from a cache.
    pub input: u64,
    /// Input tokens that were read from a cache.
    pub cached_input: u64,
    /// Tokens that were written to a cache.
    pub cache_write: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// The cost in US dollars; `null` when no client reported a price.
    pub cost_usd: Option<f64>,
    /// Whether the tokens are a lower bound, because a client ended before it reported its total, or reported none.
    pub at_least: bool,
    /// Whether the money is a lower bound, for the same reasons or because a client reported no price.
    pub cost_at_least: bool,
    /// The number of usage reports.
    pub reports: u64,
}

/// What a worker spent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WorkerCost {
    /// The name of the worker.
    pub worker: String,
    /// The total for the worker.
    pub spent: Spent,
}

/// What was spent on a task.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskCost {
    /// The id of the task; `null` for costs outside any task.
    pub task_id: Option<TaskId>,
    /// The total for the task.
    pub spent: Spent,
}

/// The cumulative cost at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostPoint {
    /// The moment.
    pub at: Time,
    /// Its position in the journal.
    pub seq: u64,
    /// The tokens used so far.
    pub tokens: u64,
    /// The US dollars spent so far; `null` when no client had reported a price.
    pub cost_usd: Option<f64>,
}

/// The limits of a run; `null` means no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Budget")]
pub struct BudgetView {
    /// How many tokens it may use.
    pub tokens: Option<u64>,
    /// How many US dollars it may spend.
    pub usd: Option<f64>,
    /// How many minutes it may take.
    pub minutes: Option<f64>,
}

/// A budget that stopped a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Exhausted {
    /// `tokens`, `usd` or `minutes`.
    pub what: String,
    /// The limit.
    pub limit: Option<f64>,
    /// How much was used.
    pub used: Option<f64>,
    /// When it stopped the run.
    pub at: Time,
}

/// What a team spent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Cost")]
pub struct CostView {
    /// The total.
    pub total: Spent,
    /// The costs by worker, in name order.
    pub by_worker: Vec<WorkerCost>,
    /// The costs by task, in number order.
    pub by_task: Vec<TaskCost>,
    /// The cumulative costs over time, at most 200 points, the newest last.
    pub over_time: Vec<CostPoint>,
    /// The budget of the run; `null` when there is no run.
    pub budget: Option<BudgetView>,
    /// The tokens that are reserved for running attempts.
    pub reserved_tokens: u64,
    /// The budget that stopped the run.
    pub exhausted: Option<Exhausted>,
}
