//! What a use case works with: where things are, who asks, the settings, the store, and the team that is meant.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use teamster_fs::layout::Layout;
use teamster_store::{Read, Store, TeamEntry};
use teamster_types::TeamName;
use teamster_types::team::{TeamConfig, TeamOrigin};
use teamster_view::model::{Sessions, TeamView, run_now};

use crate::actor::{Actor, BridgeIdentity, below_a_worker};
use crate::config::Config;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};

/// The store that the command line of this process names.
static NAMED_STORE: OnceLock<String> = OnceLock::new();

/// A function that shows a person a text with a question below it, and returns whether they clearly said yes.
pub type Confirm = fn(text: &str, question: &'static str) -> bool;

/// What a use case works with. Making one touches nothing but settings files.
pub struct App {
    /// Where things are.
    pub layout: Layout,
    /// The settings.
    pub config: Config,
    /// Who asks.
    pub actor: Actor,
    /// How the actor is asked something; `None` when nobody sits at a terminal.
    pub confirm: Option<Confirm>,
    current: PathBuf,
    /// The only team that there is for an agent: that of the bridge it runs below.
    own_team: Option<TeamName>,
    store: OnceCell<Arc<dyn Store>>,
}

impl App {
    /// Finds everything from the environment and the current folder. What is wrong with the settings is among
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
        // A store that cannot be chosen is told when it is needed.
        let chosen = app.choose_store().ok();
        app.layout.database = chosen.and_then(|chosen| chosen.database());
        Ok(app)
    }

    /// Finds the same for the page, which is answered by this process for the person who opened it.
    pub fn find_for_page() -> Result<Self> {
        let mut app = Self::find()?;
        app.actor = app.actor.at_page();
        Ok(app)
    }

    /// Returns the same for another project.
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

    /// Returns whether somebody can be shown something and asked.
    pub const fn can_ask(&self) -> bool {
        self.confirm.is_some()
    }

    /// Refuses what only a person may do. The variable that names a worker can be unset by any agent, but not what its
    /// bridge and the agent itself were started with.
    pub fn must_be_a_person(&self, what: &str) -> Result {
        self.actor.must_be_person(what)?;
        if teamster_fs::processes::is_below_carrier(std::process::id(), env_vars::LAUNCH) {
            return Err(below_a_worker(what));
        }
        Ok(())
    }

    /// Returns the store, opening it at the first call.
    pub fn store(&self) -> Result<&dyn Store> {
        Ok(self.opened_store()?.as_ref())
    }

    /// Returns the store for somebody who outlives this, opening it at the first call.
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

    /// Notes the store that the command line of this process names, before any application is found.
    pub fn name_store(store: String) {
        // The command line is read once.
        let _ = NAMED_STORE.set(store);
    }

    /// Returns the store that the command line names.
    pub(crate) fn named_store() -> Option<&'static str> {
        NAMED_STORE.get().map(String::as_str)
    }

    /// Checks that there is a home to keep teams in. A folder for teams may be missing; what it would be made in may not.
    /// Without this a home that is not mounted would look like one without teams.
    pub fn check_home(&self) -> Result {
        match self.layout.claude.parent() {
            Some(home) if !home.is_dir() => Err(AppError::new(
                ErrorKind::Unreachable,
                format!("there is no folder {} to keep teams in", home.display()),
            )
            .hint("check HOME, or set TEAMSTER_CLAUDE_DIR to a folder you may write")),
            _ => Ok(()),
        }
    }

    /// Returns the store, for looking only.
    pub fn read(&self) -> Result<&dyn Read> {
        Ok(self.store()?)
    }

    /// Returns a path that the user named, made absolute.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.current.join(path)
    }

    /// Returns the team to act on: the one that is named, else `TEAMSTER_TEAM`, else the only one of this project.
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

    /// Returns a team that was named, or refuses it to the agent of another team.
    pub fn must_be_own(&self, team: TeamName) -> Result<TeamName> {
        match &self.own_team {
            Some(own) if *own != team => Err(AppError::refused(format!(
                "{} is of team {own}, and team {team} is none of its business",
                self.actor.name()
            ))
            .hint("leave the team out: your own is meant")),
            _ => Ok(team),
        }
    }

    /// Returns whether the caller runs below the bridge of a worker.
    pub const fn is_below_bridge(&self) -> bool {
        self.own_team.is_some()
    }

    /// Returns every team that the caller may see, readable or not, by name: all of them, or an agent's own.
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

    /// Returns the sessions of this project that are known by their state files only, and by none of these teams.
    pub fn sessions_besides(&self, teams: &[TeamEntry]) -> Result<Vec<TeamView>> {
        if self.own_team.is_some() {
            return Ok(Vec::new());
        }
        let teams: Vec<String> = teams.iter().map(|entry| entry.name.clone()).collect();
        let sessions = Sessions::of(&self.layout, &self.layout.project);
        let now = self.read()?.now();
        let rows = sessions.rows_besides(&teams, now).into_iter();
        // A file that cannot be understood has a row, and nothing to look at.
        Ok(rows
            .filter(|row| row.problem.is_none())
            .filter_map(|row| sessions.view(&row.id, now))
            .collect())
    }

    /// Returns what the state file of a session tells of this team, if it is one of Claude Code.
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
        // Claude Code leaves a team behind for every session. They count only where there is none of ours.
        let mut candidates = of_kind(TeamOrigin::Teamster);
        if candidates.is_empty() {
            candidates = of_kind(TeamOrigin::Claude);
        }
        // A run that is over is looked at by name; what is typed now is about what is still to be done.
        if candidates.len() > 1 {
            let read = self.read()?;
            let is_over = |team: &TeamName| run_now(read, team).is_ok_and(|run| run.finished);
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
            .hint("`teamster team create NAME` makes one; `teamster team list` shows those of other projects")),
            several => {
                let names: Vec<&str> = several.iter().map(TeamName::as_str).collect();
                Err(AppError::usage(format!(
                    "several teams work on {}: {}",
                    self.layout.project.display(),
                    names.join(", ")
                ))
                .hint(format!("say which: --team {}", names[0])))
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

/// Returns a path as the text that records keep of it, or refuses one that no text stands for: what is read back would be
/// another path.
pub fn recordable<'a>(path: &'a Path, what: &str) -> Result<&'a str> {
    path.to_str().ok_or_else(|| {
        AppError::refused(format!(
            "the path of {what}, {}, is not UTF-8",
            path.display()
        ))
        .hint("rename it, or the folder above it whose name is not UTF-8: records of a team could not name it")
    })
}

/// Whether two paths lead to one folder, links or not.
fn same_folder(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| {
        path.canonicalize()
            .inspect_err(|error| tracing::debug!("cannot resolve {}: {error}", path.display()))
            .ok()
    };
    one == other || matches!((real(one), real(other)), (Some(a), Some(b)) if a == b)
}
