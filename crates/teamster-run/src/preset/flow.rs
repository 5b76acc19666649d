//! The flow of a preset: the name of a known one, or one that the preset defines itself.

use serde::Deserialize;
use teamster_document::{Fault, Lined, TextOr, Word};
use teamster_types::flow::{Flow, FlowEdge, FlowFault, FlowState};

/// The flow of a run with a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetFlow {
    /// States and steps.
    pub flow: Flow,
    /// The path through the flow that a run is meant to take, where the preset names one.
    pub path: Vec<String>,
}

/// A flow as a table: a name, optionally `path`, and for a flow of the preset's own `initial`, `states` and `edges`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowTable {
    name: Lined<Word>,
    path: Lined<Vec<Lined<Word>>>,
    initial: Lined<String>,
    states: Lined<Vec<Lined<FlowState>>>,
    edges: Lined<Vec<Lined<FlowEdge>>>,
}

impl PresetFlow {
    /// Reads the flow that begins in this line: `flow: NAME`, or a table.
    pub(super) fn of(
        entry: TextOr<FlowTable>,
        line: usize,
        faults: &mut Vec<Fault>,
    ) -> Option<Self> {
        let table = match entry {
            TextOr::Text(name) => {
                return Some(Self {
                    flow: known(&name, line, faults)?,
                    path: Vec::new(),
                });
            }
            TextOr::Table(table) => table,
        };
        if table.name.is_missing() {
            faults.push(Fault::new(line, "`flow` has no `name`"));
        }
        let Word(name) = table.name.value.as_ref()?;
        let is_own =
            !(table.initial.is_missing() && table.states.is_missing() && table.edges.is_missing());
        let flow = if is_own {
            table.own(name, line, faults)?
        } else {
            known(name, table.name.line, faults)?
        };
        let mut path: Vec<String> = Vec::new();
        for (line, Word(state)) in table.path.items() {
            let before = path.last();
            let may = match before {
                None => flow.initial == *state,
                Some(before) => flow.next_states(before).contains(&state.as_str()),
            };
            if !may {
                let message = match before {
                    None => format!("the path begins in {}, not in {state}", flow.initial),
                    Some(before) => format!(
                        "{} does not lead from {before} to {state}; it leads to {}",
                        flow.name,
                        flow.next_states(before).join(", ")
                    ),
                };
                faults.push(Fault::new(line, message));
                return None;
            }
            path.push(state.clone());
        }
        Some(Self { flow, path })
    }
}

fn known(name: &str, line: usize, faults: &mut Vec<Fault>) -> Option<Flow> {
    let flow = Flow::builtin(name);
    if flow.is_none() {
        let names: Vec<&str> = Flow::builtin_names().collect();
        let message = format!("there is no flow {name:?}; there are {}", names.join(", "));
        faults.push(Fault::new(line, message));
    }
    flow
}

impl FlowTable {
    /// Returns a flow that the preset defines itself, which must be valid as a whole.
    fn own(&self, name: &str, line: usize, faults: &mut Vec<Fault>) -> Option<Flow> {
        let missing = [
            ("initial", self.initial.is_missing()),
            ("states", self.states.is_missing()),
            ("edges", self.edges.is_missing()),
        ];
        for (key, _) in missing.iter().filter(|(_, is_missing)| *is_missing) {
            faults.push(Fault::new(line, format!("`flow` has no `{key}`")));
        }
        let (states, edges) = (self.states.value.as_ref()?, self.edges.value.as_ref()?);
        let flow = Flow {
            name: name.to_owned(),
            initial: self.initial.value.clone()?,
            states: states
                .iter()
                .map(|state| state.value.clone())
                .collect::<Option<_>>()?,
            edges: edges
                .iter()
                .map(|edge| edge.value.clone())
                .collect::<Option<_>>()?,
        };
        match flow.check() {
            Ok(()) => Some(flow),
            Err(found) => {
                for fault in found {
                    let line = self.line_of(&fault).unwrap_or(line);
                    faults.push(Fault::new(line, fault.to_string()));
                }
                None
            }
        }
    }

    /// Returns the line of the state or the step that a fault is about.
    fn line_of(&self, fault: &FlowFault) -> Option<usize> {
        match fault {
            FlowFault::TwiceDeclared(name)
            | FlowFault::BadName(name)
            | FlowFault::Unreachable(name)
            | FlowFault::DeadEnd(name) => {
                // Of two states with the same name, the second is the fault.
                let states = self.states.items().filter(|(_, state)| state.name == *name);
                states.last().map(|(line, _)| line)
            }
            FlowFault::UnknownState { from, to, .. }
            | FlowFault::TwiceConnected { from, to }
            | FlowFault::HalfCounted { from, to }
            | FlowFault::LeavesFinal { from, to } => {
                let edges = self.edges.items();
                let edges = edges.filter(|(_, edge)| edge.from == *from && edge.to == *to);
                edges.last().map(|(line, _)| line)
            }
            FlowFault::UnknownInitial(_) | FlowFault::NoFinal => None,
        }
    }
}
