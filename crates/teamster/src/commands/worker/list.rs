//! Implements `teamster worker list` and `show`.

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use teamster_app::workers::NamedWorker;
use teamster_store::TeamEntry;
use teamster_types::health::Verdict;
use teamster_types::team::TeamOrigin;
use teamster_types::text::fit;
use teamster_types::{TeamName, Time};
use teamster_view::model::Viewed;
use teamster_view::requests;
use teamster_view::teams::row;
use teamster_view::workers::{WorkerRow, Workers};

use super::WorkerSelector;
use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{ago, display_line, redacted};
use crate::table::{TableCell, TextTable, Tone};

/// The width of the provider column: a command can be long, and its beginning says most.
const PROVIDER_WIDTH: usize = 30;

/// List workers with their states and the evidence for them
#[derive(Args, Debug)]
#[command(after_help = "\
Without --team, teammates of Claude Code whose lead runs in this project are listed, too. Their
team is only read, never written.

Examples:
  teamster worker list
  teamster worker list --team fix-auth --json")]
pub struct WorkerListArgs {
    #[command(flatten)]
    team: TeamSelector,
}

impl WorkerListArgs {
    pub fn run(self, context: &Context) -> Result {
        let (team, beside) = self.teams(context)?;
        let read = context.read()?;
        let mut found = Workers {
            rows: Vec::new(),
            problems: Vec::new(),
        };
        let mut teams = Vec::new();
        for team in std::iter::once(&team).chain(&beside) {
            let more = teamster_app::workers::list(context, team)?;
            teams.extend(more.rows.iter().map(|_| team.as_str()));
            found.rows.extend(more.rows);
            found.problems.extend(more.problems);
        }
        context.out.answer(
            || {
                let mut rows = json!(found.rows);
                for (row, team) in rows.as_array_mut().into_iter().flatten().zip(&teams) {
                    row["team"] = json!(team);
                }
                redacted(json!({ "workers": rows, "problems": found.problems }))
            },
            || {
                let mut text = if found.rows.is_empty() {
                    format!("team {team} has no workers; `teamster worker start` starts one\n")
                } else if beside.is_empty() {
                    table(&found.rows, read.now()).render(context.out.has_colour())
                } else {
                    by_team(&found.rows, &teams, read.now(), context.out.has_colour())
                };
                for problem in &found.problems {
                    let _ = writeln!(
                        text,
                        "{} cannot be read: {}",
                        display_line(&problem.file),
                        display_line(&problem.error)
                    );
                }
                text
            },
        )
    }
}

impl WorkerListArgs {
    /// Returns the selected team, and the live teams of Claude Code beside it.
    fn teams(&self, context: &Context) -> Result<(TeamName, Vec<TeamName>)> {
        let meant = self.team.find(context);
        if context.names_team(self.team.team.as_deref()) {
            return Ok((meant?, Vec::new()));
        }
        let read = context.read()?;
        let entries = context.project_teams()?;
        let is_native = |entry: &&TeamEntry| {
            let config = entry.config.as_ref();
            config.is_ok_and(|config| config.kind() == TeamOrigin::Claude)
        };
        let lives = |entry: &&TeamEntry| row(read, entry).state == Viewed::Live;
        let mut living: Vec<TeamName> = entries
            .iter()
            .filter(is_native)
            .filter(lives)
            .filter_map(|entry| entry.name.parse().ok())
            .collect();
        match meant {
            Ok(team) => {
                living.retain(|other| *other != team);
                Ok((team, living))
            }
            // Only teams of Claude Code, and several of them: select the live ones.
            Err(error) => {
                let has_ours = entries.iter().any(|entry| !is_native(&entry));
                if has_ours || living.is_empty() {
                    return Err(error);
                }
                Ok((living.remove(0), living))
            }
        }
    }
}

/// Returns the state of a worker; `None` when nothing is known about it.
pub(super) fn row_of(context: &Context, named: &NamedWorker) -> Result<Option<WorkerRow>> {
    let found = teamster_app::workers::list(context, &named.team)?;
    let mut rows = found.rows.into_iter();
    Ok(rows.find(|row| row.name == named.worker.as_str()))
}

/// Formats one table for each team, under its name.
fn by_team(rows: &[WorkerRow], teams: &[&str], now: Time, colour: bool) -> String {
    let mut text = String::new();
    let mut from = 0;
    for chunk in teams.chunk_by(|one, other| one == other) {
        if from > 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "team {}", display_line(chunk[0]));
        let rows = &rows[from..from + chunk.len()];
        text.push_str(&table(rows, now).render(colour));
        from += chunk.len();
    }
    text
}

/// Returns a table with one line for each worker.
pub fn table(rows: &[WorkerRow], now: Time) -> TextTable {
    let mut table = TextTable::new([
        "WORKER", "PROVIDER", "VERDICT", "STATUS", "TASK", "SEEN", "EVIDENCE",
    ]);
    for row in rows {
        let task = row.current_task_id.as_ref();
        table.row([
            display_line(&row.name).into(),
            fit(&display_line(&row.provider), PROVIDER_WIDTH).into(),
            TableCell::new(row.word(), tone(row.verdict)),
            row.status.unwrap_or_default().into(),
            task.map_or("", |id| id.as_str()).into(),
            ago(now, row.last_poll_at).into(),
            TableCell::new(display_line(&row.evidence.join(", ")), Tone::Faint),
        ]);
    }
    table
}

/// Returns the colour of a verdict.
fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Healthy => Tone::Good,
        Verdict::AtRisk | Verdict::Limited | Verdict::Silent => Tone::Notable,
        Verdict::Quarantined | Verdict::Hung | Verdict::Dead => Tone::Bad,
        Verdict::Unknown => Tone::Faint,
    }
}

/// Show everything about one worker
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker show worker-1
  teamster worker show worker-1 --json")]
pub struct WorkerShowArgs {
    #[command(flatten)]
    worker: WorkerSelector,
}

/// How many of the last events are searched for the worker's.
const LOOKED_THROUGH: usize = 500;
/// How many of the worker's events are shown.
const SHOWN: usize = 10;

impl WorkerShowArgs {
    pub fn run(self, context: &Context) -> Result {
        let named = self.worker.find(context)?;
        let read = context.read()?;
        let row = row_of(context, &named)?;
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
                    let _ = writeln!(text, "{}  {}", display_line(&row.name), row.word());
                    let _ = writeln!(
                        text,
                        "  why       {}",
                        display_line(&row.evidence.join(", "))
                    );
                    let _ = writeln!(text, "  provider  {}", display_line(&row.provider));
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
                    let what = display_line(&open.what);
                    let _ = writeln!(text, "  asks      {what}");
                    let _ = writeln!(
                        text,
                        "            `teamster worker answer {name} {} allow` or `deny`",
                        display_line(&open.request)
                    );
                }
                for event in &events {
                    let task = event
                        .task_id
                        .as_ref()
                        .map_or(String::new(), |id| format!(" {id}"));
                    let _ = writeln!(text, "  {} {}{task}", event.ts, display_line(&event.kind));
                }
                text
            },
        )
    }
}
