//! `teamster worker bridge`: the worker's own process, started by `worker start`

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use teamster_agents::{Permissions, Rule};
use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_isolate::detached;
use teamster_isolate::git::{CommitId, Git, GitError, GitProblem, Repo};
use teamster_store::{FileStore, Store, SystemClock};
use teamster_types::{TeamName, WorkerName};
use teamster_workers::bridge::{self as worker, BridgeError, Setup};
use teamster_workers::record::{Backend, Wanted};
use teamster_workers::seat::Seat;
use teamster_workers::workplace::{InPlace, InWorktree, Workplace};
use teamster_workers::{dead, launch};

use super::wanted as known;
use crate::context::Context;
use crate::env_vars;
use crate::error::{CommandError, ErrorKind, Result};

/// Be a worker's own process
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct Bridge {
    #[arg(long)]
    team: String,
    #[arg(long)]
    name: String,
    #[arg(long)]
    provider: String,
    #[arg(long)]
    model: Option<String>,
    #[arg(long, default_value = "process")]
    backend: String,
    #[arg(long)]
    in_place: bool,
    #[arg(long, default_value_t = 0)]
    restarts: u32,
    /// A file with the environment to begin anew with
    #[arg(long)]
    environment: Option<PathBuf>,
}

impl Bridge {
    pub fn run(self, context: &Context) -> Result {
        if let Some(file) = &self.environment {
            return Err(begin_anew(file));
        }
        let team: TeamName = self.team.parse()?;
        let worker: WorkerName = self.name.parse()?;
        let wanted = Wanted {
            team,
            worker,
            provider: self.provider,
            model: self.model,
            in_place: self.in_place,
            backend: if self.backend == Backend::Tmux.as_str() {
                Backend::Tmux
            } else {
                Backend::Process
            },
        };
        detached::own_session();
        let launch = env_vars::text(env_vars::LAUNCH).unwrap_or_else(teamster_fs::random_hex);
        be(context, wanted, launch, self.restarts)
    }
}

/// In a pane the environment is the terminal server's. Ours is in a file; with it we begin once more.
fn begin_anew(file: &std::path::Path) -> CommandError {
    let environment = match launch::take_environment(file) {
        Ok(environment) => environment,
        Err(error) => return error.into(),
    };
    let mut words = std::env::args_os().skip(1);
    let mut args = Vec::new();
    while let Some(word) = words.next() {
        if word == "--environment" {
            words.next();
        } else {
            args.push(word);
        }
    }
    let terminal = ["TERM", env_vars::TMUX, env_vars::TMUX_PANE];
    let mut all: Vec<_> = environment;
    all.retain(|(name, _)| !terminal.iter().any(|own| name == own));
    all.extend(
        terminal
            .iter()
            .filter_map(|name| Some(((*name).into(), std::env::var_os(name)?))),
    );
    let error = detached::become_program(&launch::own_program(), &args, &all);
    CommandError::new(
        ErrorKind::Failed,
        format!("the worker could not begin: {error}"),
    )
}

