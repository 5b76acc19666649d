//! `teamster worker resume`

use clap::Args;
use serde_json::json;
use teamster_store::{Outgoing, Recipient};
use teamster_types::health::Verdict;
use teamster_types::json::Object;
use teamster_view::workers;

use super::WorkerArg;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};

/// Let a quarantined worker take tasks again
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker resume worker-1
  teamster worker resume worker-1 --json")]
pub struct Resume {
    #[command(flatten)]
    worker: WorkerArg,
}

impl Resume {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("resuming a worker")?;
        let named = self.worker.find(context)?;
        let read = context.read()?;
        let config = read.team(&named.team)?;
        let found = workers::list(read, &named.team, &config, &context.config.limits())?;
        let row = found
            .rows
            .iter()
            .find(|row| row.name == named.worker.as_str());
        match row.map(|row| row.verdict) {
            Some(Verdict::Quarantined) => {}
            Some(verdict) => {
                return Err(AppError::new(
                    ErrorKind::Conflict,
                    format!("{} is {verdict}, not quarantined", named.worker),
                )
                .hint("`teamster worker list` tells why"));
            }
            None => {
                return Err(AppError::not_found(format!("{} never ran", named.worker)));
            }
        }
        context.store()?.send(
            &named.team,
            &Outgoing {
                from: context.actor.name().to_owned(),
                to: Recipient::Worker(named.worker.to_string()),
                kind: "resume".to_owned(),
                content: String::new(),
                extra: Object::new(),
            },
        )?;
        context.out.answer(
            || json!({ "worker": named.worker, "team": named.team }),
            || format!("{} is told to go on", named.worker),
        )
    }
}
