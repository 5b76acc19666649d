//! Implements `teamster status`.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_app::START_TEAM;
use teamster_journal::payload::RunEnd;
use teamster_store::TeamEntry;
use teamster_types::Time;
use teamster_view::model::TeamKind;
use teamster_view::status::{
    ProblemKind, TeamProblem, TeamStatus, add_session, of_entry, of_session,
};

use super::agent::BridgeClient;
use super::worker;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{display_line, redacted, say_progress};
use crate::table::Tone;

/// The refresh interval of `--watch`.
const EVERY: Duration = Duration::from_secs(1);
/// Moves the cursor to the top left and clears everything below, which redraws the screen without flicker.
const HOME: &str = "\u{1b}[H\u{1b}[J";

/// Show the progress of this project's teams and what needs your attention
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
    /// Show the teams of all projects
    #[arg(long)]
    all: bool,
    /// Refresh every second until interrupted
    #[arg(long)]
    watch: bool,
}

impl StatusArgs {
    pub fn run(self, context: &Context) -> Result {
        if let Some(bridge) = BridgeClient::find(context, self.team.as_deref())? {
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
                    || self.render(&teams, now, context),
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
        let status = |entry: &TeamEntry| {
            let mut status = of_entry(read, entry, &limits)?;
            if let Some(session) = context.session_of(entry)? {
                add_session(&mut status, &session);
            }
            Ok(status)
        };
        if self.all {
            return context.visible_teams()?.iter().map(status).collect();
        }
        if context.names_team(self.team.as_deref()) {
            let team = context.team(self.team.as_deref())?;
            let entry = TeamEntry {
                name: team.as_str().to_owned(),
                config: Ok(read.team(&team)?),
            };
            return Ok(vec![status(&entry)?]);
        }
        let entries = context.project_teams()?;
        let mut teams: Vec<TeamStatus> = entries.iter().map(status).collect::<Result<_>>()?;
        teams.extend(context.sessions_besides(&entries)?.iter().map(of_session));
        Ok(teams)
    }

    fn render(&self, teams: &[TeamStatus], now: Time, context: &Context) -> String {
        let colour = context.out.has_colour();
        // Only a terminal has a screen; in a file, the statuses follow each other.
        let mut text = if self.watch && context.out.is_screen() {
            HOME.to_owned()
        } else {
            String::new()
        };
        if teams.is_empty() {
            let _ = writeln!(
                text,
                "no team works on {}; {START_TEAM}",
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

/// Returns the stage of a team's run, or how the run ended, in the terms of the engine and of its flow.
fn stage_text(stage: &str, team: &TeamStatus) -> String {
    let now = match &team.run.finished {
        Some(finished) if finished.end() == Some(RunEnd::Complete) => {
            "the run is complete".to_owned()
        }
        Some(finished) => format!("the run has ended: {}", finished.words()),
        None => format!("stage {stage}"),
    };
    match &team.phase {
        Some(phase) => format!(
            "{now}; {} of the flow {}, round {}",
            phase.phase, phase.flow, phase.round
        ),
        None => now,
    }
}

fn write_team(text: &mut String, team: &TeamStatus, now: Time, colour: bool) {
    let _ = write!(text, "team {}", display_line(&team.name));
    match team.kind {
        Some(TeamKind::Claude) => text.push_str("  of Claude Code, read only"),
        Some(TeamKind::StateFile) => text.push_str("  known by its state file only"),
        Some(TeamKind::Teamster) | None => {}
    }
    if let Some(project) = &team.project {
        let _ = write!(
            text,
            "  {}",
            Tone::Faint.paint(&display_line(project), colour)
        );
    }
    let _ = writeln!(text, "\n{}", say_progress(&team.progress));
    if let Some(stage) = &team.stage {
        let _ = writeln!(text, "{}", display_line(&stage_text(stage, team)));
    }
    let wanted = decisions_text(team, colour);
    if !wanted.is_empty() {
        let _ = write!(text, "\n{wanted}");
    }
    if !team.workers.is_empty() {
        text.push('\n');
        text.push_str(&worker::table(&team.workers, now).render(colour));
    }
    let others = team.problems.iter().filter(|it| !is_decision(it));
    for (place, problem) in others.enumerate() {
        if place == 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "{}", Tone::Bad.paint(&problem_text(problem), colour));
    }
}

/// Returns what a person has to decide or answer, each with the command for it.
fn decisions_text(team: &TeamStatus, colour: bool) -> String {
    let mut text = String::new();
    for problem in team.problems.iter().filter(|it| is_decision(it)) {
        let _ = writeln!(text, "{}", Tone::Bad.paint(&problem_text(problem), colour));
    }
    for question in &team.questions {
        // A person may also answer a question to the leader; the first answer counts.
        let whose = if question.is_for_person() {
            String::new()
        } else {
            " (the leader is asked; you can answer, too)".to_owned()
        };
        let words = format!("{} {}{whose}", question.id, display_line(&question.words()));
        let _ = writeln!(text, "{}", Tone::Notable.paint(&words, colour));
        let _ = writeln!(text, "  {}", question.command(&team.name));
    }
    for request in &team.requests {
        let words = display_line(&request.words());
        let _ = writeln!(text, "{}", Tone::Notable.paint(&words, colour));
        let command = display_line(&request.request.command);
        let _ = writeln!(text, "  {command}   # or deny");
    }
    text
}

fn is_decision(problem: &TeamProblem) -> bool {
    matches!(problem.kind, ProblemKind::Approval | ProblemKind::Plan)
}

fn problem_text(problem: &TeamProblem) -> String {
    format!(
        "{}: {}",
        display_line(&problem.about),
        display_line(&problem.error)
    )
}
