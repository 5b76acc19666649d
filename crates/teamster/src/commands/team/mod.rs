//! Implements `teamster team`: `create`, `join`, `list` and `show` here, `delete` in its own file.

mod delete;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use teamster_app::{START_TEAM, env_vars, recordable};
use teamster_isolate::git::Git;
use teamster_types::TeamName;
use teamster_types::progress::Progress;
use teamster_types::team::{NewMember, NewTeam, TeamConfig};
use teamster_view::model::Viewed;
use teamster_view::teams::{self, TeamListRow};

use self::delete::TeamDeleteArgs;
use crate::context::Context;
use crate::error::{AppError, Result};
use crate::shown::{display_line, say_progress};
use crate::table::{TableCell, TextTable, Tone};

/// Create, show and delete teams
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster team create fix-login --members worker-1,worker-2
  teamster team list")]
pub struct TeamArgs {
    #[command(subcommand)]
    command: TeamCommand,
}

#[derive(Debug, Subcommand)]
enum TeamCommand {
    Create(TeamCreateArgs),
    Join(TeamJoinArgs),
    List(TeamListArgs),
    Show(TeamShowArgs),
    Delete(TeamDeleteArgs),
}

impl TeamArgs {
    /// Whether it removes a team, which must work even with invalid settings.
    pub fn deletes(&self) -> bool {
        matches!(self.command, TeamCommand::Delete(_))
    }

    pub fn run(self, context: &Context) -> Result {
        match self.command {
            TeamCommand::Create(command) => command.run(context),
            TeamCommand::Join(command) => command.run(context),
            TeamCommand::List(command) => command.run(context),
            TeamCommand::Show(command) => command.run(context),
            TeamCommand::Delete(command) => command.run(context),
        }
    }
}

/// Create a team for this project
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster team create fix-login --members worker-1,worker-2
  teamster team create fix-login --description \"Accessible login\" --project .")]
pub struct TeamCreateArgs {
    /// The team's name: 1 to 50 of a-z, 0-9 and `-`
    name: String,
    /// What the team is for
    #[arg(long, default_value = "", hide_default_value = true)]
    description: String,
    /// The project it works on [default: the project of the current folder]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Its initial workers
    #[arg(long, value_name = "WORKERS", value_delimiter = ',')]
    members: Vec<String>,
}

impl TeamCreateArgs {
    pub fn run(self, context: &Context) -> Result {
        let name: TeamName = self.name.parse()?;
        let mut members: Vec<NewMember> = Vec::new();
        for member in &self.members {
            let name = member.parse()?;
            if members.iter().any(|known| known.name == name) {
                return Err(AppError::refused(format!("{name} is named twice"))
                    .hint("each worker has a name of its own"));
            }
            members.push(NewMember {
                name,
                provider: String::new(),
                capabilities: None,
            });
        }
        let project = self.project_folder(context)?;
        let new = NewTeam {
            name,
            description: self.description,
            project: recordable(&project, "the project")?.to_owned(),
            members,
            run: None,
        };
        let base = head_commit(&project);
        let config = context.store()?.create_team(&new, base.as_deref())?;
        context.out.answer(
            || json!({ "team": config.as_object() }),
            || {
                let members: Vec<&str> = new.members.iter().map(|m| m.name.as_str()).collect();
                let with = match members.as_slice() {
                    [] => String::new(),
                    some => format!(" with {}", some.join(", ")),
                };
                format!("created team {} for {}{with}", new.name, new.project)
            },
        )
    }

    fn project_folder(&self, context: &Context) -> Result<PathBuf> {
        let Some(named) = &self.project else {
            return Ok(context.layout.project.clone());
        };
        let missing = || {
            AppError::not_found(format!("there is no folder {}", named.display()))
                .hint("--project takes the folder that the team works on")
        };
        let folder = context
            .absolute(named)
            .canonicalize()
            .map_err(|_| missing())?;
        if folder.is_dir() {
            Ok(folder)
        } else {
            Err(missing())
        }
    }
}

/// Returns the checked-out commit, from which the team's work starts; `None` without git or without a commit.
fn head_commit(project: &Path) -> Option<String> {
    let git = Git::find(&env_vars::get(env_vars::PATH)?).ok()?;
    git.head(project).ok()?.map(|commit| commit.to_string())
}

