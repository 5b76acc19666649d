//! Keeps the model current: a [`Hub`] for the overview of all teams, and a [`TeamFeed`] for each team that is being
//! viewed.

mod log;
mod sessions;
mod subscriber;
mod team_feed;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use teamster_fs::layout::{self, Layout};
use teamster_store::{FolderWatcher, ReadStore, StoreError, TeamEntry};
use teamster_types::TeamName;
use teamster_types::health::Limits;
use teamster_view::model::{Sessions, TeamRow, TeamView, TeamsOverview, Viewed};
use tracing::debug;

use crate::api::Hello;
use crate::error::ApiError;
pub(crate) use log::PARTS;
pub use log::follow_log;
use sessions::SessionListeners;
pub(crate) use subscriber::message;
pub use subscriber::{Stream, Subscriber, stream, stream_of};
pub use team_feed::TeamFeed;
use team_feed::start;

/// The poll interval: ages change, and a notification may be missed.
const TICK: Duration = Duration::from_secs(2);
/// The poll interval of teams that are not live; live teams are updated every tick.
const RARELY: Duration = Duration::from_secs(30);
/// The minimum interval between two updates of one team. Updating takes at most a fifth of the time: a large team takes
/// longer.
const BETWEEN: Duration = Duration::from_millis(50);
const TIMES_ITS_COST: u32 = 4;
/// How long changes are collected before they are processed.
const GATHER: Duration = Duration::from_millis(20);
/// A feed that is unused for this long is closed.
const IDLE: Duration = Duration::from_secs(120);
/// The keep-alive interval of streams.
const QUIET: Duration = Duration::from_secs(15);

/// The settings of a hub.
#[derive(Clone)]
pub struct HubSettings {
    /// The paths of teamster's files.
    pub layout: Layout,
    /// The limits for judging workers.
    pub limits: Limits,
    /// Projects that are watched even if no team works on them.
    pub projects: Vec<PathBuf>,
}

/// The overview of all teams, and the feeds of those that are being viewed.
pub struct Hub {
    read: Arc<dyn ReadStore>,
    settings: HubSettings,
    feeds: Mutex<HashMap<TeamName, Arc<TeamFeed>>>,
    shown: Mutex<HubState>,
    sessions: SessionListeners,
}

#[derive(Default)]
struct HubState {
    overview: TeamsOverview,
    subscribers: Vec<Subscriber>,
}

impl Hub {
    /// Builds the overview and starts the threads that keep it current.
    pub fn open(read: Arc<dyn ReadStore>, settings: HubSettings) -> Result<Arc<Self>, StoreError> {
        let hub = Arc::new(Self {
            read,
            settings,
            feeds: Mutex::default(),
            shown: Mutex::default(),
            sessions: SessionListeners::default(),
        });
        let mut watcher = HubWatcher::new(hub.clone());
        watcher.look()?;
        start("hub".to_owned(), move || watcher.go_on())?;
        let sessions = hub.clone();
        start("sessions".to_owned(), move || sessions.tell_sessions())?;
        Ok(hub)
    }

    /// Returns the store.
    pub fn read(&self) -> &dyn ReadStore {
        &*self.read
    }

    /// Returns the overview of all teams.
    pub fn overview(&self) -> TeamsOverview {
        self.lock().overview.clone()
    }

    /// Returns the number of clients that listen, to the overview and to each team.
    pub fn listeners(&self) -> usize {
        let shown = self.lock();
        let here = shown.subscribers.iter().filter(|one| !one.is_gone());
        let own = here.count() + self.sessions.count();
        drop(shown);
        let feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        own + feeds.values().map(|feed| feed.listeners()).sum::<usize>()
    }

    /// Returns the feed of a team, which is opened if necessary.
    pub fn feed(&self, team: &TeamName) -> Result<Arc<TeamFeed>, StoreError> {
        // A team that was deleted and recreated is a different team, however short the time between.
        let config = self.read.team(team)?;
        {
            let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
            match feeds.get(team) {
                Some(feed) if !feed.is_closed() && feed.is_of(&config) => return Ok(feed.clone()),
                Some(feed) => feed.is_gone(),
                None => {}
            }
            feeds.retain(|_, feed| !feed.is_closed());
        }
        // Opened outside the lock, so that a long journal does not delay other teams. If two are opened at once, one is
        // dropped.
        let feed = TeamFeed::open(
            self.read.clone(),
            &self.settings.layout,
            team,
            &self.settings.limits,
        )?;
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        let known = feeds.entry(team.clone()).or_insert_with(|| feed.clone());
        if !Arc::ptr_eq(known, &feed) {
            feed.close();
        }
        Ok(known.clone())
    }

