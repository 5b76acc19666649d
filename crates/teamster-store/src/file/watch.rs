//! Changes as they happen: file notification, and a slow poll behind it because notification may miss.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use notify::{RecursiveMode, Watcher};
use teamster_fs::{Dir, Stamp, layout};
use teamster_types::{TeamName, WorkerName};

use super::{FileStore, heartbeat, journal};
use crate::error::Result;
use crate::store::Read;
use crate::watch::{Change, Watch};

/// How long a change may go unnoticed where notification does not work.
const POLL: Duration = Duration::from_millis(500);

pub(super) fn open(store: &FileStore, team: &TeamName, after: u64) -> Result<Box<dyn Watch>> {
    let project = store.team(team)?.project().map(str::to_owned);
    let (sender, notices) = channel();
    // Where the system has no notification to give (too many watches, say), the poll alone still tells everything.
    let watcher = notify::recommended_watcher(move |_| {
        let _ = sender.send(());
    });
    let (dir, tasks) = store.folders_to_read(team)?;
    let mut watching = FileWatch {
        dir,
        tasks,
        project,
        team: team.clone(),
        seen: after,
        notices,
        watcher: watcher.ok(),
        beats: HashMap::new(),
        folder: None,
        watched_beats: false,
    };
    watching.begin()?;
    Ok(Box::new(watching))
}

struct FileWatch {
    dir: Dir,
    tasks: Option<Dir>,
    project: Option<String>,
    team: TeamName,
    seen: u64,
    notices: Receiver<()>,
    watcher: Option<notify::RecommendedWatcher>,
    beats: HashMap<WorkerName, Stamp>,
    folder: Option<(Option<Stamp>, Option<Stamp>)>,
    watched_beats: bool,
}

impl FileWatch {
    fn begin(&mut self) -> Result<()> {
        if let Some(watcher) = &mut self.watcher {
            let _ = watcher.watch(self.dir.path(), RecursiveMode::NonRecursive);
            if let Some(tasks) = &self.tasks {
                let _ = watcher.watch(tasks.path(), RecursiveMode::NonRecursive);
            }
        }
        self.beat_changes()?;
        self.folder = Some(self.stamps()?);
        Ok(())
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
                    .is_ok();
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

    fn look(&mut self) -> Result<Vec<Change>> {
        let page = journal::read(&self.dir, self.seen + 1, 1_000)?;
        let mut changes: Vec<Change> = page
            .events
            .into_iter()
            .map(|event| Change::Event(Box::new(event)))
            .collect();
        if let Some(Change::Event(last)) = changes.last() {
            self.seen = last.seq;
        }
        let stamps = self.stamps()?;
        if self.folder.as_ref() != Some(&stamps) {
            self.folder = Some(stamps);
            // Our own writers leave an event behind; without one it was somebody else.
            if changes.is_empty() {
                changes.push(Change::Foreign);
            }
        }
        changes.extend(self.beat_changes()?);
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
            match self.notices.recv_timeout(left.min(POLL)) {
                Ok(()) => while self.notices.try_recv().is_ok() {},
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(left.min(POLL)),
            }
        }
    }
}
