//! The dependency graph of a team's tasks.

use std::collections::BTreeMap;

use serde::Serialize;
use teamster_store::{ReadStore, Result};
use teamster_types::graph::critical_path;
use teamster_types::task::Task;
use teamster_types::{TaskId, TeamName};

use crate::tasks::{self, TaskView};

/// The dependency graph of a team.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphView {
    /// Every task, and every nonexistent blocker that another program named.
    pub nodes: Vec<GraphNode>,
    /// The dependencies: `to` waits for `from`.
    pub edges: Vec<GraphEdge>,
    /// The longest chain of tasks that are not completed.
    pub critical_path: Vec<TaskId>,
}

/// One task of the graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GraphNode {
    /// Its id.
    pub id: TaskId,
    /// The subject of the task.
    pub subject: String,
    /// The status in the task file; `None` for a task that does not exist.
    pub status: Option<&'static str>,
    /// Its state; `missing` when it does not exist.
    pub state: &'static str,
    /// The reason for that state.
    pub reason: String,
    /// The owner of the task.
    pub owner: Option<String>,
}

/// One dependency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GraphEdge {
    /// The blocker.
    pub from: TaskId,
    /// The waiting task.
    pub to: TaskId,
}

/// Returns the dependency graph of a team's tasks.
pub fn graph(read: &dyn ReadStore, team: &TeamName) -> Result<GraphView> {
    Ok(of(&tasks::list(read, team)?.tasks))
}

fn of(views: &[TaskView]) -> GraphView {
    let mut nodes: BTreeMap<TaskId, GraphNode> = views
        .iter()
        .map(|view| (view.task().id().clone(), node(view)))
        .collect();
    let mut edges = Vec::new();
    for view in views {
        let to = view.task().id();
        for from in view.task().blocked_by() {
            nodes.entry(from.clone()).or_insert_with(|| missing(from));
            edges.push(GraphEdge {
                from: from.clone(),
                to: to.clone(),
            });
        }
    }
    let tasks: Vec<Task> = views.iter().map(|view| view.task().clone()).collect();
    GraphView {
        nodes: nodes.into_values().collect(),
        edges,
        critical_path: critical_path(&tasks),
    }
}

fn node(view: &TaskView) -> GraphNode {
    let task = view.task();
    GraphNode {
        id: task.id().clone(),
        subject: task.subject().to_owned(),
        status: Some(task.status().as_str()),
        state: view.state().as_str(),
        reason: view.reason().to_owned(),
        owner: task.owner().map(str::to_owned),
    }
}

fn missing(id: &TaskId) -> GraphNode {
    GraphNode {
        id: id.clone(),
        subject: String::new(),
        status: None,
        state: "missing",
        reason: "no such task".to_owned(),
        owner: None,
    }
}