    /// Returns a session that is known by its state file.
    pub fn session(&self, key: &str) -> Result<TeamView, ApiError> {
        let found = self.find_session(key).map(|(_, view)| view);
        found.ok_or_else(|| ApiError::not_found(format!("there is no session {key}")))
    }

    /// Returns the watched projects.
    fn projects(&self) -> Vec<String> {
        let shown = self.lock();
        let projects = shown.overview.projects.iter();
        projects.map(|project| project.path.clone()).collect()
    }

    /// Subscribes a client to the overview of all teams.
    pub fn subscribe(&self, subscriber: Subscriber) {
        let mut shown = self.lock();
        let hello = Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            team: None,
        };
        subscriber.offer(&message("hello", None, &hello));
        subscriber.offer(&message("overview", None, &shown.overview));
        shown.subscribers.push(subscriber);
    }

    /// Adds the overview of all teams to the stream of a client that follows one team, because a browser has only six
    /// connections to a server, for all its tabs together.
    pub fn subscribe_also(&self, subscriber: Subscriber) {
        let mut shown = self.lock();
        if subscriber.offer(&message("overview", None, &shown.overview)) {
            shown.subscribers.push(subscriber);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close_idle_feeds(&self) {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.retain(|_, feed| {
            if feed.idle() >= IDLE {
                feed.close();
            }
            !feed.is_closed()
        });
    }

    /// Publishes the overview if it changed.
    fn show(&self, overview: TeamsOverview) -> bool {
        let mut shown = self.lock();
        let is_new = shown.overview != overview;
        if is_new {
            let event = message("overview", None, &overview);
            shown.overview = overview;
            shown
                .subscribers
                .retain(|subscriber| subscriber.offer(&event));
        }
        is_new
    }

    fn send_keepalive(&self) {
        let event = axum::body::Bytes::from_static(b": still here\n\n");
        let mut shown = self.lock();
        shown
            .subscribers
            .retain(|subscriber| subscriber.offer(&event));
        drop(shown);
        self.sessions.send_keepalive(&event);
    }
}

/// The state of the hub's thread.
struct HubWatcher {
    hub: Arc<Hub>,
    folders: FolderWatcher,
    rows: BTreeMap<String, TeamRow>,
    /// When a team was last updated, and when it may be updated again.
    looked: HashMap<String, (Instant, Instant)>,
    /// Teams that changed and are not updated yet, or not completely.
    dirty: BTreeSet<String>,
    /// Which team or project a folder belongs to.
    about: HashMap<PathBuf, FolderSubject>,
    /// Whether to update again immediately.
    again: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FolderSubject {
    Everything,
    Team(String),
    Project,
}

impl HubWatcher {
    fn new(hub: Arc<Hub>) -> Self {
        Self {
            hub,
            folders: FolderWatcher::new(),
            rows: BTreeMap::new(),
            looked: HashMap::new(),
            dirty: BTreeSet::new(),
            about: HashMap::new(),
            again: false,
        }
    }

    fn go_on(mut self) {
        let mut spoke = Instant::now();
        loop {
            let patience = match (self.again, self.dirty.is_empty()) {
                (true, _) => GATHER,
                (false, true) => TICK,
                (false, false) => BETWEEN,
            };
            let mut touched = self.folders.wait(patience);
            if !touched.is_empty() {
                std::thread::sleep(GATHER);
                touched.extend(self.folders.wait(Duration::ZERO));
            }
            self.note(&touched);
            // A store that cannot be read now may be readable later; until then the last overview stays.
            if let Err(error) = self.look() {
                debug!("cannot look at the teams: {error}");
            }
            self.hub.close_idle_feeds();
            if spoke.elapsed() >= QUIET {
                self.hub.send_keepalive();
                spoke = Instant::now();
            }
        }
    }

    /// Updates what changed, and everything whose age may have changed.
    fn look(&mut self) -> Result<(), StoreError> {
        let read = self.hub.read.clone();
        let entries = read.teams()?;
        let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        self.rows.retain(|name, _| names.contains(name.as_str()));
        self.looked.retain(|name, _| names.contains(name.as_str()));
        self.dirty.retain(|name| names.contains(name.as_str()));
        for entry in &entries {
            let begun = Instant::now();
            if !self.is_due(entry, begun) {
                continue;
            }
            self.dirty.remove(&entry.name);
            let limits = &self.hub.settings.limits;
            // The first overview does not wait for a long journal.
            let row = if self.rows.contains_key(&entry.name) {
                TeamRow::of_entry(&*read, entry, limits).map(|row| (row, true))
            } else {
                TeamRow::at_first(&*read, entry, limits)
            };
            match row {
                Ok((row, is_all)) => {
                    self.rows.insert(entry.name.clone(), row);
                    if !is_all {
                        self.dirty.insert(entry.name.clone());
                    }
                }
                Err(error) => {
                    debug!("cannot look at team {}: {error}", entry.name);
                    // What was seen last stays, perhaps less than all of it.
                    if let Some(row) = self.rows.get_mut(&entry.name) {
                        row.problem = Some(error.to_string());
                        self.dirty.insert(entry.name.clone());
                    }
                }
            }
            let now = Instant::now();
            let again = now + BETWEEN.max((now - begun) * TIMES_ITS_COST);
            self.looked.insert(entry.name.clone(), (now, again));
        }
        let projects = self.projects();
        let now = read.now();
        let mut rows: Vec<TeamRow> = self.rows.values().cloned().collect();
        for (project, exists) in &projects {
            if *exists {
                let sessions = Sessions::of(&self.hub.settings.layout, Path::new(project));
                rows.extend(sessions.rows(now));
            }
        }
        self.hub.show(TeamsOverview::of(rows, &projects));
        self.watch_folders(&entries, &projects);
        Ok(())
    }

    /// Records the teams whose folders changed.
    fn note(&mut self, touched: &BTreeSet<PathBuf>) {
        for path in touched {
            let about = [Some(path.as_path()), path.parent()];
            for folder in about.into_iter().flatten() {
                if let Some(FolderSubject::Team(team)) = self.about.get(folder) {
                    self.dirty.insert(team.clone());
                }
            }
        }
    }

    fn is_due(&self, entry: &TeamEntry, now: Instant) -> bool {
        let known = self.rows.get(&entry.name).zip(self.looked.get(&entry.name));
        let Some((row, (looked, again))) = known else {
            return true;
        };
        if self.dirty.contains(&entry.name) {
            return now >= *again;
        }
        let since = now - *looked;
        since >= RARELY || (row.state == Viewed::Live && since >= TICK)
    }

    /// Returns the watched projects: those that were configured, and those of teams.
    fn projects(&self) -> Vec<(String, bool)> {
        let named = self.hub.settings.projects.iter();
        let named = named.map(|path| path.display().to_string());
        let of_teams = self.rows.values().filter_map(|row| row.project.clone());
        let all: BTreeSet<String> = named.chain(of_teams).collect();
        all.into_iter()
            .map(|path| {
                let exists = Path::new(&path).is_dir();
                (path, exists)
            })
            .collect()
    }

    fn watch_folders(&mut self, entries: &[TeamEntry], projects: &[(String, bool)]) {
        let claude = &self.hub.settings.layout.claude;
        let (teams, tasks) = (claude.join(layout::TEAMS), claude.join(layout::TASKS));
        let mut about = HashMap::new();
        about.insert(claude.clone(), FolderSubject::Everything);
        about.insert(teams.clone(), FolderSubject::Everything);
        for entry in entries {
            let team = || FolderSubject::Team(entry.name.clone());
            // The name comes from a directory listing, so it is a single path component.
            about.insert(teams.join(&entry.name), team());
            about.insert(tasks.join(&entry.name), team());
            if let (Ok(config), Ok(name)) = (&entry.config, entry.name.parse::<TeamName>())
                && let Some(project) = config.project()
            {
                let folders = layout::heartbeat_folders(&name);
                let folder = folders
                    .iter()
                    .fold(PathBuf::from(project), |path, name| path.join(name));
                about.insert(folder, team());
            }
        }
        for (project, exists) in projects {
            if *exists {
                let bkit = Path::new(project).join(layout::BKIT);
                about.insert(PathBuf::from(project), FolderSubject::Project);
                about.insert(bkit.join(layout::STATE_SESSIONS), FolderSubject::Project);
                about.insert(bkit, FolderSubject::Project);
            }
        }
        let wanted: BTreeSet<PathBuf> = about.keys().cloned().collect();
        let new = self.folders.watch_only(&wanted);
        self.about = about;
        // Changes between reading a folder and watching it produce no notification.
        self.again = !new.is_empty();
        self.note(&new.into_iter().collect());
    }
}
