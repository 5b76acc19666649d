//! The context of a use case: paths, the caller, the settings, the store, and the selected team.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use teamster_fs::layout::Layout;
use teamster_store::{ReadStore, Store, TeamEntry};
use teamster_types::TeamName;
use teamster_types::team::{TeamConfig, TeamOrigin};
use teamster_view::model::{Sessions, TeamView, run_now};

use crate::actor::{Actor, BridgeIdentity, reserved_for_people};
use crate::config::Config;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};

/// The store given on the command line of this process.
static NAMED_STORE: OnceLock<String> = OnceLock::new();

/// The hint for a project without a team.
pub const START_TEAM: &str = "start one: `teamster run 2:claude \"…\"`";

/// A function that shows a person a text followed by a question, and returns whether they clearly said yes.
pub type Confirm = fn(text: &str, question: &'static str) -> bool;

/// The context of a use case. Creating one accesses nothing but settings files.
pub struct App {
    /// The paths of the project and the user.
    pub layout: Layout,
    /// The settings.
    pub config: Config,
    /// The caller.
    pub actor: Actor,
    /// How to ask the caller something; `None` when no person is at a terminal.
    pub confirm: Option<Confirm>,
    current: PathBuf,
    /// The only team that an agent may use: that of the bridge it runs below.
    own_team: Option<TeamName>,
    store: OnceCell<Arc<dyn Store>>,
}

impl App {
    /// Creates the context from the environment and the current folder. Invalid settings are listed in
    /// [`Config::problems`].
    pub fn find() -> Result<Self> {
        let current = std::env::current_dir().map_err(|error| {
            AppError::new(
                ErrorKind::Unreachable,
                format!("the current folder cannot be found: {error}"),
            )
            .hint("change into a folder that exists")
        })?;
        let layout = Layout::find(|name| std::env::var_os(name), &current)?;
        let config = Config::load(&layout);
        let mut app = Self {
            config,
            actor: Actor::find()?,
            own_team: BridgeIdentity::find().map(|bridge| bridge.team.clone()),
            confirm: None,
            layout,
            current,
            store: OnceCell::new(),
        };
        // An invalid store is reported when it is needed.
        let chosen = app.choose_store().ok();
        app.layout.database = chosen.and_then(|chosen| chosen.database());
        Ok(app)
    }

    /// Creates the context for the page, which this process serves to the person who opened it.
    pub fn find_for_page() -> Result<Self> {
        let mut app = Self::find()?;
        app.actor = app.actor.at_page();
        Ok(app)
    }

    /// Returns the context for another project.
    #[must_use]
    pub fn in_project(&self, project: &Path) -> Self {
        let layout = self.layout.of_project(project);
        Self {
            config: Config::load(&layout),
            layout,
            actor: self.actor.clone(),
            confirm: self.confirm,
            current: self.current.clone(),
            own_team: self.own_team.clone(),
            store: self.store.clone(),
        }
    }

    /// Returns whether a person can be asked.
    pub const fn can_ask(&self) -> bool {
        self.confirm.is_some()
    }

    /// Refuses an action that only a person may perform. An agent can unset the variable that names its worker, but not
    /// the environment that its bridge and the agent itself were started with.
    pub fn must_be_a_person(&self, what: &str) -> Result {
        self.actor.must_be_person(what)?;
        if teamster_fs::processes::is_below_carrier(std::process::id(), env_vars::LAUNCH) {
            return Err(reserved_for_people(what));
        }
        Ok(())
    }

    /// Returns the store, opening it at the first call.
    pub fn store(&self) -> Result<&dyn Store> {
        Ok(self.opened_store()?.as_ref())
    }

    /// Returns the store for a user that outlives this context, opening it at the first call.
    pub fn shared_store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::clone(self.opened_store()?))
    }

    fn opened_store(&self) -> Result<&Arc<dyn Store>> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let store = self.choose_store()?.open(self)?;
        Ok(self.store.get_or_init(|| store))
    }

    /// Records the store given on the command line of this process, before any context is created.
    pub fn name_store(store: String) {
        // The command line is parsed only once.
        let _ = NAMED_STORE.set(store);
    }

    /// Returns the store given on the command line.
    pub(crate) fn named_store() -> Option<&'static str> {
        NAMED_STORE.get().map(String::as_str)
    }

    /// Checks that the home folder for teams is reachable. The folder for teams may be missing, but not its parent.
    /// Without this check, a home that is not mounted would look like one without teams.
    pub fn check_home(&self) -> Result {
        match self.layout.claude.parent() {
            Some(home) if !home.is_dir() => Err(AppError::new(
                ErrorKind::Unreachable,
                format!("there is no folder {} to keep teams in", home.display()),
            )
            .hint("check HOME, or set TEAMSTER_CLAUDE_DIR to a writable folder")),
            _ => Ok(()),
        }
    }

    /// Returns the store, for reading only.
    pub fn read(&self) -> Result<&dyn ReadStore> {
        Ok(self.store()?)
    }

    /// Returns an absolute path for a path that the user gave.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.current.join(path)
    }

    /// Returns the team to act on: the given one, otherwise `TEAMSTER_TEAM`, otherwise the only team of this project.
    pub fn team(&self, named: Option<&str>) -> Result<TeamName> {
        if let Some(name) = named {
            return self.must_be_own(name.parse()?);
        }
        if let Some(name) = env_vars::text(env_vars::TEAM) {
            let team = name.parse().map_err(|error| {
                AppError::refused(format!("{} is set, but {error}", env_vars::TEAM))
                    .hint("unset it, or name the team with --team")
            })?;
            return self.must_be_own(team);
        }
        match &self.own_team {
            Some(own) => Ok(own.clone()),
            None => self.only_team(),
        }
    }

    /// Returns the given team, or refuses it to an agent of another team.
    pub fn must_be_own(&self, team: TeamName) -> Result<TeamName> {
        match &self.own_team {
            Some(own) if *own != team => Err(AppError::refused(format!(
                "{} belongs to team {own} and cannot act on team {team}",
                self.actor.name()
            ))
            .hint("leave the team out; the default is your own")),
            _ => Ok(team),
        }
    }

    /// Returns whether the caller runs below the bridge of a worker.
    pub const fn is_below_bridge(&self) -> bool {
        self.own_team.is_some()
    }

    /// Returns every team that the caller may see, readable or not, by name: all teams, or only an agent's own.
    pub fn visible_teams(&self) -> Result<Vec<TeamEntry>> {
        let mut teams = self.read()?.teams()?;
        if let Some(own) = &self.own_team {
            teams.retain(|entry| entry.name == own.as_str());
        }
        Ok(teams)
    }

    /// Returns every team of this project that the caller may see, readable or not, by name.
    pub fn project_teams(&self) -> Result<Vec<TeamEntry>> {
        Ok(self
            .visible_teams()?
            .into_iter()
            .filter(|entry| self.is_of_project(entry))
            .collect())
    }

    /// Returns the sessions of this project that are known only by their state files and belong to none of these teams.
    pub fn sessions_besides(&self, teams: &[TeamEntry]) -> Result<Vec<TeamView>> {
        if self.own_team.is_some() {
            return Ok(Vec::new());
        }
        let teams: Vec<String> = teams.iter().map(|entry| entry.name.clone()).collect();
        let sessions = Sessions::of(&self.layout, &self.layout.project);
        let now = self.read()?.now();
        let rows = sessions.rows_besides(&teams, now).into_iter();
        // A file that cannot be parsed has a row, but no content to show.
        Ok(rows
            .filter(|row| row.problem.is_none())
            .filter_map(|row| sessions.view(&row.id, now))
            .collect())
    }

    /// Returns the session from the state files that belongs to this team, if it is a team of Claude Code.
    pub fn session_of(&self, entry: &TeamEntry) -> Result<Option<TeamView>> {
        let config = entry.config.as_ref().ok();
        let native = config.filter(|config| config.kind() == TeamOrigin::Claude);
        let Some(project) = native.and_then(TeamConfig::project) else {
            return Ok(None);
        };
        let sessions = Sessions::of(&self.layout, Path::new(project));
        Ok(sessions.of_team(&entry.name, self.read()?.now()))
    }

    fn only_team(&self) -> Result<TeamName> {
        let teams = self.project_teams()?;
        let of_kind = |kind: TeamOrigin| -> Vec<TeamName> {
            let of_kind = teams.iter().filter(|entry| {
                let config = entry.config.as_ref();
                config.is_ok_and(|config| config.kind() == kind)
            });
            of_kind
                .filter_map(|entry| entry.name.parse().ok())
                .collect()
        };
        // Claude Code leaves a team behind for every session. Those count only if there is no team of teamster.
        let mut candidates = of_kind(TeamOrigin::Teamster);
        if candidates.is_empty() {
            candidates = of_kind(TeamOrigin::Claude);
        }
        // A finished run must be named explicitly; a command without a name is about unfinished work.
        if candidates.len() > 1 {
            let read = self.read()?;
            let is_over = |team: &TeamName| run_now(read, team).is_ok_and(|run| run.is_finished());
            let (over, going_on): (Vec<_>, Vec<_>) =
                candidates.into_iter().partition(|team| is_over(team));
            candidates = if going_on.is_empty() { over } else { going_on };
        }
        match candidates.as_slice() {
            [team] => Ok(team.clone()),
            [] => Err(AppError::not_found(format!(
                "no team works on {}",
                self.layout.project.display()
            ))
            .hint(format!(
                "{START_TEAM}; `teamster team list` shows those of other projects"
            ))),
            several => {
                let names: Vec<&str> = several.iter().map(TeamName::as_str).collect();
                Err(AppError::usage(format!(
                    "several teams work on {}: {}",
                    self.layout.project.display(),
                    names.join(", ")
                ))
                .hint(format!("choose one: --team {}", names[0])))
            }
        }
    }

    fn is_of_project(&self, entry: &TeamEntry) -> bool {
        let config = entry.config.as_ref();
        let project = config
            .inspect_err(|error| tracing::debug!("cannot read team {}: {error}", entry.name))
            .ok()
            .and_then(|config| config.project());
        project.is_some_and(|project| same_folder(Path::new(project), &self.layout.project))
    }
}

/// Returns a path as text for records, or refuses a path that is not valid UTF-8: reading it back would yield another
/// path.
pub fn recordable<'a>(path: &'a Path, what: &str) -> Result<&'a str> {
    path.to_str().ok_or_else(|| {
        AppError::refused(format!(
            "the path of {what}, {}, is not UTF-8",
            path.display()
        ))
        .hint("rename it, or the parent folder whose name is not UTF-8: records of a team cannot contain such a path")
    })
}

/// Returns whether two paths lead to the same folder, after resolving links.
fn same_folder(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| {
        path.canonicalize()
            .inspect_err(|error| tracing::debug!("cannot resolve {}: {error}", path.display()))
            .ok()
    };
    one == other || matches!((real(one), real(other)), (Some(a), Some(b)) if a == b)
}
