//! Implements `teamster session`: `init` and `status`.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use teamster_fs::{Dir, layout};
use teamster_party::{MAX_ATTEMPTS, NewSession, Party};

use super::{NONE, beside, now, session, session_of};
use crate::context::Context;
use crate::error::{AppError, Result};
use crate::shown::{display_line, redacted};

/// Start and show a session with an approval gate
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster session init --team fix-auth --task \"Fix the login form\"
  teamster session status")]
pub struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    Init(SessionInitArgs),
    Status(SessionStatusArgs),
}

/// Start a session in this project
///
/// A session that has ended is moved to `.party/archive`; an active one only with --force.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster session init --team fix-auth --task \"Fix the login form\"
  teamster session init --team t --task T --members '[{\"name\":\"leader\"}]'
  teamster session init --team fix-auth --task \"Begin anew\" --force")]
struct SessionInitArgs {
    /// The team
    #[arg(long)]
    team: String,
    /// What the session is about
    #[arg(long)]
    task: String,
    /// The members: a JSON list of objects with `name`, `agent` and `role`
    #[arg(long, default_value = "[]", hide_default_value = true)]
    members: String,
    /// Replace an active session
    #[arg(long)]
    force: bool,
}

/// Show the session: its phase, its history and the next possible phases
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster session status
  teamster session status --json")]
struct SessionStatusArgs {
    /// The team, if it has its own session beside the project's
    #[arg(long, value_name = "TEAM")]
    team: Option<String>,
}

impl SessionArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            SessionCommand::Init(command) => command.run(context),
            SessionCommand::Status(command) => command.run(context),
        }
    }
}

impl SessionInitArgs {
    fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("starting a session")?;
        let members: Vec<Value> = serde_json::from_str(&self.members).map_err(|error| {
            AppError::usage(format!("--members is not a JSON list: {error}"))
                .hint(r#"such as [{"name":"leader","agent":"leader-agent","role":"orchestrator"}]"#)
        })?;
        let new = NewSession {
            team: self.team.parse()?,
            task: self.task,
            members,
            max_attempts: MAX_ATTEMPTS,
        };
        let project = Dir::open_or_create_root(&context.layout.project)?;
        let party = Party::make(&project)?;
        let session = party.begin(&new, now(), self.force)?;
        context.out.answer(
            || redacted(json!({ "session": session })),
            || format!("session {} starts in {}", session.id, session.phase),
        )
    }
}

impl SessionStatusArgs {
    fn run(self, context: &Context) -> Result {
        let found = match &self.team {
            Some(team) => session_of(context, &team.parse()?)?,
            None => session(context)?,
        };
        let Some((party, session)) = found else {
            return context
                .out
                .answer(|| json!({ "exists": false }), || NONE.to_owned());
        };
        let others: Vec<Value> = beside(context)?
            .iter()
            .filter(|(_, other)| other.id != session.id)
            .map(|(name, other)| {
                let path = [layout::PARTY, layout::PARTY_SESSIONS, name].join("/");
                json!({ "id": other.id, "team": other.team, "phase": other.phase, "path": path })
            })
            .collect();
        let next = party.next_states(&session)?;
        let findings = party.findings()?;
        let tickets = party.tickets()?;
        context.out.answer(
            || {
                redacted(json!({
                    "exists": true, "id": session.id, "team": session.team, "phase": session.phase,
                    "members_count": session.members.len(), "created_at": session.created_at,
                    "session": session, "active": session.is_active(), "next": next,
                    "findings": findings, "tickets": tickets, "others": others,
                }))
            },
            || {
                let mut text = String::new();
                let _ = writeln!(
                    text,
                    "{}  {}",
                    display_line(&session.id),
                    display_line(&session.phase)
                );
                let _ = writeln!(text, "team  {}", display_line(&session.team));
                let _ = writeln!(text, "task  {}", display_line(&session.task));
                for passed in &session.phase_history {
                    let (phase, reason) = (display_line(&passed.to), display_line(&passed.reason));
                    let _ = writeln!(text, "  {}  {phase:18} {reason}", passed.at);
                }
                let _ = writeln!(text, "next  {}", next.join(", "));
                for other in &others {
                    let told = |key: &str| display_line(other[key].as_str().unwrap_or_default());
                    let (id, phase, path) = (told("id"), told("phase"), told("path"));
                    let _ = writeln!(text, "also  {id}  {phase}  in {path}");
                }
                text
            },
        )
    }
}
