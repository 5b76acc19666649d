//! Implements `teamster status`.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_store::TeamEntry;
use teamster_types::Time;
use teamster_types::team::TeamOrigin;
use teamster_view::status::{TeamStatus, of_entry};

use super::agent::BridgeClient;
use super::worker;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{redacted, say_progress, viewed_line};
use crate::table::Tone;

/// How often `--watch` looks again.
const EVERY: Duration = Duration::from_secs(1);
/// Up and to the left, and everything below gone: the screen is drawn anew without flicker.
const HOME: &str = "\u{1b}[H\u{1b}[J";

/// Show how far the teams of this project are and what needs a person
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster status
  teamster status --all --json
  teamster status --team fix-auth --watch   # until Ctrl-C")]
pub struct StatusArgs {
    /// Only this team
    #[arg(long, value_name = "TEAM", conflicts_with = "all")]
    team: Option<String>,
    /// The teams of every project
    #[arg(long)]
    all: bool,
    /// Look again every second until interrupted
    #[arg(long)]
    watch: bool,
}

impl StatusArgs {
    pub fn run(self, context: &Context) -> Result {
        if let Some(bridge) = BridgeClient::find() {
            return bridge.status(context);
        }
        let mut before = None;
        loop {
            let teams = self.teams(context)?;
            let now = context.read()?.now();
            let changed = before.as_ref() != Some(&teams);
            if changed {
                context.out.answer(
                    || redacted(json!({ "teams": teams })),
                    || self.drawn(&teams, now, context),
                )?;
            }
            if !self.watch {
                return Ok(());
            }
            before = Some(teams);
            std::thread::sleep(EVERY);
        }
    }

    fn teams(&self, context: &Context) -> Result<Vec<TeamStatus>> {
        let read = context.read()?;
        let limits = context.config.limits();
        let status = |entry: &TeamEntry| Ok(of_entry(read, entry, &limits)?);
        if self.all {
            return read.teams()?.iter().map(status).collect();
        }
        if context.names_team(self.team.as_deref()) {
            let team = context.team(self.team.as_deref())?;
            let entry = TeamEntry {
                name: team.as_str().to_owned(),
                config: Ok(read.team(&team)?),
            };
            return Ok(vec![status(&entry)?]);
        }
        context.project_teams()?.iter().map(status).collect()
    }

    fn drawn(&self, teams: &[TeamStatus], now: Time, context: &Context) -> String {
        let colour = context.out.has_colour();
        // Only a terminal has a screen; into a file, one status follows the other.
        let mut text = if self.watch && context.out.is_screen() {
            HOME.to_owned()
        } else {
            String::new()
        };
        if teams.is_empty() {
            let _ = writeln!(
                text,
                "no team works on {}; `teamster team create NAME` makes one",
                context.layout.project.display()
            );
        }
        for (place, team) in teams.iter().enumerate() {
            if place > 0 {
                text.push('\n');
            }
            write_team(&mut text, team, now, colour);
        }
        text
    }
}

fn write_team(text: &mut String, team: &TeamStatus, now: Time, colour: bool) {
    let _ = write!(text, "team {}", viewed_line(&team.name));
    if team.kind == Some(TeamOrigin::Claude) {
        let _ = write!(text, "  of Claude Code, read only");
    }
    if let Some(project) = &team.project {
        let _ = write!(
            text,
            "  {}",
            Tone::Faint.paint(&viewed_line(project), colour)
        );
    }
    let _ = writeln!(text, "\n{}", say_progress(&team.progress));
    if !team.workers.is_empty() {
        text.push('\n');
        text.push_str(&worker::table(&team.workers, now).render(colour));
    }
    if !team.problems.is_empty() {
        text.push('\n');
    }
    for problem in &team.problems {
        let problem_text = format!(
            "{}: {}",
            viewed_line(&problem.about),
            viewed_line(&problem.error)
        );
        let _ = writeln!(text, "{}", Tone::Bad.paint(&problem_text, colour));
    }
    if !team.questions.is_empty() {
        text.push('\n');
    }
    for question in &team.questions {
        let about = question
            .task_id
            .as_ref()
            .map_or_else(String::new, |task| format!(" about task {task}"));
        let words = format!(
            "{} {} asks{about}: {}",
            question.id,
            viewed_line(&question.from),
            viewed_line(&question.text)
        );
        let _ = writeln!(text, "{}", Tone::Notable.paint(&words, colour));
        let _ = writeln!(text, "  {}", question.command(&team.name));
    }
}
