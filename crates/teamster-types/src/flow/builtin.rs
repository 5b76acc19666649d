//! The built-in flows, as one table.
//!
//! A state has the name that its state file uses: `staged` is `team-state.json`, `party` is `.party/session.json`,
//! `pdca` is the `pdcaPhase` of `agent-state.json`.

use super::Guard::{Finding, Plan, Tasks, Tickets};
use super::StateKind::{Active, Cancelled, Final, Idle, Waiting};
use super::{ANY, Flow, FlowEdge, FlowState, Guard, Round, StateKind};

pub(super) const FLOWS: &[BuiltinFlow] = &[
    BuiltinFlow {
        name: "staged",
        initial: "team-plan",
        states: &[
            ("team-plan", Active),
            ("team-prd", Active),
            ("team-exec", Active),
            ("team-verify", Active),
            ("team-fix", Active),
            ("complete", Final),
            ("failed", Final),
            ("cancelled", Cancelled),
        ],
        edges: &[
            edge("team-plan", "team-prd"),
            edge("team-plan", "team-exec").needs(&[Plan]),
            edge("team-prd", "team-exec").needs(&[Plan]),
            edge("team-exec", "team-verify").needs(&[Tasks]),
            edge("team-verify", "team-fix").begins(Round::Fix, "failed"),
            edge("team-verify", "complete"),
            edge("team-verify", "failed"),
            edge("team-fix", "team-exec").needs(&[Plan]),
            edge("team-fix", "team-verify"),
            edge("team-fix", "complete"),
            edge("team-fix", "failed"),
            edge(ANY, "cancelled"),
            edge("cancelled", "team-plan"),
            edge("cancelled", "team-exec").needs(&[Plan]),
        ],
    },
    BuiltinFlow {
        name: "party",
        initial: "IDLE",
        states: &[
            ("IDLE", Idle),
            ("ANALYZING", Active),
            ("PLANNING", Active),
            ("EXECUTING", Active),
            ("REVIEWING", Active),
            ("AWAITING_APPROVAL", Waiting),
            ("APPROVED", Active),
            ("REJECTED", Active),
            ("REVISION", Active),
            ("DONE", Final),
            ("ROLLED_BACK", Final),
            ("FAILED", Final),
            ("CANCELLED", Cancelled),
        ],
        edges: &[
            edge("IDLE", "ANALYZING"),
            edge("IDLE", "PLANNING"),
            edge("ANALYZING", "PLANNING").needs(&[Finding]),
            edge("PLANNING", "EXECUTING").needs(&[Finding]),
            edge("EXECUTING", "REVIEWING").needs(&[Finding, Tickets]),
            edge("REVIEWING", "AWAITING_APPROVAL").needs(&[Finding, Tickets]),
            edge("REVIEWING", "EXECUTING")
                .needs(&[Finding, Tickets])
                .begins(Round::Fix, "FAILED"),
            edge("AWAITING_APPROVAL", "APPROVED"),
            edge("AWAITING_APPROVAL", "REJECTED"),
            edge("AWAITING_APPROVAL", "REVISION").begins(Round::Revision, "FAILED"),
            edge("REVISION", "ANALYZING"),
            edge("REVISION", "PLANNING"),
            edge("REVISION", "EXECUTING"),
            edge("APPROVED", "DONE"),
            edge("REJECTED", "DONE"),
            edge("REJECTED", "ROLLED_BACK"),
            edge(ANY, "CANCELLED"),
            edge("CANCELLED", "IDLE"),
        ],
    },
    BuiltinFlow {
        name: "pdca",
        initial: "plan",
        states: &[
            ("plan", Active),
            ("design", Active),
            ("do", Active),
            ("check", Active),
            ("act", Active),
            ("end", Final),
        ],
        edges: &[
            edge("plan", "design"),
            edge("design", "do"),
            edge("do", "check"),
            edge("check", "act"),
            edge("check", "do"),
            edge("act", "plan"),
            edge(ANY, "end"),
        ],
    },
];

/// A flow in the form of the table above.
pub(super) struct BuiltinFlow {
    pub(super) name: &'static str,
    initial: &'static str,
    states: &'static [(&'static str, StateKind)],
    edges: &'static [BuiltinEdge],
}

struct BuiltinEdge {
    from: &'static str,
    to: &'static str,
    needs: &'static [Guard],
    round: Option<(Round, &'static str)>,
}

const fn edge(from: &'static str, to: &'static str) -> BuiltinEdge {
    BuiltinEdge {
        from,
        to,
        needs: &[],
        round: None,
    }
}

impl BuiltinEdge {
    const fn needs(self, needs: &'static [Guard]) -> Self {
        Self { needs, ..self }
    }

    const fn begins(self, round: Round, beyond: &'static str) -> Self {
        Self {
            round: Some((round, beyond)),
            ..self
        }
    }
}

impl BuiltinFlow {
    pub(super) fn to_flow(&self) -> Flow {
        Flow {
            name: self.name.to_owned(),
            initial: self.initial.to_owned(),
            states: (self.states.iter())
                .map(|&(name, kind)| FlowState {
                    name: name.to_owned(),
                    kind,
                })
                .collect(),
            edges: (self.edges.iter())
                .map(|row| FlowEdge {
                    from: row.from.to_owned(),
                    to: row.to.to_owned(),
                    needs: row.needs.to_vec(),
                    round: row.round.map(|(round, _)| round),
                    beyond: row.round.map(|(_, beyond)| beyond.to_owned()),
                })
                .collect(),
        }
    }
}
