//! Which stage may follow which.
//!
//! A flow is data: states, the edges between them, and what an edge requires. The three built-in flows are one table in
//! `flow/builtin.rs`; a preset may declare its own in the same shape. [`Flow::check`] reports what is wrong with such a
//! declaration, [`Flow::step`] decides one step, and [`Stage`] maps the stages of the engine to the names in each of
//! the three.
//!
//! An edge from `*` leaves every state in which work goes on (active or waiting); in the built-in flows these edges
//! have no guards, because a person can always stop a run. An edge can be counted as a round; when the rounds are used
//! up, the step enters another state, `beyond`, instead. That is how the fourth fix round becomes a failure.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use serde::{Deserialize, Serialize};

mod builtin;
mod check;
mod refuse;
mod stage;

pub use check::FlowFault;
pub use refuse::{StepError, Unmet};
pub use stage::{Outcome, Stage, StageError};

/// The flow that a run follows: it determines the phases and their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowKind {
    /// The stages of the engine. A flow declared by a preset counts as this one.
    #[default]
    Staged,
    /// A session with an approval gate: a phase is left once it has a finding and its tickets are done.
    Party,
    /// Plan, design, do, check, act, and then another round if the check requires it.
    Pdca,
}

impl FlowKind {
    /// Returns the flow of this name.
    pub fn of(name: &str) -> Self {
        match name {
            "party" => Self::Party,
            "pdca" => Self::Pdca,
            _ => Self::Staged,
        }
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Party => "party",
            Self::Pdca => "pdca",
        }
    }
}

/// The channel of a decision at the gate, or about a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionChannel {
    /// By a person at a terminal.
    Terminal,
    /// By a person in Studio.
    Studio,
    /// By an option of the command that started the run.
    Flag,
}

impl DecisionChannel {
    /// Returns the channel of this name. A name that this version does not know counts as a terminal.
    pub fn of(name: &str) -> Self {
        match name {
            "studio" => Self::Studio,
            "flag" => Self::Flag,
            _ => Self::Terminal,
        }
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Studio => "studio",
            Self::Flag => "flag",
        }
    }
}

/// The `from` of an edge that leaves every state in which work goes on.
pub const ANY: &str = "*";

/// The maximum number of revisions that a person may ask for at the gate.
pub const MAX_REVISIONS: u32 = 3;

/// The meaning of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateKind {
    /// Nothing has begun.
    Idle,
    /// Work goes on.
    Active,
    /// The run waits for a person.
    Waiting,
    /// Stopped, and may be resumed.
    Cancelled,
    /// Over: no step leaves it.
    Final,
}

/// One state of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowState {
    /// Its name, as written in the state file.
    pub name: String,
    /// The meaning of the state.
    pub kind: StateKind,
}

/// A condition that must hold before an edge is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// There is a plan.
    Plan,
    /// The phase that is left has a finding that is not empty.
    Finding,
    /// Every ticket is DONE, if there are any.
    Tickets,
    /// Every task is completed, failed permanently, or blocked by one that is.
    Tasks,
}

/// A kind of round that is counted and limited, so that a run terminates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Round {
    /// A round of fixing after a failed verification.
    Fix,
    /// A revision that a person asked for at the gate.
    Revision,
}

/// A possible step of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowEdge {
    /// The state that is left, or [`ANY`].
    pub from: String,
    /// The state that is entered.
    pub to: String,
    /// The conditions that must hold first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Guard>,
    /// The kind of round that the step begins, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Round>,
    /// The state that is entered instead when the rounds are used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<String>,
}

/// States and the steps between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The name that users know it by.
    pub name: String,
    /// The state it begins in.
    pub initial: String,
    /// Every state.
    pub states: Vec<FlowState>,
    /// Every step.
    pub edges: Vec<FlowEdge>,
}

/// The facts that the guards and counters of a flow depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowFacts {
    /// Phases, in lower case, that have a finding that is not empty.
    pub findings: BTreeSet<String>,
    /// Tickets that are not DONE.
    pub open_tickets: Vec<String>,
    /// Whether there is a plan.
    pub has_plan: bool,
    /// Tasks that are neither completed, nor failed permanently, nor blocked by one that is.
    pub unsettled_tasks: u32,
    /// Fix rounds begun so far.
    pub fix_attempt: u32,
    /// Fix rounds allowed.
    pub max_attempts: u32,
    /// Revisions begun so far.
    pub revisions: u32,
    /// Whether the step is taken because a person asked for a revision: in a flow without a state for that, the step
    /// counts as a revision and not as a fix round.
    pub revising: bool,
}

impl Default for FlowFacts {
    fn default() -> Self {
        Self {
            findings: BTreeSet::new(),
            open_tickets: Vec::new(),
            has_plan: false,
            unsettled_tasks: 0,
            fix_attempt: 0,
            max_attempts: 3,
            revisions: 0,
            revising: false,
        }
    }
}

/// A step that may be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The state that is left.
    pub from: String,
    /// The state that is actually entered.
    pub to: String,
    /// The requested state, if the rounds for it are used up.
    pub instead_of: Option<String>,
    /// The round that the step begins, and its number, counted from 1.
    pub begins: Option<(Round, u32)>,
}

impl Flow {
    /// Returns the flow of this name that teamster comes with: `staged`, `party` or `pdca`.
    pub fn builtin(name: &str) -> Option<Flow> {
        builtin::FLOWS
            .iter()
            .find(|table| table.name == name)
            .map(builtin::BuiltinFlow::to_flow)
    }

