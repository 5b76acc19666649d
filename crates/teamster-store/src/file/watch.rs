//! Watches a team by file notification, with a slow poll as a fallback because notifications may be missed.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use notify::event::{EventKind, ModifyKind};
use notify::{RecursiveMode, Watcher};
use teamster_fs::{Dir, OrTrace as _, Stamp, layout};
use teamster_types::{TaskId, TeamName, WorkerName};

use super::pages::ReadPlaces;
use super::record::hash_of;
use super::{FileStore, heartbeat};
use crate::error::Result;
use crate::store::ReadStore;
use crate::watch::{Change, Watch};

/// The poll interval where notification does not work.
const POLL: Duration = Duration::from_millis(500);
/// The interval between comparisons of all task files, which detect a change that another program made inside a file.
const SLOW_POLL: Duration = Duration::from_secs(5);
/// How often heartbeats are compared: each worker writes one every five seconds, and a hundred of them must not cost
/// much.
const BEATS: Duration = Duration::from_millis(250);
/// The time in which the event of a file change must appear, since files change shortly before and after it. A change
/// without an event comes from another program.
const SETTLING: Duration = Duration::from_millis(30);

pub(super) fn open(store: &FileStore, team: &TeamName, after: u64) -> Result<Box<dyn Watch>> {
    let project = store.team(team)?.project().map(str::to_owned);
    let (sender, notices) = channel();
    // Where notification is unavailable (too many watches, for example), the poll alone finds every change.
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let notice = event.map_or(Some(Notice::Something), |event| Notice::of(&event));
        if let Some(notice) = notice {
            let _ = sender.send(notice);
        }
    });
    let watcher = watcher.ok_or_trace("be notified of changes");
    let mut watching = FileWatch::new(store, team, after, notices, watcher)?;
    watching.project = project;
    watching.begin()?;
    Ok(Box::new(watching))
}

/// A notification of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// Something may have changed.
    Something,
    /// A task file was written in place, which teamster never does.
    Rewritten,
}

impl Notice {
    /// Classifies a notification. Opening and reading are ignored: otherwise our own reads would notify us endlessly.
    fn of(event: &notify::Event) -> Option<Self> {
        let is_task = |path: &std::path::PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.and_then(layout::task_of_file).is_some()
        };
        match event.kind {
            EventKind::Access(_) => None,
            EventKind::Modify(ModifyKind::Data(_)) if event.paths.iter().any(is_task) => {
                Some(Self::Rewritten)
            }
            _ => Some(Self::Something),
        }
    }
}

struct FileWatch {
    dir: Dir,
    tasks: Option<Dir>,
    project: Option<String>,
    team: TeamName,
    seen: u64,
    places: ReadPlaces,
    notices: Receiver<Notice>,
    watcher: Option<notify::RecommendedWatcher>,
    beats: HashMap<WorkerName, Stamp>,
    beats_seen: Instant,
    folder: Option<(Option<Stamp>, Option<Stamp>)>,
    /// The hashes of the stamps of all task files, and the stamp of the registry, at the last comparison.
    files: HashMap<TaskId, u64>,
    config: Option<Stamp>,
    files_seen: Instant,
    /// Whether a task file was written in place.
    rewritten: bool,
    /// When an event was last seen.
    told: Option<Instant>,
    /// When files were first seen to have changed without an event.
    suspected: Option<Instant>,
    watched_beats: bool,
}

impl FileWatch {
    /// Returns a watch of a team's files that has compared nothing yet. It knows no project, and so no heartbeats.
    fn new(
        store: &FileStore,
        team: &TeamName,
        seen: u64,
        notices: Receiver<Notice>,
        watcher: Option<notify::RecommendedWatcher>,
    ) -> Result<Self> {
        Ok(Self {
            dir: store.folder_to_read(team)?,
            tasks: store.tasks_to_read(team)?,
            project: None,
            team: team.clone(),
            seen,
            places: ReadPlaces::default(),
            notices,
            watcher,
            beats: HashMap::new(),
            beats_seen: Instant::now(),
            folder: None,
            files: HashMap::new(),
            config: None,
            files_seen: Instant::now(),
            rewritten: false,
            told: None,
            suspected: None,
            watched_beats: false,
        })
    }

