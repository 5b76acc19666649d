//! Validates a declared flow.

use std::collections::BTreeSet;

use super::{ANY, Flow, StateKind};

/// A fault in a declared flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowFault {
    /// Two states have the same name.
    #[error("state `{0}` is declared twice; give each state its own name")]
    TwiceDeclared(String),
    /// A state has an empty or reserved name.
    #[error("a state cannot be called `{0}`; choose a name that is not empty and not `{ANY}`")]
    BadName(String),
    /// The flow begins in a state that it does not have.
    #[error(
        "the flow begins in `{0}`, which is not one of its states; declare it or begin elsewhere"
    )]
    UnknownInitial(String),
    /// An edge names a state that the flow does not have.
    #[error("the step {from} → {to} names `{unknown}`, which is not one of the states; declare it")]
    UnknownState {
        /// Where the edge begins.
        from: String,
        /// Where it ends.
        to: String,
        /// The name that is not declared.
        unknown: String,
    },
    /// Two edges lead from one state to another.
    #[error("the step {from} → {to} is declared twice; keep one")]
    TwiceConnected {
        /// Where both begin.
        from: String,
        /// Where both end.
        to: String,
    },
    /// A counted edge has no state for used-up rounds, or the other way round.
    #[error("the step {from} → {to} needs both `round` and `beyond`, or neither")]
    HalfCounted {
        /// Where the edge begins.
        from: String,
        /// Where it ends.
        to: String,
    },
    /// An edge leaves a final state.
    #[error("the step {from} → {to} leaves a final state; make `{from}` active or remove the step")]
    LeavesFinal {
        /// The final state.
        from: String,
        /// Where the edge ends.
        to: String,
    },
    /// A state cannot be reached.
    #[error("no step leads to `{0}`; add one or remove the state")]
    Unreachable(String),
    /// A state that is not final cannot be left.
    #[error("`{0}` is not final, and no step leaves it; add a step or make it final")]
    DeadEnd(String),
    /// The flow has no final state.
    #[error("the flow has no final state; add one with kind `final`")]
    NoFinal,
}

pub(super) fn faults(flow: &Flow) -> Vec<FlowFault> {
    let mut faults = Vec::new();
    let mut names = BTreeSet::new();
    for state in &flow.states {
        if state.name == ANY || state.name.trim().is_empty() {
            faults.push(FlowFault::BadName(state.name.clone()));
        }
        if !names.insert(state.name.as_str()) {
            faults.push(FlowFault::TwiceDeclared(state.name.clone()));
        }
    }
    edge_faults(flow, &names, &mut faults);
    if !flow
        .states
        .iter()
        .any(|state| state.kind == StateKind::Final)
    {
        faults.push(FlowFault::NoFinal);
    }
    if !names.contains(flow.initial.as_str()) {
        // Without an initial state no state can be reached: reporting all of them would hide the one thing to fix.
        faults.push(FlowFault::UnknownInitial(flow.initial.clone()));
        return faults;
    }
    let reachable = flow.reachable();
    for state in &flow.states {
        if !reachable.contains(state.name.as_str()) {
            faults.push(FlowFault::Unreachable(state.name.clone()));
        } else if state.kind != StateKind::Final && flow.next_states(&state.name).is_empty() {
            faults.push(FlowFault::DeadEnd(state.name.clone()));
        }
    }
    faults
}

fn edge_faults(flow: &Flow, names: &BTreeSet<&str>, faults: &mut Vec<FlowFault>) {
    let mut pairs = BTreeSet::new();
    for edge in &flow.edges {
        let (from, to) = (edge.from.clone(), edge.to.clone());
        let begins = Some(&edge.from).filter(|from| *from != ANY);
        for name in begins.into_iter().chain([&edge.to]).chain(&edge.beyond) {
            if !names.contains(name.as_str()) {
                faults.push(FlowFault::UnknownState {
                    from: from.clone(),
                    to: to.clone(),
                    unknown: name.clone(),
                });
            }
        }
        if !pairs.insert((&edge.from, &edge.to)) {
            faults.push(FlowFault::TwiceConnected {
                from: from.clone(),
                to: to.clone(),
            });
        }
        if edge.round.is_some() != edge.beyond.is_some() {
            faults.push(FlowFault::HalfCounted {
                from: from.clone(),
                to: to.clone(),
            });
        }
        if flow.kind(&edge.from) == Some(StateKind::Final) {
            faults.push(FlowFault::LeavesFinal { from, to });
        }
    }
}
