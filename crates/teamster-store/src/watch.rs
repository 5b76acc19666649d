//! Change notification: every change of a team as it happens, what one worker listens for, and which of many folders
//! changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use notify::event::EventKind;
use notify::{RecursiveMode, Watcher};
use teamster_fs::OrTrace as _;
use teamster_journal::Event;
use teamster_types::{TaskId, WorkerName};

use crate::error::Result;
use crate::store::Signal;

/// A change that was noticed.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The journal has a new event.
    Event(Box<Event>),
    /// A worker's heartbeat was written or removed.
    Beat(WorkerName),
    /// A task file differs from some seconds ago, whichever program wrote it. An event may or may not have reported the
    /// change already.
    Task(TaskId),
    /// Files changed without an event, because a foreign program wrote to them. A change by teamster whose event is not
    /// readable yet may be reported this way first: a needless read is better than a missed change.
    Foreign,
}

/// Reports the changes of a team as they happen.
pub trait Watch: Send {
    /// Waits up to `patience` for the next changes; empty when nothing happened. Events are reported in order, each
    /// once.
    fn wait(&mut self, patience: Duration) -> Result<Vec<Change>>;
}

/// Counters that differ when something may have changed since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounters {
    /// Changes with every event.
    pub journal: u64,
    /// Changes with every change of the tasks by any program. In the file store the renewal of a lease counts, too.
    pub tasks: u64,
    /// Changes when Claude Code writes to the worker, in a team that Claude Code owns.
    pub client_inbox: u64,
    /// Changes with every line that any program adds to the worker's inbox.
    pub mail: u64,
}

/// What a listener found for its worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerUpdate {
    /// Changes when the team may have changed.
    pub pulse: ChangeCounters,
    /// The pending stop signals of the worker.
    pub signals: Vec<Signal>,
    /// Whether a process on another machine has asked for the worker's logs.
    pub wants_logs: bool,
}

/// Checks for signals and changes on behalf of one worker, busy or idle.
///
/// An implementation may keep files or connections open, so that a hundred idle workers cost next to nothing.
pub trait Listen: Send {
    /// Returns the current signals and counters.
    fn poll(&mut self) -> Result<ListenerUpdate>;
}

/// A set of watched folders, without their subfolders. One watcher of the operating system serves them all.
///
/// A notification may be missed (too many watches, a network file system), so callers must also poll.
pub struct FolderWatcher {
    watcher: Option<notify::RecommendedWatcher>,
    notices: Receiver<PathBuf>,
    watched: BTreeSet<PathBuf>,
}

impl FolderWatcher {
    /// Returns a watcher without folders.
    pub fn new() -> Self {
        let (sender, notices) = channel();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Opening and reading are ignored: otherwise our own reads would notify us endlessly.
            if let Ok(event) = event
                && !matches!(event.kind, EventKind::Access(_))
            {
                for path in event.paths {
                    let _ = sender.send(path);
                }
            }
        });
        Self {
            watcher: watcher.ok_or_trace("be notified of changes"),
            notices,
            watched: BTreeSet::new(),
        }
    }

    /// Watches these folders and no others. Returns the folders that were not watched before, in which changes may have
    /// been missed. A folder that does not exist is tried again with the next call.
    pub fn watch_only(&mut self, wanted: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let mut new = Vec::new();
        let Some(watcher) = &mut self.watcher else {
            return new;
        };
        self.watched.retain(|folder| {
            let stays = wanted.contains(folder) && folder.is_dir();
            if !stays {
                watcher.unwatch(folder).or_trace("stop watching a folder");
            }
            stays
        });
        for folder in wanted {
            if self.watched.contains(folder) {
                continue;
            }
            let begun = watcher.watch(folder, RecursiveMode::NonRecursive);
            if begun.ok_or_trace("watch a folder").is_some() {
                self.watched.insert(folder.clone());
                new.push(folder.clone());
            }
        }
        new
    }

    /// Returns whether a folder is watched.
    pub fn is_watched(&self, folder: &Path) -> bool {
        self.watched.contains(folder)
    }

    /// Waits up to `patience` for a change, and returns the files that changed.
    pub fn wait(&self, patience: Duration) -> BTreeSet<PathBuf> {
        match self.notices.recv_timeout(patience) {
            Ok(first) => self.notices.try_iter().chain([first]).collect(),
            Err(RecvTimeoutError::Timeout) => BTreeSet::new(),
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(patience);
                BTreeSet::new()
            }
        }
    }
}

impl Default for FolderWatcher {
    fn default() -> Self {
        Self::new()
    }
}