    fn begin(&mut self) -> Result<()> {
        if let Some(watcher) = &mut self.watcher {
            watcher
                .watch(self.dir.path(), RecursiveMode::NonRecursive)
                .or_trace("watch the folder of a team");
            if let Some(tasks) = &self.tasks {
                watcher
                    .watch(tasks.path(), RecursiveMode::NonRecursive)
                    .or_trace("watch the tasks of a team");
            }
        }
        self.beat_changes()?;
        self.folder = Some(self.stamps()?);
        self.files = self.all_files()?;
        self.config = self.dir.stamp(layout::CONFIG)?;
        Ok(())
    }

    /// Returns all task files, each with a hash that changes when the file does.
    fn all_files(&self) -> Result<HashMap<TaskId, u64>> {
        let mut all = HashMap::new();
        let Some(tasks) = &self.tasks else {
            return Ok(all);
        };
        for entry in tasks.entries()? {
            if let Some(id) = layout::task_of_file(&entry.name)
                && let Some(stamp) = tasks.stamp(&entry.name)?
            {
                let file = (stamp.inode, stamp.size, stamp.modified);
                all.insert(id, hash_of(format!("{file:?}")));
            }
        }
        Ok(all)
    }

    /// Returns the tasks whose files differ from the last comparison. An event may have hidden that another program
    /// wrote to one as well; reading these again is cheap.
    fn changed_files(&mut self) -> Result<Vec<Change>> {
        let now = self.all_files()?;
        let before = std::mem::take(&mut self.files);
        let other = now
            .iter()
            .filter(|(id, file)| before.get(*id) != Some(*file));
        let gone = before.keys().filter(|id| !now.contains_key(*id));
        let mut ids: Vec<TaskId> = other.map(|(id, _)| id).chain(gone).cloned().collect();
        ids.sort_unstable();
        self.files = now;
        Ok(ids.into_iter().map(Change::Task).collect())
    }

    fn stamps(&self) -> Result<(Option<Stamp>, Option<Stamp>)> {
        let tasks = self.tasks.as_ref().map(Dir::own_stamp).transpose()?;
        Ok((self.dir.stamp(layout::CONFIG)?, tasks))
    }

    fn beat_changes(&mut self) -> Result<Vec<Change>> {
        let mut now = HashMap::new();
        if let Some(dir) = heartbeat::folder(self.project.as_deref(), &self.team)? {
            if !self.watched_beats
                && let Some(watcher) = &mut self.watcher
            {
                self.watched_beats = watcher
                    .watch(dir.path(), RecursiveMode::NonRecursive)
                    .ok_or_trace("watch the heartbeats of a team")
                    .is_some();
            }
            for entry in dir.entries()? {
                if let Some(worker) = layout::worker_of_heartbeat(&entry.name)
                    && let Some(stamp) = dir.stamp(&entry.name)?
                {
                    now.insert(worker, stamp);
                }
            }
        }
        let mut changed: Vec<WorkerName> = now
            .iter()
            .filter(|(worker, stamp)| self.beats.get(*worker) != Some(*stamp))
            .map(|(worker, _)| worker.clone())
            .chain(
                self.beats
                    .keys()
                    .filter(|worker| !now.contains_key(*worker))
                    .cloned(),
            )
            .collect();
        changed.sort_unstable();
        self.beats = now;
        Ok(changed.into_iter().map(Change::Beat).collect())
    }

    /// Returns whether another program changed something. Teamster's own changes are followed by an event, so a changed
    /// folder is first matched with recent events: reading every task again after each of our own changes would cost
    /// more than the changes.
    fn is_foreign(&mut self, is_touched: bool, has_events: bool) -> bool {
        let now = Instant::now();
        if has_events {
            self.told = Some(now);
        }
        let is_ours = self.told.is_some_and(|told| now - told < SETTLING);
        if is_ours {
            self.suspected = None;
        } else if is_touched {
            self.suspected.get_or_insert(now);
        }
        let mut foreign = std::mem::take(&mut self.rewritten);
        foreign |= self.suspected.is_some_and(|since| now - since >= SETTLING);
        if foreign {
            self.suspected = None;
        }
        foreign
    }

