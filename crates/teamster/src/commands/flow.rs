//! Implements `teamster flow show`.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use teamster_types::flow::{self, FlowEdge};

use crate::error::{AppError, Result};
use crate::output::Output;

/// Show the states of a flow and the steps between them
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster flow show party")]
pub struct FlowArgs {
    #[command(subcommand)]
    command: FlowCommand,
}

#[derive(Debug, Subcommand)]
enum FlowCommand {
    Show(FlowShowArgs),
}

/// Draw a flow: its states, its steps and their requirements
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster flow show party
  teamster flow show staged --json
  teamster flow show pdca --format mermaid")]
struct FlowShowArgs {
    /// The flow: staged, party or pdca
    name: String,
    /// The output format
    #[arg(long, value_enum, default_value = "text")]
    format: FlowFormat,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum FlowFormat {
    Text,
    Mermaid,
}

impl FlowArgs {
    pub fn run(self, out: Output) -> Result {
        match self.command {
            FlowCommand::Show(command) => command.run(out),
        }
    }
}

impl FlowShowArgs {
    fn run(self, out: Output) -> Result {
        let Some(flow) = flow::Flow::builtin(&self.name) else {
            let names: Vec<&str> = flow::Flow::builtin_names().collect();
            return Err(
                AppError::not_found(format!("there is no flow {}", self.name))
                    .hint(format!("there are {}", names.join(", "))),
            );
        };
        out.answer(
            || serde_json::json!({ "flow": flow }),
            || match self.format {
                FlowFormat::Text => as_text(&flow),
                FlowFormat::Mermaid => as_mermaid(&flow),
            },
        )
    }
}

fn as_text(flow: &flow::Flow) -> String {
    let width = flow.states.iter().map(|state| state.name.len()).max();
    let width = width.unwrap_or_default();
    let mut text = format!("{}, starts in {}\n", flow.name, flow.initial);
    for state in &flow.states {
        let steps: Vec<String> = flow
            .edges
            .iter()
            .filter(|edge| edge.from == state.name)
            .map(edge_text)
            .collect();
        let steps = match steps.as_slice() {
            [] => "(nothing more)".to_owned(),
            steps => steps.join(", "),
        };
        let _ = writeln!(text, "  {:width$}  → {steps}", state.name);
    }
    for edge in flow.edges.iter().filter(|edge| edge.from == flow::ANY) {
        let _ = writeln!(text, "  any that is under way  → {}", edge_text(edge));
    }
    text
}

/// Returns a step with its requirements, the kind of round it counts as, and the state that follows the last round.
fn edge_text(edge: &FlowEdge) -> String {
    let mut notes: Vec<String> = Vec::new();
    if !edge.needs.is_empty() {
        let needs: Vec<String> = edge
            .needs
            .iter()
            .map(|guard| format!("{guard:?}").to_lowercase())
            .collect();
        notes.push(format!("needs {}", needs.join(" and ")));
    }
    if let Some(round) = edge.round {
        notes.push(round.to_string());
    }
    if let Some(beyond) = &edge.beyond {
        notes.push(format!("then {beyond}"));
    }
    if notes.is_empty() {
        edge.to.clone()
    } else {
        format!("{} ({})", edge.to, notes.join(", "))
    }
}

fn as_mermaid(flow: &flow::Flow) -> String {
    let name = |state: &str| state.replace('-', "_");
    let mut text = format!("stateDiagram-v2\n  [*] --> {}\n", name(&flow.initial));
    for edge in flow.edges.iter().filter(|edge| edge.from != flow::ANY) {
        let _ = writeln!(text, "  {} --> {}", name(&edge.from), name(&edge.to));
    }
    for state in flow
        .states
        .iter()
        .filter(|state| state.kind == flow::StateKind::Final)
    {
        let _ = writeln!(text, "  {} --> [*]", name(&state.name));
    }
    text
}
