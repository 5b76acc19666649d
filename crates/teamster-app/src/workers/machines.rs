//! Joins a team from another machine: a clone of the team's repository, and a worker in it.

use std::path::{Path, PathBuf};

use teamster_fs::proc::Machine;
use teamster_fs::{Dir, team_store};
use teamster_isolate::git::{Git, GitError, Repo, SharedRepo, clone_shared};
use teamster_types::team::TeamConfig;
use teamster_types::{TeamName, WorkerName};

use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, Result};

/// The maximum length of the machine's name within the name of a worker.
const LONGEST_HOST: usize = 20;

/// A request to join a team.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// The team.
    pub team: TeamName,
    /// The URL of the repository, if the team does not define it.
    pub repo: Option<String>,
    /// The name of the worker; `None` for one derived from the machine's name.
    pub name: Option<WorkerName>,
    /// The provider of its agent; `None` for the most common one in the team.
    pub provider: Option<String>,
    /// The folder of the clone; `None` for one named after the repository, in the current folder.
    pub folder: Option<PathBuf>,
}

/// A place on this machine where a worker of a team can start.
pub struct JoinedPlace {
    /// The application in the clone.
    pub app: App,
    /// The clone.
    pub project: PathBuf,
    /// Whether it was created now.
    pub is_new: bool,
    /// The repository through which the work is exchanged.
    pub repo: String,
    /// The name of the worker.
    pub worker: WorkerName,
    /// The provider of its agent, as the user would write it.
    pub provider: String,
}

/// Prepares a place for a worker of a team that spans machines. The team must be in a database.
pub fn join_place(app: &App, request: &JoinRequest) -> Result<JoinedPlace> {
    app.must_be_a_person("joining a team")?;
    if app.layout.database.is_none() {
        return Err(AppError::usage(
            "teams kept in files belong to one machine and cannot be joined from another",
        )
        .hint(
            "name the team's database with TEAMSTER_STORE or --store; on the team's own machine use `teamster worker start`",
        ));
    }
    let config = app.read()?.team(&request.team)?;
    let repo = shared_repo(request, &config)?;
    let provider = match &request.provider {
        Some(provider) => provider.clone(),
        None => usual_provider(&config)?,
    };
    let worker = match &request.name {
        Some(name) => name.clone(),
        None => free_name(&config)?,
    };
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let git = Git::find(&path).map_err(refused)?;
    let project = match &request.folder {
        Some(folder) => app.absolute(folder),
        None => usual_folder(app, request, &repo)?,
    };
    let is_new = !project.exists();
    if is_new {
        clone_shared(&git, &repo, &project).map_err(refused)?;
    }
    let found = Repo::find(&git, &project).map_err(refused)?;
    if !is_new {
        let (repo, team) = (&repo, &request.team);
        found.repo.must_be_of_team(repo, team).map_err(refused)?;
    }
    found.repo.exclude_ours().map_err(refused)?;
    let project = found.repo.project().to_owned();
    let app = app.in_project(&project);
    let dir = Dir::open_or_create_root(&project)?;
    team_store::note_store(&dir, &request.team, &app.layout.store_note())?;
    Ok(JoinedPlace {
        app,
        project,
        is_new,
        repo: repo.as_str().to_owned(),
        worker,
        provider,
    })
}

/// Returns the given repository, or the one that the run of the team defines.
fn shared_repo(request: &JoinRequest, config: &TeamConfig) -> Result<SharedRepo> {
    let ours = config.as_object().get("teamster");
    let told = ours.and_then(|ours| ours.get("run")?.get("repo")?.as_str());
    let Some(url) = request.repo.as_deref().or(told) else {
        return Err(AppError::usage(format!(
            "team {} does not say which repository its machines share",
            request.team
        ))
        .hint("name it: --repo ssh://host/path/to/the/project, the address of the project on the machine of the run"));
    };
    SharedRepo::new(url).map_err(refused)
}

/// Returns the provider that most members have.
fn usual_provider(config: &TeamConfig) -> Result<String> {
    let members = config.members();
    let names = members.iter().map(|member| member.provider.as_str());
    let count = |name: &str| names.clone().filter(|other| *other == name).count();
    let usual = names
        .clone()
        .filter(|name| !name.is_empty())
        .max_by_key(|name| count(name));
    usual.map(str::to_owned).ok_or_else(|| {
        AppError::usage("no member of the team names its agent")
            .hint("name one: --provider claude, codex, gemini or command:SHELL COMMAND")
    })
}

/// Returns a name derived from the machine's name that no member has.
fn free_name(config: &TeamConfig) -> Result<WorkerName> {
    let machine = Machine::read();
    let fit = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let host: String = machine
        .me()
        .host
        .chars()
        .map(fit)
        .take(LONGEST_HOST)
        .collect();
    let host = host.trim_matches('-');
    let host = if host.is_empty() { "machine" } else { host };
    let members = config.members();
    let is_taken = |name: &str| members.iter().any(|member| member.name == name);
    let mut names = (1_u32..).map(|number| format!("{host}-{number}"));
    let name = names.find(|name| !is_taken(name)).unwrap_or_default();
    Ok(name.parse()?)
}

/// Returns the current project if it is already a clone for the team, otherwise a folder as git would name it.
fn usual_folder(app: &App, request: &JoinRequest, repo: &SharedRepo) -> Result<PathBuf> {
    let layout = &app.layout;
    if team_store::is_noted(&layout.project, &request.team, &layout.store_note()) {
        return Ok(layout.project.clone());
    }
    let last = repo.as_str().trim_end_matches('/');
    let last = last.rsplit(['/', ':']).next().unwrap_or_default();
    let last = last.trim_end_matches(".git");
    if last.is_empty() || last.starts_with('.') {
        return Err(AppError::usage(format!(
            "the folder for a clone of {repo} cannot be guessed"
        ))
        .hint("name it with --dir"));
    }
    Ok(app.absolute(Path::new(last)))
}

fn refused(error: GitError) -> AppError {
    AppError::refused(error.message).hint(error.hint)
}
