//! `teamster worker list`

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use teamster_types::Time;
use teamster_types::health::Verdict;
use teamster_view::workers::{self, WorkerRow};

use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{ago, redacted, viewed_line};
use crate::table::{Cell, Table, Tone};

/// Show how each worker is, and why that is said
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker list
  teamster worker list --team fix-auth --json")]
pub struct List {
    #[command(flatten)]
    team: TeamArg,
}

impl List {
    pub fn run(self, context: &Context) -> Result {
        let team = context.team(self.team.team.as_deref())?;
        let read = context.read()?;
        let config = read.team(&team)?;
        let found = workers::list(read, &team, &config, &context.config.limits())?;
        context.out.answer(
            || redacted(json!({ "workers": found.rows, "problems": found.problems })),
            || {
                let mut text = if found.rows.is_empty() {
                    format!(
                        "team {team} has no workers; `teamster team join {team} NAME` adds one\n"
                    )
                } else {
                    table(&found.rows, read.now()).render(context.out.has_colour())
                };
                for problem in &found.problems {
                    let _ = writeln!(
                        text,
                        "{} cannot be read: {}",
                        viewed_line(&problem.file),
                        viewed_line(&problem.error)
                    );
                }
                text
            },
        )
    }
}

/// One line for each worker.
pub fn table(rows: &[WorkerRow], now: Time) -> Table {
    let mut table = Table::new([
        "WORKER", "PROVIDER", "VERDICT", "STATUS", "TASK", "SEEN", "EVIDENCE",
    ]);
    for row in rows {
        let task = row.current_task_id.as_ref();
        table.row([
            viewed_line(&row.name).into(),
            viewed_line(&row.provider).into(),
            Cell::new(row.verdict.as_str(), tone(row.verdict)),
            row.status.unwrap_or_default().into(),
            task.map_or("", |id| id.as_str()).into(),
            ago(now, row.last_poll_at).into(),
            Cell::new(viewed_line(&row.evidence.join(", ")), Tone::Faint),
        ]);
    }
    table
}

/// How a verdict is coloured.
fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Healthy => Tone::Good,
        Verdict::AtRisk | Verdict::Silent => Tone::Notable,
        Verdict::Quarantined | Verdict::Hung | Verdict::Dead => Tone::Bad,
        Verdict::Unknown => Tone::Faint,
    }
}
