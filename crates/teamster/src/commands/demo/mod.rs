//! Implements `teamster demo`.

mod files;
mod messages;
mod studio;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Parser};
use serde_json::json;
use teamster_app::Actor;
use teamster_app::env_vars;
use teamster_fs::layout;
use teamster_isolate::detached::become_program;
use teamster_types::TeamName;
use teamster_workers::launch::own_program;

use super::run::RunArgs;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::output::Output;
use crate::shown::plain;
use messages::DemoMessages;
use studio::DemoStudio;

/// The name of the demo's own team.
const TEAM: &str = "demo";

/// Watch a demo team at work; needs no API key and no network
///
/// Creates a small project with failing tests in a new folder and runs a team on it, as `teamster run` would. A leader plans
/// and answers a worker's question; a task hands its result over to the next one; two workers run into a merge conflict; a
/// check and a reviewer find problems that must be fixed. The agents follow a script instead of calling a model; everything
/// else is real. Studio shows it live. It takes less than a minute, leaves everything in that folder, and prints the
/// equivalent command.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster demo
  teamster demo --dry-run --keep-dir ./try-it")]
pub struct DemoArgs {
    /// A new or empty folder for the demo [default: a new temporary folder]
    #[arg(long, value_name = "DIR")]
    keep_dir: Option<PathBuf>,
    /// Create the project and show the command, but start nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not open Studio
    #[arg(long)]
    no_studio: bool,
    /// Run the team in this folder, which the outer call prepared (internal)
    #[arg(long, value_name = "DIR", hide = true, conflicts_with_all = ["keep_dir", "dry_run"])]
    made: Option<PathBuf>,
}

/// The words of `teamster run`, read as that command reads them.
#[derive(Debug, Parser)]
struct DemoRun {
    #[command(flatten)]
    run: RunArgs,
}

impl DemoArgs {
    pub fn run(self, out: Output) -> Result {
        match &self.made {
            Some(folder) => run_team(out, folder, self.no_studio),
            None => self.make(out),
        }
    }

    fn make(&self, out: Output) -> Result {
        Actor::find()?.must_be_person("running a team")?;
        let current = std::env::current_dir().unwrap_or_default();
        let named = self.keep_dir.as_ref().map(|folder| current.join(folder));
        let folder = files::make(named)?;
        let messages = DemoMessages::new(&folder);
        out.answer(
            || {
                json!({
                    "type": "demo",
                    "folder": folder,
                    "project": messages.project,
                    "command": messages.command,
                    "resume": messages.resume,
                })
            },
            || plain(&messages.beginning(self.dry_run)),
        )?;
        if self.dry_run {
            return Ok(());
        }
        // Workers inherit the environment of this process, so it re-executes itself with the environment that the
        // shown command has.
        std::env::set_current_dir(&messages.project).map_err(|error| {
            AppError::new(
                ErrorKind::Failed,
                format!("{} cannot be entered: {error}", messages.project.display()),
            )
        })?;
        let mut args: Vec<OsString> = vec!["demo".into(), "--made".into(), folder.into()];
        if self.no_studio {
            args.push("--no-studio".into());
        }
        if out.is_json() {
            args.push("--json".into());
        }
        let failed = become_program(&own_program(), &args, &messages.environment());
        Err(AppError::new(
            ErrorKind::Failed,
            format!("teamster could not be started: {failed}"),
        ))
    }
}

/// Runs the team, in the environment that [`DemoArgs::make`] has set.
fn run_team(out: Output, folder: &Path, no_studio: bool) -> Result {
    let context = Context::find_checked(out)?;
    let messages = DemoMessages::new(folder);
    let team: TeamName = TEAM.parse()?;
    let mut args = vec!["teamster".to_owned()];
    args.extend(messages::RUN.iter().map(|word| (*word).to_owned()));
    args.extend(["--team".to_owned(), TEAM.to_owned()]);
    let same = DemoRun::try_parse_from(args)
        .map_err(|error| AppError::new(ErrorKind::Failed, error.to_string()))?;
    let showing = if no_studio {
        None
    } else {
        DemoStudio::begin(&context)?
    };
    same.run.run(&context).map_err(|error| {
        error.hint(format!(
            "everything is in {}; to continue:\n{}",
            folder.display(),
            messages.resume
        ))
    })?;
    let mut report = messages.project.clone();
    report.extend(layout::report_folders(&team));
    report.push(layout::REPORT);
    out.answer(
        || json!({ "type": "demo_ended", "folder": folder, "project": messages.project, "report": report }),
        || plain(&messages.end(&report, showing.is_some())),
    )?;
    if let Some(showing) = showing {
        showing.wait_until_closed(&context);
    }
    Ok(())
}

/// Whether a variable belongs to another team, project or setting. Variables that identify a worker are kept.
fn is_foreign(name: &str) -> bool {
    let is_ours = name.starts_with("TEAMSTER_") || name.starts_with("CLAUDE_");
    is_ours && ![env_vars::WORKER, env_vars::LAUNCH, env_vars::DEBUG].contains(&name)
}
