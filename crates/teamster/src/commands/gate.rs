//! Implements `teamster approve`, `teamster reject` and `teamster revise`, which answer at the gate of a run or of a session.

use clap::Args;
use serde_json::json;
use teamster_app::gate::{self, DecisionOutcome};
use teamster_app::session_gate;
use teamster_journal::payload::GateAnswer;

use super::run;
use crate::cli::{TeamArgument, TeamSelector};
use crate::context::Context;
use crate::error::Result;

/// Which commit is decided on.
#[derive(Args, Debug)]
struct CommitArgument {
    /// The commit to decide on; required without a terminal
    #[arg(long, value_name = "SHA")]
    commit: Option<String>,
}

/// Which gate is meant, where another text stands alone.
#[derive(Args, Debug)]
struct GateSelector {
    #[command(flatten)]
    decided: CommitArgument,
    #[command(flatten)]
    team: TeamSelector,
}

/// Approve the work of a run waiting at the gate and land it on your branch
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster approve   # in a terminal
  teamster approve fix-login --commit 1a2b3c4d   # exits 3")]
pub struct ApproveArgs {
    #[command(flatten)]
    decided: CommitArgument,
    #[command(flatten)]
    team: TeamArgument,
}

/// Reject the work of a run waiting at the gate
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster reject \"too slow\"   # in a terminal
  teamster reject --rollback --team fix-login --commit 1a2b3c4d   # exits 3")]
pub struct RejectArgs {
    /// The reason
    #[arg(value_name = "WHY", default_value = "", hide_default_value = true)]
    why: String,
    /// Delete the team's branch; its commits stay under refs/teamster
    #[arg(long)]
    rollback: bool,
    #[command(flatten)]
    at: GateSelector,
}

/// Request changes to the work of a run waiting at the gate
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster revise \"name it total, not sum\"   # in a terminal
  teamster revise \"add a test\" --team fix-login --commit 1a2b3c4d   # exits 3")]
pub struct ReviseArgs {
    /// What to change
    #[arg(value_name = "WHAT")]
    what: String,
    #[command(flatten)]
    at: GateSelector,
}

impl ApproveArgs {
    pub fn run(self, context: &Context) -> Result {
        let at = GateSelector {
            decided: self.decided,
            team: self.team.selector(),
        };
        decide(context, &at, GateAnswer::Approve)
    }
}

impl RejectArgs {
    pub fn run(self, context: &Context) -> Result {
        let answer = GateAnswer::Reject {
            rollback: self.rollback,
            text: self.why,
        };
        decide(context, &self.at, answer)
    }
}

impl ReviseArgs {
    pub fn run(self, context: &Context) -> Result {
        decide(context, &self.at, gate::revise(&self.what)?)
    }
}

/// Records the decision, and continues as the run's host if it has none.
fn decide(context: &Context, at: &GateSelector, answer: GateAnswer) -> Result {
    context.must_be_a_person("deciding at the gate")?;
    let (named, commit) = (at.team.team.as_deref(), at.decided.commit.as_deref());
    if let Some(decided) = session_gate::decide(context, named, commit, &answer)? {
        let (session, word) = (&decided.session, decided.word);
        return context.out.answer(
            || json!({ "team": session.team, "session": session.id, "commit": decided.commit, "decision": word, "phase": session.phase }),
            || format!("{word}: session {} is in {}\n", session.id, session.phase),
        );
    }
    let team = at.team.find(context)?;
    match gate::decide(context, &team, commit, answer)? {
        DecisionOutcome::Host { spec, lock, reply } => {
            run::host(context, &team, *spec, *lock, Some(reply))
        }
        DecisionOutcome::Applied(judged) => {
            let (word, outcome) = (judged.word, &judged.outcome);
            context.out.answer(
                || json!({ "team": team, "commit": judged.commit, "decision": word, "outcome": outcome }),
                || match outcome {
                    Some(outcome) => format!("{word}: {}\n", outcome.replace('_', " ")),
                    None => format!("{word}; the host of {team} continues\n"),
                },
            )
        }
    }
}