    /// Returns the names of the flows that teamster comes with.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        builtin::FLOWS.iter().map(|table| table.name)
    }

    /// Returns the kind of a state; `None` for a state that the flow does not have.
    pub fn kind(&self, state: &str) -> Option<StateKind> {
        self.states
            .iter()
            .find(|known| known.name == state)
            .map(|known| known.kind)
    }

    /// Returns whether a run in this state is under way: active, or waiting for a person.
    pub fn is_active(&self, state: &str) -> bool {
        matches!(
            self.kind(state),
            Some(StateKind::Active | StateKind::Waiting)
        )
    }

    /// Returns the states that can be requested in this one, in the order of the flow's edges.
    pub fn next_states(&self, from: &str) -> Vec<&str> {
        let mut next: Vec<&str> = Vec::new();
        for edge in self.edges.iter().filter(|edge| self.leaves(edge, from)) {
            if !next.contains(&edge.to.as_str()) {
                next.push(&edge.to);
            }
        }
        next
    }

    /// Returns the shortest path from one state to another, guards aside; its last state is `to`. No path leads through
    /// a cancelled or final state.
    pub fn path(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut ways: VecDeque<Vec<&str>> = VecDeque::from([vec![from]]);
        let mut seen = BTreeSet::from([from]);
        while let Some(way) = ways.pop_front() {
            for next in self.next_states(way.last()?) {
                let mut longer = way.clone();
                longer.push(next);
                if next == to {
                    let steps = longer.into_iter().skip(1);
                    return Some(steps.map(str::to_owned).collect());
                }
                let is_over = matches!(
                    self.kind(next),
                    None | Some(StateKind::Cancelled | StateKind::Final)
                );
                if !is_over && seen.insert(next) {
                    ways.push_back(longer);
                }
            }
        }
        None
    }

    /// Decides one step: returns the state that is actually entered, or why the step is refused. Changes nothing.
    pub fn step(&self, from: &str, to: &str, facts: &FlowFacts) -> Result<Step, StepError> {
        for state in [from, to] {
            if self.kind(state).is_none() {
                return Err(StepError::unknown(self, state));
            }
        }
        let Some(edge) = self
            .edges
            .iter()
            .find(|edge| edge.to == to && self.leaves(edge, from))
        else {
            return Err(StepError::illegal(self, from, to));
        };
        let unmet: Vec<Unmet> = edge
            .needs
            .iter()
            .filter_map(|guard| guard.look(from, facts))
            .collect();
        if !unmet.is_empty() {
            return Err(StepError::guarded(self, from, to, unmet));
        }
        Ok(edge.take(from, facts))
    }

    /// Returns everything that is wrong with the flow as declared.
    pub fn check(&self) -> Result<(), Vec<FlowFault>> {
        let faults = check::faults(self);
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults)
        }
    }

    fn leaves(&self, edge: &FlowEdge, from: &str) -> bool {
        edge.from == from || (edge.from == ANY && edge.to != from && self.is_active(from))
    }

    /// Returns the reachable states.
    fn reachable(&self) -> BTreeSet<&str> {
        let mut seen = BTreeSet::from([self.initial.as_str()]);
        let mut open = VecDeque::from([self.initial.as_str()]);
        while let Some(state) = open.pop_front() {
            for edge in self.edges.iter().filter(|edge| self.leaves(edge, state)) {
                for next in std::iter::once(&edge.to).chain(&edge.beyond) {
                    if seen.insert(next) {
                        open.push_back(next);
                    }
                }
            }
        }
        seen
    }
}

impl FlowEdge {
    /// Returns the step along this edge, assuming that its guards hold.
    fn take(&self, from: &str, facts: &FlowFacts) -> Step {
        let mut step = Step {
            from: from.to_owned(),
            to: self.to.clone(),
            instead_of: None,
            begins: None,
        };
        let Some(round) = self.round else {
            return step;
        };
        let round = if facts.revising {
            Round::Revision
        } else {
            round
        };
        let (begun, allowed) = match round {
            Round::Fix => (facts.fix_attempt, facts.max_attempts),
            Round::Revision => (facts.revisions, MAX_REVISIONS),
        };
        match &self.beyond {
            Some(beyond) if begun >= allowed => {
                step.instead_of = Some(std::mem::replace(&mut step.to, beyond.clone()));
            }
            _ => step.begins = Some((round, begun.saturating_add(1))),
        }
        step
    }
}

impl Guard {
    /// Returns what is missing before `from` may be left, if anything.
    fn look(self, from: &str, facts: &FlowFacts) -> Option<Unmet> {
        match self {
            Self::Plan => (!facts.has_plan).then_some(Unmet::Plan),
            Self::Finding => {
                let phase = from.to_lowercase();
                (!facts.findings.contains(&phase)).then_some(Unmet::Finding { phase })
            }
            Self::Tickets => (!facts.open_tickets.is_empty()).then(|| Unmet::Tickets {
                open: facts.open_tickets.clone(),
            }),
            Self::Tasks => (facts.unsettled_tasks > 0).then_some(Unmet::Tasks {
                open: facts.unsettled_tasks,
            }),
        }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fix => "fix round",
            Self::Revision => "revision",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.from, self.to)?;
        if let Some(asked) = &self.instead_of {
            write!(f, " (no round of {asked} is left)")?;
        }
        if let Some((round, number)) = self.begins {
            write!(f, " ({round} {number})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
