//! `teamster worker show`

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use teamster_view::{requests, workers};

use super::WorkerArg;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{ago, redacted, viewed_line};

/// Show everything about one worker
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker show worker-1
  teamster worker show worker-1 --json")]
pub struct Show {
    #[command(flatten)]
    worker: WorkerArg,
}

/// So many of the last events are looked through for those of the worker,
const LOOKED_THROUGH: usize = 500;
/// and so many of those are shown.
const SHOWN: usize = 10;

impl Show {
    pub fn run(self, context: &Context) -> Result {
        let named = self.worker.find(context)?;
        let read = context.read()?;
        let config = read.team(&named.team)?;
        let found = workers::list(read, &named.team, &config, &context.config.limits())?;
        let row = found
            .rows
            .into_iter()
            .find(|row| row.name == named.worker.as_str());
        let record = named.record()?;
        let events = read.last_events(&named.team, LOOKED_THROUGH)?.events;
        let name = named.worker.as_str();
        let of_worker = |event: &&teamster_journal::Event| {
            event.actor == name
                || event.data.get("worker").and_then(|who| who.as_str()) == Some(name)
        };
        let mut events: Vec<_> = events.iter().filter(of_worker).rev().take(SHOWN).collect();
        events.reverse();
        let waiting = requests::waiting(read, &named.team, name)?;
        context.out.answer(
            || redacted(json!({ "worker": row, "launch": record, "waiting": waiting, "events": events })),
            || {
                let mut text = String::new();
                if let Some(row) = &row {
                    let now = read.now();
                    let _ = writeln!(text, "{}  {}", viewed_line(&row.name), row.word());
                    let _ = writeln!(
                        text,
                        "  why       {}",
                        viewed_line(&row.evidence.join(", "))
                    );
                    let _ = writeln!(text, "  provider  {}", viewed_line(&row.provider));
                    let _ = writeln!(text, "  status    {}", row.status.unwrap_or("-"));
                    let task = row.current_task_id.as_ref();
                    let _ = writeln!(text, "  task      {}", task.map_or("-", |id| id.as_str()));
                    let _ = writeln!(text, "  seen      {}", ago(now, row.last_poll_at));
                }
                if let Some(record) = &record {
                    let _ = writeln!(text, "  process   {}", record.process.pid);
                    let _ = writeln!(text, "  started   {}", record.started_at);
                    let _ = writeln!(text, "  backend   {}", record.spec.backend.as_str());
                    let _ = writeln!(text, "  restarts  {}", record.restarts);
                }
                for open in &waiting {
                    let what = viewed_line(&open.what);
                    let _ = writeln!(text, "  asks      {what}");
                    let _ = writeln!(
                        text,
                        "            `teamster worker answer {name} {} allow` or `deny`",
                        viewed_line(&open.request)
                    );
                }
                for event in &events {
                    let task = event
                        .task_id
                        .as_ref()
                        .map_or(String::new(), |id| format!(" {id}"));
                    let _ = writeln!(text, "  {} {}{task}", event.ts, viewed_line(&event.kind));
                }
                text
            },
        )
    }
}
