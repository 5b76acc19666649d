//! Implements `teamster worker join`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use teamster_app::prompts::PromptFiles;
use teamster_app::trust::{self, PlannedStart, UntrustedPolicy};
use teamster_app::workers::{self, JoinRequest};
use teamster_types::WorkerName;
use teamster_workers::record::{WorkerBackend, WorkerLock, WorkerSpec};

use super::bridge;
use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::Result;
use crate::shown::plain_line;

/// Work for a team from this machine, in a clone of its repository
///
/// The team is in a database, given by `TEAMSTER_STORE`, your own settings or --store. The repository is cloned, unless a clone
/// exists; work starts from what the team has merged so far, and each finished task is pushed before it counts.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker join --team fix-auth --repo ssh://build/srv/app   # exits 2
  teamster worker join --team fix-auth --name gpu-1 --provider claude   # exits 2")]
pub struct WorkerJoinArgs {
    /// The repository, as for `git clone`, without a password [default: the run's]
    #[arg(long, value_name = "URL")]
    pub(super) repo: Option<String>,
    /// The worker's name [default: this machine's, with a number]
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Its agent, as for `worker start` [default: the one that most of the team use]
    #[arg(long)]
    pub(super) provider: Option<String>,
    /// The model its agent uses [default: the client's own]
    #[arg(long)]
    pub(super) model: Option<String>,
    /// The folder of the clone [default: named after the repository]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Allow the commands that come with the project; `teamster trust --show` shows them
    #[arg(long)]
    pub(super) trust_project: bool,
    /// Run the worker in this terminal and print what it does; Ctrl-C stops it
    #[arg(long)]
    pub(super) foreground: bool,
    #[command(flatten)]
    pub(super) team: TeamSelector,
}

impl WorkerJoinArgs {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("joining a team")?;
        let name: Option<WorkerName> = self.name.as_deref().map(str::parse).transpose()?;
        let place = workers::join_place(
            context,
            &JoinRequest {
                team: self.team.find(context)?,
                repo: self.repo,
                name,
                provider: self.provider,
                folder: self.dir,
            },
        )?;
        let (app, team) = (&place.app, self.team.find(context)?);
        if WorkerLock::is_taken(&workers::team_folder(app, &team)?, &place.worker)? {
            return Err(workers::runs_already(&team, &place.worker));
        }
        let settings = workers::settings(app, &place.project)?;
        let provider = settings.provider(&place.provider)?;
        let plan = PlannedStart {
            provider: &provider,
            script: None,
            has_worktree: true,
        };
        let unknown = UntrustedPolicy::of_flag(self.trust_project);
        trust::require(app, &settings.layout, &settings.config, &plan, unknown)?;
        PromptFiles::load(&settings.layout)?.check()?;
        workers::check_agent(&provider)?;
        workers::join(app, &team, &place.worker, &provider)?;
        let wanted = WorkerSpec {
            team,
            worker: place.worker.clone(),
            provider: place.provider.clone(),
            model: self.model,
            in_place: false,
            backend: WorkerBackend::Process,
            repo: Some(place.repo.clone()),
        };
        if self.foreground {
            let launch = teamster_fs::random_hex();
            return workers::run_worker(app, wanted, launch, 0, bridge::print_with_time());
        }
        let beat = workers::start(app, &wanted, &place.project, 0)?;
        let project = place.project.display().to_string();
        context.out.answer(
            || {
                json!({
                    "worker": wanted.worker,
                    "team": wanted.team,
                    "provider": provider.name,
                    "project": project,
                    "repo": place.repo,
                    "pid": beat.pid,
                })
            },
            || {
                format!(
                    "{} works for team {} in {} as process {}; `teamster worker logs {}` there shows what it does",
                    wanted.worker,
                    wanted.team,
                    plain_line(&project),
                    beat.pid,
                    wanted.worker
                )
            },
        )
    }
}
