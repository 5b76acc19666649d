//! Implements `teamster worker answer`.

use clap::{Args, ValueEnum};
use serde_json::json;
use teamster_app::permissions::{self, PermissionAnswer};

use super::WorkerSelector;
use crate::context::Context;
use crate::error::Result;

/// Allow or deny a permission request of a worker's agent
///
/// With the setting `permissions.shell` or `permissions.other` set to `ask`, the agent waits for this. The request is sent as
/// a message to the lead; `worker show` lists open ones. A request without an answer is denied at `worker.idle_limit`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker answer worker-1 4f0c9a allow                   # exits 3
  teamster worker answer worker-1 4f0c9a deny --reason \"offline\"   # exits 3")]
pub struct WorkerAnswerArgs {
    #[command(flatten)]
    worker: WorkerSelector,
    /// The request's id
    request: String,
    /// Your decision
    #[arg(value_enum, value_name = "ANSWER")]
    verdict: PermissionWord,
    /// The reason for a denial, passed on to the agent
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PermissionWord {
    /// Allow it
    Allow,
    /// Deny it
    Deny,
}

impl WorkerAnswerArgs {
    pub fn run(self, context: &Context) -> Result {
        context.must_be_a_person("answering an agent's request")?;
        let named = self.worker.find(context)?;
        let is_allowed = self.verdict == PermissionWord::Allow;
        let decision = PermissionAnswer {
            allow: is_allowed,
            reason: self.reason,
        };
        permissions::answer(
            context,
            &named.team,
            &named.worker,
            &self.request,
            None,
            &decision,
        )?;
        context.out.answer(
            || json!({ "worker": named.worker, "team": named.team, "request": self.request, "allowed": is_allowed }),
            || {
                let word = if is_allowed { "allowed" } else { "denied" };
                format!("{word} for {}", named.worker)
            },
        )
    }
}
