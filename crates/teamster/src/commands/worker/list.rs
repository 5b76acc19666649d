//! `teamster worker list`

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use teamster_app::env_vars;
use teamster_store::TeamEntry;
use teamster_types::health::Verdict;
use teamster_types::team::TeamOrigin;
use teamster_types::text::fit;
use teamster_types::{TeamName, Time};
use teamster_view::teams::{TeamState, row};
use teamster_view::workers::{self, WorkerRow, Workers};

use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{ago, redacted, viewed_line};
use crate::table::{Cell, Table, Tone};

/// A command can be long, and says most at its beginning.
const PROVIDER_WIDTH: usize = 30;

/// Show how each worker is, and why that is said
#[derive(Args, Debug)]
#[command(after_help = "\
Without --team, teammates of Claude Code whose lead runs in this project are shown beside the
workers of our team. Nothing is ever written to their team.

Examples:
  teamster worker list
  teamster worker list --team fix-auth --json")]
pub struct List {
    #[command(flatten)]
    team: TeamArg,
}

impl List {
    pub fn run(self, context: &Context) -> Result {
        let (team, beside) = self.teams(context)?;
        let read = context.read()?;
        let limits = context.config.limits();
        let mut found = Workers {
            rows: Vec::new(),
            problems: Vec::new(),
        };
        let mut teams = Vec::new();
        for team in std::iter::once(&team).chain(&beside) {
            let more = workers::list(read, team, &read.team(team)?, &limits)?;
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
                        viewed_line(&problem.file),
                        viewed_line(&problem.error)
                    );
                }
                text
            },
        )
    }
}

impl List {
    /// The team that is meant, and those of Claude Code that live beside it.
    fn teams(&self, context: &Context) -> Result<(TeamName, Vec<TeamName>)> {
        let meant = context.team(self.team.team.as_deref());
        if self.team.team.is_some() || env_vars::get(env_vars::TEAM).is_some() {
            return Ok((meant?, Vec::new()));
        }
        let read = context.read()?;
        let entries = context.project_teams()?;
        let is_native = |entry: &&TeamEntry| {
            let config = entry.config.as_ref();
            config.is_ok_and(|config| config.kind() == TeamOrigin::Claude)
        };
        let lives = |entry: &&TeamEntry| row(read, entry).state == TeamState::Live;
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
            // Several dead ones of Claude Code and living ones: the living are meant.
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

/// One table for each team, under its name.
fn by_team(rows: &[WorkerRow], teams: &[&str], now: Time, colour: bool) -> String {
    let mut text = String::new();
    let mut from = 0;
    for chunk in teams.chunk_by(|one, other| one == other) {
        if from > 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "team {}", viewed_line(chunk[0]));
        let rows = &rows[from..from + chunk.len()];
        text.push_str(&table(rows, now).render(colour));
        from += chunk.len();
    }
    text
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
            fit(&viewed_line(&row.provider), PROVIDER_WIDTH).into(),
            Cell::new(row.word(), tone(row.verdict)),
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
