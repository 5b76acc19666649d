//! Why a step is refused, in words that tell the reader what to do next.

use std::fmt;

use super::{Flow, StateKind};

/// A condition that is not met yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// There is no plan.
    Plan,
    /// A phase has no finding.
    Finding {
        /// The phase, in lower case.
        phase: String,
    },
    /// Tickets are not DONE.
    Tickets {
        /// The ids of these tickets.
        open: Vec<String>,
    },
    /// Some tasks are not settled.
    Tasks {
        /// The number of these tasks.
        open: u32,
    },
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan => f.write_str("there is no plan"),
            Self::Finding { phase } => write!(f, "there is no finding of {phase}"),
            Self::Tickets { open } => write!(f, "not DONE: {}", open.join(", ")),
            Self::Tasks { open: 1 } => f.write_str("1 task is not finished"),
            Self::Tasks { open } => write!(f, "{open} tasks are not finished"),
        }
    }
}

impl Unmet {
    /// Returns the command that adds what is missing, as a sentence.
    fn remedy(&self) -> String {
        match self {
            Self::Plan => "give one with `--plan FILE`".to_owned(),
            Self::Finding { phase } => {
                format!("`teamster finding add {phase} FILE` adds one")
            }
            Self::Tickets { open } => {
                let id = open.first().map_or("ID", String::as_str);
                format!("`teamster ticket update {id} --status DONE` when it is")
            }
            Self::Tasks { .. } => "`teamster task list` shows what is open".to_owned(),
        }
    }
}

/// The reason a step is refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The flow has no such state.
    #[error(
        "the {flow} flow has no state `{state}`; it has {}",
        listed(legal, "and")
    )]
    Unknown {
        /// The flow.
        flow: String,
        /// The unknown name.
        state: String,
        /// The names of its states.
        legal: Vec<String>,
    },
    /// The current state is final.
    #[error("{from} is final in the {flow} flow: no step leaves it; begin a new run")]
    Final {
        /// The flow.
        flow: String,
        /// The final state.
        from: String,
    },
    /// The flow has no such step.
    #[error(
        "the {flow} flow has no step {from} → {to}; from {from} it goes to {}",
        listed(legal, "or")
    )]
    Illegal {
        /// The flow.
        flow: String,
        /// The current state.
        from: String,
        /// The requested state.
        to: String,
        /// The states that can be requested.
        legal: Vec<String>,
    },
    /// The step exists, but a condition is not met.
    #[error("{from} → {to} must wait: {}", said(unmet))]
    Guarded {
        /// The flow.
        flow: String,
        /// The current state.
        from: String,
        /// The requested state.
        to: String,
        /// What is missing.
        unmet: Vec<Unmet>,
        /// The states that can be requested, guards aside.
        legal: Vec<String>,
    },
}

impl StepError {
    /// Returns the states that could be requested instead.
    pub fn legal(&self) -> &[String] {
        match self {
            Self::Unknown { legal, .. }
            | Self::Illegal { legal, .. }
            | Self::Guarded { legal, .. } => legal,
            Self::Final { .. } => &[],
        }
    }

    /// Returns a hint: how to meet the conditions, and which other steps there are.
    pub fn hint(&self) -> String {
        let Self::Guarded {
            to, unmet, legal, ..
        } = self
        else {
            return match self.legal() {
                [] => "`teamster session init` begins a new one".to_owned(),
                legal => format!("legal now: {}", legal.join(", ")),
            };
        };
        let mut hint: Vec<String> = unmet.iter().map(Unmet::remedy).collect();
        let others: Vec<&str> = legal
            .iter()
            .map(String::as_str)
            .filter(|state| state != to)
            .collect();
        if !others.is_empty() {
            hint.push(format!("other steps from here: {}", others.join(", ")));
        }
        hint.join("; ")
    }

    /// Returns what is missing, if the step itself exists.
    pub fn unmet(&self) -> &[Unmet] {
        match self {
            Self::Guarded { unmet, .. } => unmet,
            _ => &[],
        }
    }

    pub(super) fn unknown(flow: &Flow, state: &str) -> Self {
        Self::Unknown {
            flow: flow.name.clone(),
            state: state.to_owned(),
            legal: (flow.states.iter())
                .map(|known| known.name.clone())
                .collect(),
        }
    }

    pub(super) fn illegal(flow: &Flow, from: &str, to: &str) -> Self {
        if flow.kind(from) == Some(StateKind::Final) {
            return Self::Final {
                flow: flow.name.clone(),
                from: from.to_owned(),
            };
        }
        Self::Illegal {
            flow: flow.name.clone(),
            from: from.to_owned(),
            to: to.to_owned(),
            legal: legal(flow, from),
        }
    }

    pub(super) fn guarded(flow: &Flow, from: &str, to: &str, unmet: Vec<Unmet>) -> Self {
        Self::Guarded {
            flow: flow.name.clone(),
            from: from.to_owned(),
            to: to.to_owned(),
            unmet,
            legal: legal(flow, from),
        }
    }
}

fn legal(flow: &Flow, from: &str) -> Vec<String> {
    (flow.next_states(from).into_iter())
        .map(str::to_owned)
        .collect()
}

fn said(unmet: &[Unmet]) -> String {
    let said: Vec<String> = unmet.iter().map(Unmet::to_string).collect();
    said.join("; ")
}

fn listed(names: &[String], last: &str) -> String {
    match names {
        [] => "no other state".to_owned(),
        [only] => only.clone(),
        [most @ .., end] => format!("{} {last} {end}", most.join(", ")),
    }
}
