//! Chooses the store, and operates on whole stores: creating, inspecting, and moving teams between them.
//!
//! [`App::choose_store`] is the one place that distinguishes files from a database; all other code uses the trait. A
//! store is selected by, in this order: an argument, the variable `TEAMSTER_STORE`, and the user's own settings
//! (`store.url`, or a file that `store.url_file` names). A project's settings cannot select one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use teamster_fs::{FileOwner, FileSnapshot, UserFile};
use teamster_postgres::{PgSettings, PgStore, StoreStatus, StoreUrl};
use teamster_store::{FileStore, FileStoreSettings, Store, SystemClock, TeamExport};
use teamster_types::progress::Progress;
use teamster_types::{TaskId, TeamName};

use crate::app::App;
use crate::config::{SecretUrl, SettingSource};
use crate::error::{AppError, ErrorKind, Result};

/// The hint that describes how to select a store.
const WAYS: &str = "put it into the variable TEAMSTER_STORE, or into a file that only you may read and name that file as \
    `url_file` in section [store] of your own settings";

/// Where a store is.
#[derive(Clone, Debug)]
enum StoreLocation {
    Files(PathBuf),
    Database(Box<StoreUrl>),
}

/// The selected store, and the source of the selection.
#[derive(Clone, Debug)]
pub struct ChosenStore {
    place: StoreLocation,
    source: String,
}

impl ChosenStore {
    /// Returns its address, without a password.
    pub fn address(&self) -> String {
        match &self.place {
            StoreLocation::Files(folder) => folder.display().to_string(),
            StoreLocation::Database(url) => url.to_string(),
        }
    }

    /// Returns the name of its kind.
    pub const fn kind(&self) -> &'static str {
        match self.place {
            StoreLocation::Files(_) => SecretUrl::FILES,
            StoreLocation::Database(_) => "postgres",
        }
    }

    /// Returns the address of the database, without a password; `None` for files.
    pub fn database(&self) -> Option<String> {
        match &self.place {
            StoreLocation::Files(_) => None,
            StoreLocation::Database(url) => Some(url.to_string()),
        }
    }

    /// Returns the source of the selection.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Opens it, or returns why it cannot be used.
    pub fn open(&self, app: &App) -> Result<Arc<dyn Store>> {
        self.open_with(app, app.config.store_settings(), PgSettings::default())
    }

    /// Opens it for a worker, with the settings of its project. While a database is unreachable, the worker waits up to the
    /// lease of its task: until then it owns the task, and none of its reports may be lost.
    pub(crate) fn open_for_worker(
        &self,
        app: &App,
        settings: FileStoreSettings,
    ) -> Result<Arc<dyn Store>> {
        let worker = PgSettings {
            patience: settings.lease,
            polls: true,
            ..PgSettings::default()
        };
        self.open_with(app, settings, worker)
    }

    fn open_with(
        &self,
        app: &App,
        settings: FileStoreSettings,
        database: PgSettings,
    ) -> Result<Arc<dyn Store>> {
        Ok(match &self.place {
            StoreLocation::Files(_) => {
                app.check_home()?;
                Arc::new(FileStore::open(
                    &app.layout,
                    Arc::new(SystemClock),
                    settings,
                )?)
            }
            StoreLocation::Database(url) => {
                let settings = PgSettings {
                    lease: settings.lease,
                    reservations: settings.reservations,
                    ..database
                };
                Arc::new(PgStore::open((**url).clone(), settings)?)
            }
        })
    }

    /// Initialises the store. Any number of machines may do so concurrently.
    pub fn init(&self) -> Result<InitializedStore> {
        let StoreLocation::Database(url) = &self.place else {
            return Err(AppError::new(
                ErrorKind::Nothing,
                "teams are kept in files, which need no preparation",
            )
            .hint(
                "name a database: TEAMSTER_STORE=postgres://user@host/database teamster store init",
            ));
        };
        let made = teamster_postgres::init(url)?;
        let version = teamster_postgres::schema_needed();
        Ok(InitializedStore { made, version })
    }

    /// Grants a role of the server access to a team.
    pub fn grant_access(&self, app: &App, role: &str, team: &TeamName) -> Result {
        app.must_be_a_person("giving a role rights")?;
        Ok(teamster_postgres::grant_access(self.url()?, role, team)?)
    }

    /// Revokes a role's access, and returns whether it had it.
    pub fn revoke_access(&self, app: &App, role: &str, team: &TeamName) -> Result<bool> {
        app.must_be_a_person("taking rights from a role")?;
        Ok(teamster_postgres::revoke_access(self.url()?, role, team)?)
    }

    fn url(&self) -> Result<&StoreUrl> {
        match &self.place {
            StoreLocation::Database(url) => Ok(url),
            StoreLocation::Files(_) => Err(AppError::new(
                ErrorKind::Nothing,
                "teams are kept in files, which belong to one user and have no roles",
            )
            .hint("name a database with TEAMSTER_STORE or --store")),
        }
    }

    /// Returns the status of the server, if there is one.
    fn server(&self) -> Result<Option<StoreStatus>> {
        match &self.place {
            StoreLocation::Files(_) => Ok(None),
            StoreLocation::Database(url) => Ok(Some(teamster_postgres::status(url)?)),
        }
    }
}