/// Is the worker until it is told to stop.
pub fn be(context: &Context, wanted: Wanted, launch: String, restarts: u32) -> Result {
    let provider = known::providers(context)
        .find(&wanted.provider)
        .map_err(|error| {
            CommandError::usage(error.to_string())
                .hint("`teamster worker start --help` shows what can be named")
        })?;
    let project = known::project(context, &wanted.team)?;
    let settings = context.config.store_settings();
    let store = FileStore::open(&context.layout, Arc::new(SystemClock), settings)?;
    let store: Arc<dyn Store> = Arc::new(store);
    // The seat first: the worktree of a worker that runs is nobody else's to make ready.
    let team_folder = known::team_folder(context, &wanted.team)?;
    let seat = Seat::take(&team_folder, &wanted.worker)?
        .ok_or_else(|| known::runs_already(&wanted.team, &wanted.worker))?;
    clear_away(store.as_ref(), &wanted, &project)?;
    let workplace = place(context, &wanted, &project)?;
    let permissions = Permissions {
        shell: if context.config.worker_shell.value {
            Rule::Allow
        } else {
            Rule::Deny
        },
        ..Permissions::default()
    };
    let exported = vec![
        (
            "TEAMSTER_CLAUDE_DIR".into(),
            context.layout.claude.clone().into_os_string(),
        ),
        ("TEAMSTER_PROJECT".into(), project.clone().into_os_string()),
    ];
    let wanted = Wanted {
        model: wanted.model.or(provider.model.clone()),
        ..wanted
    };
    let bridge = worker::Bridge::open(Setup {
        store,
        seat,
        project,
        wanted,
        restarts,
        driver: provider.driver(),
        permissions,
        workplace,
        rules: context.config.rules(),
        launch,
        exported,
        teamster: launch::own_program(),
        say: Box::new(|text| {
            let now = teamster_types::Time::from_millis(now());
            let text = teamster_types::redact::redact(text);
            let text = crate::shown::plain(&text);
            let _ = writeln!(std::io::stdout().lock(), "{now} {text}");
        }),
    });
    bridge
        .and_then(worker::Bridge::run)
        .map_err(|error| match error {
            BridgeError::Store(error) => error.into(),
            BridgeError::Files(error) => error.into(),
            BridgeError::Place(_) => CommandError::refused(error.to_string()),
        })
}

/// Ends what an earlier process of this worker left behind. An agent that lives on would change files under the next one.
fn clear_away(store: &dyn Store, wanted: &Wanted, project: &std::path::Path) -> Result {
    let dir = Dir::open_or_create_root(project)?;
    let machine = Machine::read();
    let buried = dead::succeed(store, &machine, &dir, &wanted.team, &wanted.worker)?;
    match buried.left {
        None => Ok(()),
        Some(still) => Err(CommandError::new(
            ErrorKind::Conflict,
            format!("an earlier launch of {} goes on: {still}", wanted.worker),
        )
        .hint("the system itself holds these processes; look at them with `ps`")),
    }
}

fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.ok()
        .and_then(|now| i64::try_from(now.as_millis()).ok())
        .unwrap_or_default()
}

/// Where the worker works.
fn place(
    context: &Context,
    wanted: &Wanted,
    project: &std::path::Path,
) -> Result<Box<dyn Workplace>> {
    if wanted.in_place {
        return Ok(Box::new(InPlace::new(project.to_owned())));
    }
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let git = Git::find(&path).map_err(no_worktree)?;
    let found = Repo::find(&git, project).map_err(no_worktree)?;
    let config = context.read()?.team(&wanted.team)?;
    let base = config
        .as_object()
        .get("teamster")
        .and_then(|ours| ours.get("base")?.as_str()?.parse::<CommitId>().ok());
    let start = match base {
        // A base that the repository does not have any more is no place to begin at.
        Some(base) => found
            .repo
            .resolve(base.as_str())
            .map_err(no_worktree)?
            .unwrap_or(found.head),
        None => found.head,
    };
    let opened = InWorktree::open(found.repo, &wanted.team, &wanted.worker, start);
    let opened = opened.map_err(no_worktree)?;
    for kept in &opened.kept {
        let kept = crate::shown::plain(kept);
        let _ = writeln!(std::io::stdout().lock(), "{kept}");
    }
    Ok(Box::new(opened.place))
}

fn no_worktree(error: GitError) -> CommandError {
    let hint = match error.problem {
        GitProblem::NoProgram
        | GitProblem::NotRepository
        | GitProblem::Bare
        | GitProblem::NoCommits => format!(
            "{}; or let the worker work in the project's own folder with --in-place",
            error.hint
        ),
        _ => error.hint,
    };
    CommandError::refused(error.message).hint(hint)
}
