//! Implements `teamster task graph`.

use std::collections::HashMap;
use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use teamster_types::TaskId;
use teamster_view::graph::{self, GraphNode, GraphView};

use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::Result;
use crate::shown::display_line;

/// Show the dependencies between tasks
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task graph
  teamster task graph --format mermaid
  teamster task graph --format dot > tasks.dot")]
pub struct TaskGraphArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// The output format
    #[arg(long, value_enum, default_value_t = GraphFormat::Text)]
    format: GraphFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GraphFormat {
    Text,
    Dot,
    Mermaid,
    Json,
}

impl TaskGraphArgs {
    pub fn run(self, context: &Context) -> Result {
        let team = self.team.find(context)?;
        let mut graph = graph::graph(context.read()?, &team)?;
        for node in &mut graph.nodes {
            node.subject = display_line(&node.subject);
            node.reason = display_line(&node.reason);
        }
        match self.format {
            GraphFormat::Json => context.out.object(&graph),
            GraphFormat::Text => context.out.answer(|| &graph, || text(&graph)),
            GraphFormat::Dot => context.out.answer(|| &graph, || dot(&graph)),
            GraphFormat::Mermaid => context.out.answer(|| &graph, || mermaid(&graph)),
        }
    }
}

/// Formats the graph so that each task is below its last dependency: reading downwards gives an order to work in.
fn text(graph: &GraphView) -> String {
    if graph.nodes.is_empty() {
        return "no tasks".to_owned();
    }
    let mut blockers: HashMap<&TaskId, Vec<&TaskId>> = HashMap::new();
    for edge in &graph.edges {
        blockers.entry(&edge.to).or_default().push(&edge.from);
    }
    let mut text = String::new();
    for (node, depth) in layers(graph, &blockers) {
        let waits: Vec<&str> = blockers
            .get(&node.id)
            .into_iter()
            .flatten()
            .map(|id| id.as_str())
            .collect();
        let after = match waits.as_slice() {
            [] => String::new(),
            some => format!("  ← {}", some.join(", ")),
        };
        let _ = writeln!(
            text,
            "{:indent$}{} [{}] {}{after}",
            "",
            node.id,
            node.state,
            node.subject,
            indent = depth * 2
        );
    }
    if !graph.critical_path.is_empty() {
        let path: Vec<&str> = graph.critical_path.iter().map(TaskId::as_str).collect();
        let _ = writeln!(text, "\nlongest chain left: {}", path.join(" → "));
    }
    text
}

/// Returns nodes by their distance from the start, then by number. Tasks in a cycle, which only a foreign program can
/// make, come last.
fn layers<'a>(
    graph: &'a GraphView,
    blockers: &HashMap<&TaskId, Vec<&TaskId>>,
) -> Vec<(&'a GraphNode, usize)> {
    let mut depth: HashMap<&TaskId, usize> = HashMap::new();
    let mut left: Vec<&GraphNode> = graph.nodes.iter().collect();
    let mut layer = 0;
    while !left.is_empty() {
        let (ready, rest): (Vec<&GraphNode>, Vec<&GraphNode>) = left.iter().partition(|node| {
            let waits = blockers.get(&node.id);
            waits
                .into_iter()
                .flatten()
                .all(|id| depth.contains_key(*id))
        });
        let placed = if ready.is_empty() {
            rest.clone()
        } else {
            ready
        };
        left = if placed.len() == left.len() {
            Vec::new()
        } else {
            rest
        };
        for node in placed {
            depth.insert(&node.id, layer);
        }
        layer += 1;
    }
    let mut nodes: Vec<(&GraphNode, usize)> = graph
        .nodes
        .iter()
        .map(|node| (node, depth.get(&node.id).copied().unwrap_or(0)))
        .collect();
    nodes.sort_by_key(|(node, depth)| (*depth, &node.id));
    nodes
}

fn dot(graph: &GraphView) -> String {
    let mut text =
        String::from("digraph tasks {\n  rankdir=LR;\n  node [shape=box, style=filled];\n");
    for node in &graph.nodes {
        let label = format!("{} {}", node.id, node.subject)
            .replace('\\', "\\\\")
            .replace('"', "\\\"");
        let _ = writeln!(
            text,
            "  \"{}\" [label=\"{label}\", fillcolor=\"{}\"];",
            node.id,
            colour(node.state)
        );
    }
    for edge in &graph.edges {
        let _ = writeln!(text, "  \"{}\" -> \"{}\";", edge.from, edge.to);
    }
    text.push_str("}\n");
    text
}

fn mermaid(graph: &GraphView) -> String {
    let mut text = String::from("graph LR\n");
    for node in &graph.nodes {
        // Entities are the only safe escapes inside a Mermaid label.
        let label: String = format!("{} {}", node.id, node.subject)
            .chars()
            .map(|character| match character {
                '"' | '#' | '<' | '>' | '&' | '`' => format!("#{};", u32::from(character)),
                other => other.to_string(),
            })
            .collect();
        let _ = writeln!(text, "  t{}[\"{label}\"]:::{}", node.id, node.state);
    }
    for edge in &graph.edges {
        let _ = writeln!(text, "  t{} --> t{}", edge.from, edge.to);
    }
    for state in [
        "claimable",
        "waiting",
        "blocked",
        "in_progress",
        "completed",
        "failed",
        "missing",
    ] {
        let _ = writeln!(text, "  classDef {state} fill:{}", colour(state));
    }
    text
}

fn colour(state: &str) -> &'static str {
    match state {
        "completed" => "#d9ead3",
        "in_progress" => "#cfe2f3",
        "claimable" => "#ffffff",
        "waiting" => "#eeeeee",
        _ => "#f4cccc",
    }
}