/// Add a worker to a team, or change the client it drives
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster team join fix-auth worker-3
  teamster team join fix-auth worker-2 --provider codex")]
pub struct TeamJoinArgs {
    /// The team
    #[arg(value_name = "TEAM")]
    name: String,
    /// The worker's name: 1 to 64 of A-Z, a-z, 0-9, `_` and `-`
    worker: String,
    /// The client it drives: claude, codex, gemini, command:…, scripted:…
    #[arg(long, default_value = "", hide_default_value = true)]
    provider: String,
}

impl TeamJoinArgs {
    pub fn run(self, context: &Context) -> Result {
        let team: TeamName = self.name.parse()?;
        let member = NewMember {
            name: self.worker.parse()?,
            provider: self.provider,
            capabilities: None,
        };
        let config = context.store()?.join_team(&team, &member)?;
        context.out.answer(
            || json!({ "team": config.as_object() }),
            || format!("{} is a member of team {team}", member.name),
        )
    }
}

/// List the teams of all projects
#[derive(Args, Debug)]
#[command(after_help = "\
A team is `live` when it shows proof of life: a fresh heartbeat, a running host, or a claim whose
lease has not expired. Without one it is `ended` if its run has finished or no task is left, and
`stale` otherwise.

Examples:
  teamster team list
  teamster team list --json")]
pub struct TeamListArgs {}

impl TeamListArgs {
    pub fn run(self, context: &Context) -> Result {
        let read = context.read()?;
        let rows: Vec<TeamListRow> = context
            .visible_teams()?
            .iter()
            .map(|entry| teams::row(read, entry))
            .collect();
        context.out.answer(
            || json!({ "teams": rows }),
            || {
                if rows.is_empty() {
                    return format!("there are no teams; {START_TEAM}");
                }
                let mut table = TextTable::new(["TEAM", "STATE", "KIND", "MEMBERS", "PROJECT"]);
                for row in &rows {
                    table.row(team_cells(row));
                }
                table.render(context.out.has_colour())
            },
        )
    }
}

fn team_cells(row: &TeamListRow) -> [TableCell; 5] {
    let last = match (&row.problem, &row.project) {
        (Some(problem), _) => {
            TableCell::new(format!("damaged: {}", display_line(problem)), Tone::Bad)
        }
        (None, Some(project)) => display_line(project).into(),
        (None, None) => "".into(),
    };
    [
        display_line(&row.name).into(),
        TableCell::new(row.state.as_str(), tone(row.state)),
        row.kind.map_or("", |kind| kind.as_str()).into(),
        row.members.to_string().into(),
        last,
    ]
}

fn tone(state: Viewed) -> Tone {
    match state {
        Viewed::Live => Tone::Good,
        Viewed::Stale => Tone::Notable,
        Viewed::Ended | Viewed::Inactive => Tone::Faint,
    }
}

/// Show a team's members and progress
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster team show
  teamster team show fix-auth --json")]
pub struct TeamShowArgs {
    /// The team [default: `TEAMSTER_TEAM`, else the only team of this project]
    #[arg(value_name = "TEAM")]
    name: Option<String>,
}

impl TeamShowArgs {
    pub fn run(self, context: &Context) -> Result {
        let team = context.team(self.name.as_deref())?;
        let read = context.read()?;
        let config = read.team(&team)?;
        let (progress, _) = read.progress(&team)?;
        context.out.answer(
            || json!({ "team": config.as_object(), "progress": progress }),
            || {
                let colour = context.out.has_colour();
                team_text(team.as_str(), &config, &progress, colour)
            },
        )
    }
}

fn team_text(name: &str, config: &TeamConfig, progress: &Progress, colour: bool) -> String {
    let mut text = format!("team {name} ({})\n", config.kind().as_str());
    if !config.description().is_empty() {
        let _ = writeln!(text, "{}", display_line(config.description()));
    }
    if let Some(project) = config.project() {
        let _ = writeln!(text, "project {}", display_line(project));
    }
    let _ = writeln!(text, "{}", say_progress(progress));
    let mut table = TextTable::new(["WORKER", "PROVIDER", "BACKEND"]);
    for member in config.members() {
        table.row([
            display_line(&member.name).into(),
            display_line(&member.provider).into(),
            display_line(&member.backend).into(),
        ]);
    }
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table.render(colour));
    }
    text
}
