//! Implements `teamster worker answer`.

use clap::{Args, ValueEnum};
use serde_json::json;
use teamster_store::{Outgoing, Recipient};
use teamster_types::json::Object;
use teamster_view::requests;

use super::WorkerSelector;
use crate::context::Context;
use crate::error::{AppError, Result};
use crate::shown::viewed_line;

/// Allow or deny what a worker's agent asks for
///
/// With the setting `permissions.shell` or `permissions.other` at `ask`, the agent waits for this. The request comes as a
/// message to the lead; `worker show` lists those that wait. One that nobody answers is denied at `worker.idle_limit`.
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
    /// What the agent is told
    #[arg(value_enum, value_name = "ANSWER")]
    verdict: PermissionWord,
    /// Why not, in words for the agent
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PermissionWord {
    /// It may
    Allow,
    /// It may not
    Deny,
}

impl WorkerAnswerArgs {
    pub fn run(self, context: &Context) -> Result {
        context.must_be_a_person("answering an agent's request")?;
        let named = self.worker.find(context)?;
        let waiting = requests::waiting(context.read()?, &named.team, named.worker.as_str())?;
        if !waiting.iter().any(|open| open.request == self.request) {
            let open: Vec<String> = waiting
                .iter()
                .map(|open| format!("{} ({})", open.request, viewed_line(&open.what)))
                .collect();
            return Err(AppError::not_found(format!(
                "{} does not wait for an answer to {}",
                named.worker, self.request
            ))
            .hint(match open.as_slice() {
                [] => "it waits for none".to_owned(),
                open => format!("it waits for {}", open.join(", ")),
            }));
        }
        let is_allowed = self.verdict == PermissionWord::Allow;
        let mut extra = Object::new();
        extra.insert("requestId".into(), json!(self.request));
        extra.insert("allow".into(), json!(is_allowed));
        context.store()?.send(
            &named.team,
            &Outgoing {
                from: context.actor.name().to_owned(),
                to: Recipient::Worker(named.worker.to_string()),
                kind: "permission_answer".to_owned(),
                content: self.reason,
                extra,
            },
        )?;
        context.out.answer(
            || json!({ "worker": named.worker, "team": named.team, "request": self.request, "allowed": is_allowed }),
            || {
                let word = if is_allowed { "may" } else { "may not" };
                format!("{} is told that it {word}", named.worker)
            },
        )
    }
}
