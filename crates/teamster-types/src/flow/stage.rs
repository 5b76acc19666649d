//! The engine's stages, and their names in each of the three state files.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use Outcome::{Cancelled, Complete, Failed, Rejected, RolledBack};
use Stage::{Approval, End, Execute, Fix, Plan, Requirements, Revise, Verify};

/// The stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Stage {
    /// Turning the request into tasks.
    Plan,
    /// Clarifying the request; only when it is ambiguous or when the user asks for it.
    Requirements,
    /// Working on the tasks.
    Execute,
    /// Running the checks on the merged work.
    Verify,
    /// Fixing what the checks found.
    Fix,
    /// Making the revision that a person asked for at the gate.
    Revise,
    /// Waiting for a person at the gate.
    Approval,
    /// The run is over.
    End(Outcome),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Approved, and merged into the user's branch.
    Complete,
    /// Rejected at the gate; the work is kept on its branch.
    Rejected,
    /// Rejected at the gate, and the work was rolled back.
    RolledBack,
    /// Given up.
    Failed,
    /// Stopped by a person.
    Cancelled,
}

/// One row of the table: teamster's name for a stage, and its names in the three state files.
struct StageNames {
    stage: Stage,
    word: &'static str,
    staged: &'static str,
    /// The states are passed through in this order, and the run stays in the last one.
    party: &'static [&'static str],
    pdca: &'static str,
}

const fn row(
    stage: Stage,
    word: &'static str,
    staged: &'static str,
    party: &'static [&'static str],
    pdca: &'static str,
) -> StageNames {
    StageNames {
        stage,
        word,
        staged,
        party,
        pdca,
    }
}

#[rustfmt::skip]
const VIEWS: &[StageNames; 12] = &[
    row(Plan,            "plan",         "team-plan",   &["ANALYZING", "PLANNING"],   "plan"),
    row(Requirements,    "requirements", "team-prd",    &["PLANNING"],                "design"),
    row(Execute,         "execute",      "team-exec",   &["EXECUTING"],               "do"),
    row(Verify,          "verify",       "team-verify", &["REVIEWING"],               "check"),
    row(Fix,             "fix",          "team-fix",    &["EXECUTING"],               "act"),
    row(Revise,          "revise",       "team-fix",    &["REVISION", "EXECUTING"],   "act"),
    row(Approval,        "approval",     "team-verify", &["AWAITING_APPROVAL"],       "check"),
    row(End(Complete),   "complete",     "complete",    &["APPROVED", "DONE"],        "act"),
    row(End(Rejected),   "rejected",     "failed",      &["REJECTED", "DONE"],        "act"),
    row(End(RolledBack), "rolled-back",  "failed",      &["REJECTED", "ROLLED_BACK"], "act"),
    row(End(Failed),     "failed",       "failed",      &["FAILED"],                  "act"),
    row(End(Cancelled),  "cancelled",    "cancelled",   &["CANCELLED"],               "act"),
];

impl Stage {
    /// Returns every stage, in the order of the table.
    pub fn all() -> impl Iterator<Item = Stage> {
        VIEWS.iter().map(|row| row.stage)
    }

    /// Returns teamster's name for it, as the journal writes it.
    pub fn as_str(self) -> &'static str {
        self.row().word
    }

    /// Returns its name in `team-state.json`.
    pub fn staged(self) -> &'static str {
        self.row().staged
    }

    /// Returns its names in `session.json`: the states are passed through in this order, and the run stays in the last
    /// one.
    pub fn party(self) -> &'static [&'static str] {
        self.row().party
    }

    /// Returns its name in `pdcaPhase` of `agent-state.json`.
    pub fn pdca(self) -> &'static str {
        self.row().pdca
    }

    fn row(self) -> &'static StageNames {
        let at = match self {
            Plan => 0,
            Requirements => 1,
            Execute => 2,
            Verify => 3,
            Fix => 4,
            Revise => 5,
            Approval => 6,
            End(Complete) => 7,
            End(Rejected) => 8,
            End(RolledBack) => 9,
            End(Failed) => 10,
            End(Cancelled) => 11,
        };
        &VIEWS[at]
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<Stage> for &'static str {
    fn from(stage: Stage) -> Self {
        stage.as_str()
    }
}