    fn look(&mut self) -> Result<Vec<Change>> {
        let page = self.places.read(&self.dir, self.seen + 1, 1_000)?;
        let mut changes: Vec<Change> = page
            .events
            .into_iter()
            .map(|event| Change::Event(Box::new(event)))
            .collect();
        if let Some(Change::Event(last)) = changes.last() {
            self.seen = last.seq;
        }
        let stamps = self.stamps()?;
        let is_touched = self.folder.as_ref() != Some(&stamps);
        self.folder = Some(stamps);
        let mut is_foreign = self.is_foreign(is_touched, !changes.is_empty());
        if self.files_seen.elapsed() >= SLOW_POLL {
            self.files_seen = Instant::now();
            changes.extend(self.changed_files()?);
            let config = self.dir.stamp(layout::CONFIG)?;
            is_foreign |= std::mem::replace(&mut self.config, config) != config;
        }
        if is_foreign {
            changes.push(Change::Foreign);
        }
        if self.beats_seen.elapsed() >= BEATS {
            self.beats_seen = Instant::now();
            changes.extend(self.beat_changes()?);
        }
        Ok(changes)
    }
}

impl Watch for FileWatch {
    fn wait(&mut self, patience: Duration) -> Result<Vec<Change>> {
        let start = Instant::now();
        loop {
            let changes = self.look()?;
            let left = patience.saturating_sub(start.elapsed());
            if !changes.is_empty() || left.is_zero() {
                return Ok(changes);
            }
            let suspected = self
                .suspected
                .map(|since| SETTLING.saturating_sub(since.elapsed()));
            let pause = left.min(POLL).min(suspected.unwrap_or(POLL));
            match self.notices.recv_timeout(pause) {
                Ok(notice) => {
                    let all: Vec<Notice> = self.notices.try_iter().chain([notice]).collect();
                    self.rewritten |= all.contains(&Notice::Rewritten);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(left.min(POLL)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use teamster_fs::layout::Layout;
    use teamster_fs::{Durability, random_hex};
    use teamster_journal::NewEvent;
    use teamster_journal::payload::WorkerStarted;
    use teamster_types::team::NewTeam;

    use super::*;
    use crate::backend::SystemClock;
    use crate::file::FileStoreSettings;
    use crate::store::Store;

    /// Runs without notification.
    #[test]
    fn the_poll_alone_tells_everything() {
        let root = std::env::temp_dir().join(format!("teamster-poll-{}", random_hex()));
        let layout = Layout {
            claude: root.clone(),
            project: root.clone(),
            user_config: root.clone(),
            project_config: root.clone(),
            database: None,
        };
        let settings = FileStoreSettings {
            sync: Durability::Fast,
            ..FileStoreSettings::default()
        };
        let store = FileStore::open(&layout, Arc::new(SystemClock), settings).unwrap();
        let team: TeamName = "crew".parse().unwrap();
        let new = NewTeam {
            name: team.clone(),
            description: String::new(),
            project: root.display().to_string(),
            members: Vec::new(),
            run: None,
        };
        store.create_team(&new, None).unwrap();
        let (_sender, notices) = channel();
        let mut watch = FileWatch::new(&store, &team, 1, notices, None).unwrap();
        watch.begin().unwrap();
        let seen = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                // The changed files may be seen before the event.
                loop {
                    let seen = watch.wait(Duration::from_secs(10)).unwrap();
                    if seen != [Change::Foreign] {
                        return seen;
                    }
                }
            });
            let event = NewEvent::new(
                "test",
                teamster_journal::EventKind::WorkerStarted(WorkerStarted::default()),
            );
            store.record(&team, event).unwrap();
            watcher.join().unwrap()
        });
        assert!(
            matches!(seen.first(), Some(Change::Event(event)) if event.seq == 2),
            "{seen:?}"
        );
        teamster_fs::remove_tree(
            &Dir::open_root(root.parent().unwrap()).unwrap().unwrap(),
            root.file_name().unwrap().to_str().unwrap(),
        )
        .unwrap();
    }
}
