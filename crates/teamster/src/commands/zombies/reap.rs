//! `teamster zombies reap`

use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_app::gc;
use teamster_gc::zombies::{self, ReapOptions, ZombieKind};

use super::render;
use crate::commands::span;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::redacted;

/// Remove what is over
#[derive(Args, Debug)]
#[command(after_help = "\
Teams go to the trash, where they stay for 7 days: `teamster zombies restore TEAM` brings one
back. Stale locks, temp files of dead processes, heartbeats of dead workers and worktrees of
teams that are gone, if they are clean and merged, are removed. No
team with a sign of life is touched, at no age, nor anything of another user. To find nothing
is no failure.

With --kill, workers of ours that go on without their run or team are ended: each is asked
(SIGTERM), given 5 s, then killed, and only called reaped when it is gone. A worker is ours when
its heartbeat names its pid, start time, boot and pid namespace, and all of them fit the process
that runs. Dead panes of this project's own tmux server are closed. Without --kill both are only
listed. No hook ever does this.

Examples:
  teamster zombies reap
  teamster zombies reap --ttl 7d --dry-run --json
  teamster zombies reap --kill --dry-run")]
pub struct Reap {
    /// From which age on a team without a sign of life is over
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "24h")]
    ttl: Duration,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Also end workers of ours that go on without their run or team, and close dead panes of our tmux server
    #[arg(long)]
    kill: bool,
}

impl Reap {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("removing what is over")?;
        let report = gc::reap(
            context,
            self.ttl,
            ReapOptions {
                dry_run: self.dry_run,
                kill: self.kill,
            },
        )?;
        let kept =
            |done: &zombies::ReapResult| !done.reaped && done.zombie.kind == ZombieKind::Worker;
        if self.kill && !self.dry_run && report.zombies.iter().any(kept) {
            context
                .out
                .remark("--kill ends only what is proven ours; the list says how to end the rest");
        }
        context.out.answer(
            || {
                redacted(json!({
                    "zombies": report.zombies,
                    "purged": report.purged,
                    "problems": report.problems,
                    "killed": report.killed,
                    "dryRun": self.dry_run,
                }))
            },
            || render::done(&report, self.dry_run, context.out.has_colour()),
        )?;
        let failed = report.zombies.iter();
        let failed = failed.filter(|done| done.problem.is_some()).count();
        match failed + report.problems.len() {
            0 => Ok(()),
            count => Err(AppError::new(
                ErrorKind::Failed,
                format!("{count} of these could not be removed"),
            )
            .hint("each line above says why; the rest has been done")),
        }
    }
}