/// A word that is not the name of a stage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a stage of a run; a run starts with `plan` and goes on to `execute` and `verify`"
)]
pub struct StageError(String);

impl FromStr for Stage {
    type Err = StageError;

    fn from_str(word: &str) -> Result<Self, StageError> {
        (VIEWS.iter())
            .find(|row| row.word == word)
            .map(|row| row.stage)
            .ok_or_else(|| StageError(word.to_owned()))
    }
}

impl TryFrom<String> for Stage {
    type Error = StageError;

    fn try_from(word: String) -> Result<Self, StageError> {
        word.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Flow, FlowFacts};

    fn flow(name: &str) -> Flow {
        Flow::builtin(name).unwrap()
    }

    #[test]
    fn each_stage_has_its_name_in_every_view() {
        let shown: Vec<String> = Stage::all()
            .map(|stage| {
                let party = stage.party().join(" ");
                format!(
                    "{stage:<12} | {:<11} | {party:<20} | {}",
                    stage.staged(),
                    stage.pdca()
                )
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
    plan         | team-plan   | ANALYZING PLANNING   | plan
    requirements | team-prd    | PLANNING             | design
    execute      | team-exec   | EXECUTING            | do
    verify       | team-verify | REVIEWING            | check
    fix          | team-fix    | EXECUTING            | act
    revise       | team-fix    | REVISION EXECUTING   | act
    approval     | team-verify | AWAITING_APPROVAL    | check
    complete     | complete    | APPROVED DONE        | act
    rejected     | failed      | REJECTED DONE        | act
    rolled-back  | failed      | REJECTED ROLLED_BACK | act
    failed       | failed      | FAILED               | act
    cancelled    | cancelled   | CANCELLED            | act
    ");
        let (staged, party, pdca) = (flow("staged"), flow("party"), flow("pdca"));
        for stage in Stage::all() {
            assert!(staged.kind(stage.staged()).is_some());
            assert!(
                stage
                    .party()
                    .iter()
                    .all(|state| party.kind(state).is_some())
            );
            assert!(pdca.kind(stage.pdca()).is_some());
            assert_eq!(stage.as_str().parse(), Ok(stage));
            let written = serde_json::to_value(stage).unwrap();
            assert_eq!(written, stage.as_str());
            assert_eq!(serde_json::from_value::<Stage>(written).unwrap(), stage);
        }
        assert!("end".parse::<Stage>().is_err());
    }

    /// Every state file follows its own flow during a run; staying in a state is not a step.
    #[test]
    fn a_run_of_the_engine_is_legal_in_every_view() {
        let ends = [
            Outcome::Complete,
            Outcome::Rejected,
            Outcome::RolledBack,
            Outcome::Cancelled,
        ];
        for outcome in ends {
            let run = [
                Plan,
                Requirements,
                Execute,
                Verify,
                Fix,
                Execute,
                Verify,
                Fix,
                Verify,
                Approval,
                Revise,
                Execute,
                Verify,
                Approval,
                End(outcome),
            ];
            let mut facts = FlowFacts {
                findings: ["analyzing", "planning", "executing", "reviewing"]
                    .map(str::to_owned)
                    .into(),
                has_plan: true,
                ..FlowFacts::default()
            };
            let mut staged_at = "team-plan".to_owned();
            let mut party_at = "IDLE".to_owned();
            for stage in run {
                facts.revising = stage == Revise;
                for (flow, at, names) in [
                    (flow("staged"), &mut staged_at, &[stage.staged()][..]),
                    (flow("party"), &mut party_at, stage.party()),
                ] {
                    for name in names {
                        if at != name {
                            *at = flow.step(at, name, &facts).unwrap().to;
                        }
                        assert_eq!(at, name);
                    }
                }
            }
            assert_eq!(staged_at, End(outcome).staged());
            assert_eq!(Some(&party_at.as_str()), End(outcome).party().last());
        }
    }
}
