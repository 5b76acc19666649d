//! What was spent, and on what.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_types::{TaskId, Time};

/// Tokens and money. Tokens are counted in kinds that do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    /// All tokens together: what a budget counts.
    pub tokens: u64,
    /// Read by the model and not from a cache.
    pub input: u64,
    /// Read from a cache.
    pub cached_input: u64,
    /// Written to a cache.
    pub cache_write: u64,
    /// Written by the model, its reasoning included.
    pub output: u64,
    /// In US dollars; `null` when no client told any price.
    pub cost_usd: Option<f64>,
    /// The tokens are a lower bound: a client ended before it told its sum, or told none.
    pub at_least: bool,
    /// The money is a lower bound: the same, or a client told no price.
    pub cost_at_least: bool,
    /// How many times a client told what it used.
    pub reports: u64,
}

/// What a worker spent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WorkerCost {
    /// The name of the worker.
    pub worker: String,
    /// All that it spent.
    pub spent: Spent,
}

/// What was spent on a task.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskCost {
    /// The id of the task; `null` for what belongs to no task.
    pub task_id: Option<TaskId>,
    /// All that was spent on it.
    pub spent: Spent,
}

/// What had been spent at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostPoint {
    /// The moment.
    pub at: Time,
    /// Its place in the journal.
    pub seq: u64,
    /// Tokens up to then.
    pub tokens: u64,
    /// US dollars up to then; `null` when no client had told any price.
    pub cost_usd: Option<f64>,
}

/// What a run may spend; `null` is no limit.
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
    /// How much there was.
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
    /// All of it.
    pub total: Spent,
    /// By worker, in the order of their names.
    pub by_worker: Vec<WorkerCost>,
    /// By task, in the order of their numbers.
    pub by_task: Vec<TaskCost>,
    /// Over time, at most 200 points, the last one the newest.
    pub over_time: Vec<CostPoint>,
    /// What the run may spend; `null` when there is no run.
    pub budget: Option<BudgetView>,
    /// Tokens that are set aside for running attempts.
    pub reserved_tokens: u64,
    /// The budget that stopped the run.
    pub exhausted: Option<Exhausted>,
}
