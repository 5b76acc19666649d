//! What several commands need to know about a worker: who it is, how it was started, how to start it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use teamster_agents::scripted::Script;
use teamster_agents::{Provider, ProviderKind};
use teamster_fs::Dir;
use teamster_fs::layout::{self, Layout};
use teamster_isolate::tmux::{Tmux, TmuxError};
use teamster_types::{TeamName, WorkerName};
use teamster_workers::launch::{self, Launcher};
use teamster_workers::record::{self, LaunchRecord};

use crate::cli::TeamArg;
use crate::config::Config;
use crate::context::Context;
use crate::env_vars;
use crate::error::{CommandError, ErrorKind, Result};

/// Which worker of which team.
#[derive(Args, Debug)]
pub struct WorkerArg {
    /// The worker
    #[arg(value_name = "WORKER")]
    pub name: String,
    #[command(flatten)]
    pub team: TeamArg,
}

/// A worker that was named, and its team's project.
pub struct Named {
    pub team: TeamName,
    pub worker: WorkerName,
    pub project: PathBuf,
}

impl WorkerArg {
    /// A worker that was not named on the command line.
    pub fn of(team: &TeamName, worker: &str) -> Self {
        Self {
            name: worker.to_owned(),
            team: TeamArg {
                team: Some(team.as_str().to_owned()),
            },
        }
    }

    /// Who is meant; an error when the team has no such worker.
    pub fn find(&self, context: &Context) -> Result<Named> {
        let team = context.team(self.team.team.as_deref())?;
        let worker: WorkerName = self.name.parse()?;
        let config = context.read()?.team(&team)?;
        let members = config.members();
        if !members.iter().any(|member| member.name == worker.as_str()) {
            let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
            return Err(
                CommandError::not_found(format!("team {team} has no worker {worker}")).hint(
                    match names.as_slice() {
                        [] => {
                            "it has none; `teamster worker start --name NAME` starts one".to_owned()
                        }
                        names => format!("it has {}", names.join(", ")),
                    },
                ),
            );
        }
        Ok(Named {
            project: project(context, &team)?,
            team,
            worker,
        })
    }
}

impl Named {
    /// How it was started, if that is known.
    pub fn record(&self) -> Result<Option<LaunchRecord>> {
        match Dir::open_root(&self.project)? {
            Some(project) => Ok(record::read(&project, &self.team, &self.worker)?),
            None => Ok(None),
        }
    }
}

/// The project that a team works on.
pub fn project(context: &Context, team: &TeamName) -> Result<PathBuf> {
    let config = context.read()?.team(team)?;
    Ok(config
        .project()
        .map_or_else(|| context.layout.project.clone(), PathBuf::from))
}

/// The folder of a team.
pub fn team_folder(context: &Context, team: &TeamName) -> Result<Dir> {
    let missing = || CommandError::not_found(format!("there is no team {team}"));
    let root = Dir::open_root(&context.layout.claude)?.ok_or_else(missing)?;
    let teams = root.child(layout::TEAMS)?.ok_or_else(missing)?;
    teams.child(team.as_str())?.ok_or_else(missing)
}

/// The answer to whoever starts a worker that runs.
pub fn runs_already(team: &TeamName, worker: &WorkerName) -> CommandError {
    CommandError::new(
        ErrorKind::Conflict,
        format!("{worker} of team {team} runs already, in another process"),
    )
    .hint("`teamster worker list` shows it; `teamster worker stop` stops it")
}

/// The settings that hold for a team's project, which need not be the one of the current folder.
pub struct Settings<'a> {
    pub layout: Layout,
    pub config: Cow<'a, Config>,
}

/// Reads them; a value that cannot be used is an error.
pub fn settings<'a>(context: &'a Context, project: &Path) -> Result<Settings<'a>> {
    let settings = unchecked(context, project);
    settings.config.check()?;
    Ok(settings)
}

/// Reads them with defaults for what cannot be used.
fn unchecked<'a>(context: &'a Context, project: &Path) -> Settings<'a> {
    let layout = context.layout.of_project(project);
    let config = if project == context.layout.project {
        Cow::Borrowed(&context.config)
    } else {
        Cow::Owned(Config::load(&layout))
    };
    Settings { layout, config }
}

impl Settings<'_> {
    /// The provider that a word stands for.
    pub fn provider(&self, word: &str) -> Result<Provider> {
        let mut providers = self.config.providers(&self.layout.project);
        providers.named(word).map_err(|error| {
            CommandError::usage(error.to_string())
                .hint("`teamster config show` lists providers of your own; `teamster worker start --help` the others")
        })
    }
}

/// A script with a mistake is told to whoever starts a worker with it, not to the first task it would fail.
pub fn check_script(provider: &Provider) -> Result {
    let ProviderKind::Scripted(file) = &provider.kind else {
        return Ok(());
    };
    match Script::read(file) {
        Ok(_) => Ok(()),
        Err(error) => Err(CommandError::usage(error.to_string())
            .hint("docs/scripted.md shows what a script looks like")),
    }
}

/// Our own tmux server for a project.
pub fn tmux(project: &Path) -> std::result::Result<Tmux, TmuxError> {
    let run_folder = env_vars::get(env_vars::RUN_FOLDER).map(PathBuf::from);
    let socket = layout::tmux_socket(project, run_folder.as_deref());
    Tmux::find(&env_vars::get(env_vars::PATH).unwrap_or_default(), &socket)
}

/// How long a worker may take to make its worktree usable before its heart beats. Whoever only stops workers gets this
/// far with any settings; a worker that begins checks them itself.
pub fn setup_time(context: &Context, project: &Path) -> Duration {
    let settings = unchecked(context, project);
    let config = &settings.config;
    let copies = !config.worktree_link.value.is_empty() && !config.worktree_link_writable.value;
    if copies || !config.worktree_setup.value.is_empty() {
        config.worktree_setup_limit.value
    } else {
        Duration::ZERO
    }
}

/// Starts a worker; what to say when it did not begin.
pub fn start(
    context: &Context,
    wanted: &record::WorkerSpec,
    project: &Path,
    restarts: u32,
) -> Result<teamster_types::heartbeat::Heartbeat> {
    let teamster = launch::own_program();
    let launcher = Launcher {
        store: context.read()?,
        project,
        teamster: &teamster,
        tmux: tmux(project),
        setup: setup_time(context, project),
    };
    launcher.start(wanted, restarts).map_err(|error| {
        let kind = match &error {
            launch::LaunchError::Files(_) | launch::LaunchError::Store(_) => ErrorKind::Unreachable,
            _ => ErrorKind::Failed,
        };
        let hint = "`teamster worker start --foreground` shows what it does";
        CommandError::new(kind, error.to_string()).hint(hint)
    })
}
