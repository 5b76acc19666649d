//! Keeping the model current: all teams in short by a [`Hub`], and each team that somebody looks at by a [`TeamFeed`].

mod log;
mod sessions;
mod subscriber;
mod team_feed;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use teamster_fs::layout::{self, Layout};
use teamster_store::{Folders, Read, StoreError, TeamEntry};
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

/// How often everything is looked at without being told: ages change, and a notice may be missed.
const TICK: Duration = Duration::from_secs(2);
/// Teams that live are looked at every tick; the others this often.
const RARELY: Duration = Duration::from_secs(30);
/// One team is looked at at most so often, and never for more than a fifth of the time: a large one takes longer.
const BETWEEN: Duration = Duration::from_millis(50);
const TIMES_ITS_COST: u32 = 4;
/// Changes are gathered for so long before they are looked at.
const GATHER: Duration = Duration::from_millis(20);
/// A feed that nobody asked for so long is closed.
const IDLE: Duration = Duration::from_secs(120);
/// Streams that only say that they are still there say so this often.
const QUIET: Duration = Duration::from_secs(15);

/// What a hub needs to know besides the store.
#[derive(Clone)]
pub struct HubSettings {
    /// Where things are.
    pub layout: Layout,
    /// When a worker is called what.
    pub limits: Limits,
    /// Projects that are watched whether a team works on them or not.
    pub projects: Vec<PathBuf>,
}

/// All teams in short, and the feeds of those that somebody looks at.
pub struct Hub {
    read: Arc<dyn Read>,
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
    /// Looks for the first time, and goes on looking.
    pub fn open(read: Arc<dyn Read>, settings: HubSettings) -> Result<Arc<Self>, StoreError> {
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

    /// The store.
    pub fn read(&self) -> &dyn Read {
        &*self.read
    }

    /// All teams in short.
    pub fn overview(&self) -> TeamsOverview {
        self.lock().overview.clone()
    }

    /// How many clients listen, to everything and to each team.
    pub fn listeners(&self) -> usize {
        let shown = self.lock();
        let here = shown.subscribers.iter().filter(|one| !one.is_gone());
        let own = here.count() + self.sessions.count();
        drop(shown);
        let feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        own + feeds.values().map(|feed| feed.listeners()).sum::<usize>()
    }

    /// The feed of a team, opened if it is not.
    pub fn feed(&self, team: &TeamName) -> Result<Arc<TeamFeed>, StoreError> {
        // A team that was deleted and made anew is another one, however short the time between.
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
        // Not under the lock: a long journal must not keep other teams waiting. Of two that were opened at once one goes.
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

    /// A session that is known by its state file.
    pub fn session(&self, key: &str) -> Result<TeamView, ApiError> {
        let found = self.find_session(key).map(|(_, view)| view);
        found.ok_or_else(|| ApiError::not_found(format!("there is no session {key}")))
    }

    /// The projects that are watched.
    fn projects(&self) -> Vec<String> {
        let shown = self.lock();
        let projects = shown.overview.projects.iter();
        projects.map(|project| project.path.clone()).collect()
    }

    /// Lets a client listen to all teams in short.
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

    /// Lets a client that listens to one team hear of all the others on the same stream: a browser has only six
    /// connections to a server, for all its tabs together.
    pub fn also(&self, subscriber: Subscriber) {
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

    /// Sends what changed.
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

    fn still_here(&self) {
        let event = axum::body::Bytes::from_static(b": still here\n\n");
        let mut shown = self.lock();
        shown
            .subscribers
            .retain(|subscriber| subscriber.offer(&event));
        drop(shown);
        self.sessions.still_here(&event);
    }
}

/// What the thread of the hub knows.
struct HubWatcher {
    hub: Arc<Hub>,
    folders: Folders,
    rows: BTreeMap<String, TeamRow>,
    /// When a team was last looked at, and from when on it may be again.
    looked: HashMap<String, (Instant, Instant)>,
    /// Teams that were touched and are not looked at yet, or not to the end.
    dirty: BTreeSet<String>,
    /// Which team or project a folder is about.
    about: HashMap<PathBuf, FolderSubject>,
    /// Whether it is to be looked again at once.
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
            folders: Folders::new(),
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
            // A store that cannot be read now may be readable later; what was shown stays until then.
            if let Err(error) = self.look() {
                debug!("cannot look at the teams: {error}");
            }
            self.hub.close_idle_feeds();
            if spoke.elapsed() >= QUIET {
                self.hub.still_here();
                spoke = Instant::now();
            }
        }
    }

    /// Looks at what was touched, and at everything whose age may have changed.
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
            // Nobody waits for a long journal before there is anything to see.
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
                Err(error) => debug!("cannot look at team {}: {error}", entry.name),
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

    /// Notes the teams that were touched.
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

    /// Projects that are watched: those that were named, and those of teams.
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
            // A folder was listed under this very name, so it is one name and no way out.
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
        // What happened there after it was looked at and before it was watched is not told.
        self.again = !new.is_empty();
        self.note(&new.into_iter().collect());
    }
}