/// The result of initialising a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitializedStore {
    /// The numbers of the migrations that were applied now.
    pub made: Vec<usize>,
    /// The current schema version of the store.
    pub version: usize,
}

impl App {
    /// Returns the selected store. A password in `--store` is refused, because every user of the machine could read it.
    pub fn choose_store(&self) -> Result<ChosenStore> {
        if let Some(text) = Self::named_store() {
            let place = self.place(text)?;
            if matches!(&place, StoreLocation::Database(url) if url.has_password()) {
                return Err(AppError::usage(
                    "a password on the command line can be read by every user of this machine",
                )
                .hint(WAYS));
            }
            return Ok(chosen(place, "--store"));
        }
        let (url, file) = (&self.config.store_url, &self.config.store_url_file);
        match (&url.value, &file.value) {
            // The variable takes precedence over every file.
            (Some(text), _) if matches!(url.source, SettingSource::Variable(_)) => {
                Ok(chosen(self.place(text.reveal())?, &url.source.to_string()))
            }
            (Some(_), Some(_)) => Err(AppError::usage(format!(
                "`store.url` ({}) and `store.url_file` ({}) both name a store",
                url.source, file.source
            ))
            .hint("keep one of them")),
            (Some(text), None) => {
                let place = self.place(text.reveal())?;
                if matches!(&place, StoreLocation::Database(url) if url.has_password()) {
                    let settings = &self.layout.user_config;
                    let read = read_own(settings)?;
                    refuse_shared(settings, read.as_ref())?;
                }
                Ok(chosen(place, &url.source.to_string()))
            }
            (None, Some(path)) => self.place_in_file(path, &file.source),
            (None, None) => Ok(chosen(self.files(), "default")),
        }
    }

    /// Returns the URL of the store for a teamster process that is about to be started, if the user's settings do not
    /// contain it.
    pub fn store_address(&self) -> Result<Option<OsString>> {
        let chosen = self.choose_store()?;
        Ok(match &chosen.place {
            StoreLocation::Files(_) => None,
            StoreLocation::Database(_) => match (Self::named_store(), &self.config.store_url) {
                (Some(named), _) => Some(named.into()),
                (None, url) if matches!(url.source, SettingSource::Variable(_)) => {
                    url.value.as_ref().map(|text| text.reveal().into())
                }
                (None, _) => None,
            },
        })
    }

    fn files(&self) -> StoreLocation {
        StoreLocation::Files(self.layout.claude.clone())
    }

    fn place(&self, text: &str) -> Result<StoreLocation> {
        if text.trim() == SecretUrl::FILES {
            return Ok(self.files());
        }
        Ok(StoreLocation::Database(Box::new(StoreUrl::parse(
            text.trim(),
        )?)))
    }

    /// Reads the URL from a file that only the user may read. A relative path is resolved from the folder of the user's
    /// settings.
    fn place_in_file(&self, path: &Path, source: &SettingSource) -> Result<ChosenStore> {
        let beside = self.layout.user_config.parent().unwrap_or(Path::new("/"));
        let path = beside.join(path);
        let Some(file) = read_own(&path)? else {
            return Err(AppError::not_found(format!(
                "there is no file {}, which `store.url_file` ({source}) names",
                path.display()
            ))
            .hint(
                "write the address of the store into it, and let only yourself read it: mode 0600",
            ));
        };
        refuse_shared(&path, Some(&file))?;
        let text = String::from_utf8_lossy(&file.bytes);
        Ok(chosen(
            self.place(text.trim())?,
            &path.display().to_string(),
        ))
    }
}

fn chosen(place: StoreLocation, source: &str) -> ChosenStore {
    ChosenStore {
        place,
        source: source.to_owned(),
    }
}

