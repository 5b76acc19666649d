//! `teamster worker restart`

use clap::Args;
use serde_json::json;
use teamster_app::workers;
use teamster_app::workers::StopRequest;

use super::WorkerArg;
use crate::commands::shutdown;
use crate::context::Context;
use crate::error::{AppError, Result};

/// Stop a worker and start it anew, with what it was started with before
///
/// What is in its worktree and not committed is kept aside.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker restart worker-1
  teamster worker restart worker-1 --json")]
pub struct Restart {
    #[command(flatten)]
    worker: WorkerArg,
}

impl Restart {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("starting a worker anew")?;
        let named = self.worker.find(context)?;
        let Some(record) = named.record()? else {
            return Err(AppError::not_found(format!(
                "nobody knows how {} was started",
                named.worker
            ))
            .hint("`teamster worker start` starts it"));
        };
        shutdown::end_workers(
            context,
            StopRequest {
                team: named.team.clone(),
                only: Some(named.worker.clone()),
                drain: false,
                force: false,
                deadline: std::time::Duration::from_secs(60),
            },
        )?;
        let beat = workers::start(context, &record.spec, &named.project, 0)?;
        context.out.answer(
            || json!({ "worker": named.worker, "team": named.team, "pid": beat.pid }),
            || format!("{} works again, as process {}", named.worker, beat.pid),
        )
    }
}
