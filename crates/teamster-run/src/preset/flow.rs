//! The flow of a preset: the name of one that is known, or one of its own.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};
use teamster_types::flow::{Fault as FlowFault, Flow};

use crate::document::form::Form;
use crate::document::{Fault, Node, Value};

const KEYS: [&str; 5] = ["name", "path", "initial", "states", "edges"];

/// Which steps a run with a preset takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetFlow {
    /// States and steps.
    pub flow: Flow,
    /// The way that a run is meant to take, where the preset names one.
    pub path: Vec<String>,
}

impl PresetFlow {
    /// Reads `flow: NAME`, or a table with `name`, and if wanted `path`, and if it is its own `initial`, `states` and
    /// `edges`.
    pub(super) fn read(node: &Node, faults: &mut Vec<Fault>) -> Option<Self> {
        if let Value::Text(name) = &node.value {
            return Some(Self {
                flow: known(name, node.line, faults)?,
                path: Vec::new(),
            });
        }
        let form = Form::new(node, "`flow`", faults)?;
        form.known(&KEYS, faults);
        let name = form.needed("name", faults)?;
        let is_own = ["initial", "states", "edges"]
            .iter()
            .any(|key| form.get(key).is_some());
        let flow = if is_own {
            own(node, faults)?
        } else {
            known(&name.text, name.line, faults)?
        };
        let mut path: Vec<String> = Vec::new();
        for state in form.texts("path", faults) {
            let before = path.last();
            let may = match before {
                None => flow.initial == state.text,
                Some(before) => flow.next_states(before).contains(&state.text.as_str()),
            };
            if !may {
                let message = match before {
                    None => format!("the path begins in {}, not in {}", flow.initial, state.text),
                    Some(before) => format!(
                        "{} does not lead from {before} to {}; it leads to {}",
                        flow.name,
                        state.text,
                        flow.next_states(before).join(", ")
                    ),
                };
                faults.push(Fault::new(state.line, message));
                return None;
            }
            path.push(state.text);
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

/// A flow of the preset's own, which must make sense as a whole.
fn own(node: &Node, faults: &mut Vec<Fault>) -> Option<Flow> {
    let mut value = json(node);
    if let Json::Object(object) = &mut value {
        object.remove("path");
    }
    let flow: Flow = match serde_json::from_value(value) {
        Ok(flow) => flow,
        Err(error) => {
            faults.push(Fault::new(
                node.line,
                format!("the flow cannot be read: {error}"),
            ));
            return None;
        }
    };
    match flow.check() {
        Ok(()) => Some(flow),
        Err(found) => {
            let lines = FlowLines::of(node);
            for fault in found {
                faults.push(Fault::new(lines.line(&fault), fault.to_string()));
            }
            None
        }
    }
}

/// Where the states and steps of a flow stand.
struct FlowLines {
    flow: usize,
    states: HashMap<String, usize>,
    edges: HashMap<(String, String), usize>,
}

impl FlowLines {
    fn of(node: &Node) -> Self {
        let items = |key: &str| match node.get(key).map(|node| &node.value) {
            Some(Value::List(list)) => list.as_slice(),
            _ => &[],
        };
        let text = |node: &Node, key: &str| match node.get(key).map(|node| &node.value) {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        };
        Self {
            flow: node.line,
            states: items("states")
                .iter()
                .map(|state| (text(state, "name"), state.line))
                .collect(),
            edges: items("edges")
                .iter()
                .map(|edge| ((text(edge, "from"), text(edge, "to")), edge.line))
                .collect(),
        }
    }

    fn line(&self, fault: &FlowFault) -> usize {
        let line = match fault {
            FlowFault::TwiceDeclared(name)
            | FlowFault::BadName(name)
            | FlowFault::Unreachable(name)
            | FlowFault::DeadEnd(name) => self.states.get(name),
            FlowFault::UnknownState { from, to, .. }
            | FlowFault::TwiceConnected { from, to }
            | FlowFault::HalfCounted { from, to }
            | FlowFault::LeavesFinal { from, to } => self.edges.get(&(from.clone(), to.clone())),
            FlowFault::UnknownInitial(_) | FlowFault::NoFinal => None,
        };
        line.copied().unwrap_or(self.flow)
    }
}

fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(answer) => Json::Bool(*answer),
        Value::Number(text) | Value::Text(text) => Json::String(text.clone()),
        Value::List(list) => list.iter().map(json).collect(),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, node)| (key.name.clone(), json(node)))
            .collect::<Map<_, _>>()
            .into(),
    }
}