fn read_own(path: &Path) -> Result<Option<FileSnapshot>> {
    match UserFile::find(path)? {
        Some(file) => Ok(file.read()?),
        None => Ok(None),
    }
}

/// Refuses a file with a password that other users may read or may have written.
fn refuse_shared(path: &Path, file: Option<&FileSnapshot>) -> Result {
    let shown = path.display();
    match file {
        Some(file) if matches!(file.owner, FileOwner::Other(_)) => Err(AppError::refused(format!(
            "{shown} names the store, but belongs to another user"
        ))
        .hint("change its owner, or name the store with TEAMSTER_STORE")),
        Some(file) if file.is_open_to_others() => Err(AppError::refused(format!(
            "{shown} contains the address of the store, and other users may read it"
        ))
        .hint(format!("chmod 600 {shown}"))),
        _ => Ok(()),
    }
}

/// The contents of a store, as far as they can be determined.
#[derive(Debug)]
pub struct StoreReport {
    /// The server, if there is one and it answered.
    pub server: Option<StoreStatus>,
    /// The teams in it, by name.
    pub teams: Vec<TeamCounts>,
    /// Why the store cannot be used.
    pub problem: Option<AppError>,
}

impl StoreReport {
    /// Returns whether the store answers at all.
    pub fn is_reachable(&self) -> bool {
        self.server.is_some() || self.problem.is_none()
    }
}

/// The counts of a team.
#[derive(Clone, Debug, Serialize)]
pub struct TeamCounts {
    /// The name of the team.
    pub name: String,
    /// How many members it has.
    pub members: usize,
    /// The progress of its tasks.
    pub progress: Progress,
    /// The last position of its journal.
    pub events: u64,
    /// What cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Inspects a store: the server, and its teams. Problems that prevent its use are in the report.
pub fn inspect(app: &App, store: &ChosenStore) -> StoreReport {
    let mut report = StoreReport {
        server: None,
        teams: Vec::new(),
        problem: None,
    };
    let looked = store.server().and_then(|server| {
        report.server = server;
        let opened = store.open(app)?;
        report.teams = counts(&*opened)?;
        Ok(())
    });
    report.problem = looked.err();
    report
}

fn counts(store: &dyn Store) -> Result<Vec<TeamCounts>> {
    let mut counts = Vec::new();
    for entry in store.teams()? {
        let mut found = TeamCounts {
            name: entry.name.clone(),
            members: 0,
            progress: Progress::default(),
            events: 0,
            problem: None,
        };
        match (entry.config, entry.name.parse::<TeamName>()) {
            (Ok(config), Ok(team)) => {
                found.members = config.members().len();
                let (progress, problems) = store.progress(&team)?;
                found.progress = progress;
                found.events = store.position(&team)?;
                found.problem = problems
                    .first()
                    .map(|first| format!("{}: {}", first.file, first.error));
            }
            (Err(error), _) => found.problem = Some(error),
            (_, Err(error)) => found.problem = Some(error.to_string()),
        }
        counts.push(found);
    }
    Ok(counts)
}

/// A team that was exported or imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MovedTeam {
    /// The name of the team.
    pub team: TeamName,
    /// How many tasks it has.
    pub tasks: usize,
    /// How many messages are in its mailboxes.
    pub messages: usize,
    /// How many events its journal has.
    pub events: usize,
    /// The tasks that were in progress: they are claimable again after the import.
    pub released: Vec<TaskId>,
}

impl MovedTeam {
    fn of(export: &TeamExport, released: Vec<TaskId>) -> Self {
        Self {
            team: export.team.clone(),
            tasks: export.tasks.len(),
            messages: export.messages(),
            events: export.events.len(),
            released,
        }
    }
}

/// Exports all data of a team from a store, as JSON lines. The team itself is not changed.
pub fn export(app: &App, store: &ChosenStore, team: &TeamName) -> Result<(MovedTeam, Vec<u8>)> {
    app.must_be_a_person("exporting a team")?;
    let (export, released) = store.open(app)?.export_team(team)?;
    let lines = export.to_lines();
    Ok((MovedTeam::of(&export, released), lines))
}

/// Creates a team from an export, atomically.
pub fn import(app: &App, store: &ChosenStore, lines: &[u8]) -> Result<MovedTeam> {
    app.must_be_a_person("importing a team")?;
    let export = TeamExport::from_lines(lines)?;
    store.open(app)?.import_team(&export)?;
    Ok(MovedTeam::of(&export, Vec::new()))
}
