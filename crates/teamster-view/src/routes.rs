//! Which worker should get a task, with every worker's score.

use serde::Serialize;
use teamster_store::{ReadStore, Result};
use teamster_types::health::{Limits, Verdict};
use teamster_types::routing::{RoutingCandidate, ScoredCandidate, default_capabilities, rank};
use teamster_types::task::{Status, Task};
use teamster_types::team::{TeamConfig, TeamMember};
use teamster_types::{TeamName, WorkerName};

use crate::workers::{self, WorkerRow};

/// The rating of one worker for a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRoute {
    /// The name of the worker.
    pub worker: WorkerName,
    /// How well its capabilities match what the task needs.
    pub fitness: f64,
    /// The overall score for assigning the task to it.
    pub score: f64,
    /// How many tasks it works on now.
    pub in_progress: u32,
    /// Whether it is idle.
    pub idle: bool,
    /// Why it is excluded from the task.
    pub out: Option<String>,
    /// The calculation of the score, as text.
    pub sum: String,
}

/// Returns the rating of every worker of the team for this task, the best first and the excluded ones last.
pub fn routes(
    read: &dyn ReadStore,
    team: &TeamName,
    config: &TeamConfig,
    task: &Task,
    limits: &Limits,
) -> Result<Vec<WorkerRoute>> {
    let tasks = read.tasks(team)?.tasks;
    let members = config.members();
    let candidates: Vec<RoutingCandidate> = workers::list(read, team, config, limits)?
        .rows
        .iter()
        .filter_map(|row| candidate(row, &members, &tasks))
        .collect();
    let ranked = rank(&task.capabilities(), &candidates);
    Ok(ranked.into_iter().map(WorkerRoute::from).collect())
}

/// Returns the routing candidate for a worker. A teammate whose name is not a valid worker name is never routed to.
fn candidate(row: &WorkerRow, members: &[TeamMember], tasks: &[Task]) -> Option<RoutingCandidate> {
    let held = tasks.iter().filter(|task| {
        task.status() == Status::InProgress && task.owner() == Some(row.name.as_str())
    });
    let in_progress = u32::try_from(held.count()).unwrap_or(u32::MAX);
    let member = members.iter().find(|member| member.name == row.name);
    Some(RoutingCandidate {
        name: row.name.parse().ok()?,
        capabilities: member
            .and_then(|member| member.capabilities.clone())
            .unwrap_or_else(|| {
                let known = default_capabilities(&row.provider);
                known.iter().map(|word| (*word).to_owned()).collect()
            }),
        in_progress,
        idle: in_progress == 0 && row.is_idle(),
        out: matches!(
            row.verdict,
            Verdict::Dead | Verdict::Quarantined | Verdict::Limited
        )
        .then(|| format!("{}: {}", row.verdict, row.evidence.join(", "))),
    })
}

impl From<ScoredCandidate> for WorkerRoute {
    fn from(scored: ScoredCandidate) -> Self {
        Self {
            worker: scored.name,
            fitness: scored.fitness,
            score: scored.score,
            in_progress: scored.in_progress,
            idle: scored.idle,
            out: scored.out,
            sum: scored.sum,
        }
    }
}
