//! `teamster state-file init`

use clap::Args;
use teamster_claude::state::{Begin, Model, Op, Pattern, Phase};

use super::apply;
use crate::context::Context;
use crate::error::Result;

/// Begin a session, or enable it again
#[derive(Args, Debug)]
#[command(after_help = "\
A finished state of another session is kept in .bkit/sessions/. While another session is live, this
one gets a file of its own there and is shown when the other one ends.

Examples:
  teamster state-file init --team fix-login --feature login
  teamster state-file init --team fix-login --feature login --phase do --json")]
pub struct Init {
    /// The team
    #[arg(long, value_name = "TEAM")]
    team: String,
    /// What it works on
    #[arg(long, value_name = "FEATURE")]
    feature: String,
    /// Where that stands: plan, design, do, check or act
    #[arg(long, value_name = "PHASE", value_parser = phase)]
    phase: Option<Phase>,
    /// How the team is organised: leader, swarm, council or watchdog
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pattern: Option<Pattern>,
    /// The lead's model: opus, sonnet or haiku
    #[arg(long, value_name = "MODEL", value_parser = model)]
    cto: Option<Model>,
    /// The session [default: none in particular]
    #[arg(long, value_name = "SESSION", default_value = "")]
    session: String,
}

impl Init {
    pub fn run(self, context: &Context) -> Result {
        let begin = Begin {
            team: self.team,
            feature: self.feature,
            phase: self.phase,
            pattern: self.pattern,
            cto: self.cto,
        };
        apply(context, &self.session, Op::Init(begin), |_| {
            "the session is shown as active".to_owned()
        })
    }
}

fn phase(word: &str) -> std::result::Result<Phase, String> {
    // The words of a PDCA status file are understood too.
    match word {
        "pm" | "qa" | "report" | "archived" => Ok(Phase::nearest(word)),
        _ => Phase::parse(word).ok_or_else(|| "expected plan, design, do, check or act".to_owned()),
    }
}

fn pattern(word: &str) -> std::result::Result<Pattern, String> {
    Pattern::parse(word).ok_or_else(|| "expected leader, swarm, council or watchdog".to_owned())
}

pub(super) fn model(word: &str) -> std::result::Result<Model, String> {
    Model::of(word).ok_or_else(|| "expected opus, sonnet or haiku".to_owned())
}
