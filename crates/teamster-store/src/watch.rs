//! Noticing changes: all changes of a team as they happen, what one worker listens for, and in which of many folders
//! something happened.

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
    /// A worker's heartbeat was written or taken away.
    Beat(WorkerName),
    /// The file of a task is not what it was some seconds ago, whoever wrote it: behind an event that told of it already,
    /// or behind nothing.
    Task(TaskId),
    /// Files changed without an event, as when a program that is not ours writes to them. A change of ours whose event
    /// is not readable yet may be told this way first: better one look too many than a change that nobody sees.
    Foreign,
}

/// Tells of changes as they happen.
pub trait Watch: Send {
    /// Waits up to `patience` for the next changes; empty when nothing happened. Events come in order, each once.
    fn wait(&mut self, patience: Duration) -> Result<Vec<Change>>;
}

/// Tells whether anything may have changed since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Changes with every event.
    pub journal: u64,
    /// Changes with every change of the task files, by whomever; a renewed lease is one too.
    pub tasks: u64,
    /// Changes when Claude Code writes to the worker, in a team of its own.
    pub client_inbox: u64,
    /// Changes with every line in the worker's inbox, by whomever.
    pub mail: u64,
}

/// Holds what a worker heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Changes when the team may have changed.
    pub pulse: Pulse,
    /// The stop signals that wait for the worker.
    pub signals: Vec<Signal>,
    /// Whether somebody on another machine wants to read the worker's logs.
    pub wants_logs: bool,
}

/// Listens for one worker, whether it works or waits.
///
/// It may keep things open, so that a hundred workers who hear nothing cost next to nothing.
pub trait Listen: Send {
    /// Returns what there is to hear now.
    fn hear(&mut self) -> Result<Heard>;
}

/// Folders that are watched, each without those in it. One notification of the system serves them all.
///
/// A notice may be missed (too many watches, a network file system), so whoever relies on it looks by itself now and then.
pub struct Folders {
    watcher: Option<notify::RecommendedWatcher>,
    notices: Receiver<PathBuf>,
    watched: BTreeSet<PathBuf>,
}

impl Folders {
    /// Watches no folder yet.
    pub fn new() -> Self {
        let (sender, notices) = channel();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // That a file was opened or read is no news, and our own looks would be told to us for ever.
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

    /// Watches these folders and no others. Returns those that were not watched before, in which something may have
    /// happened unnoticed. One that is not there is tried again the next time.
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

    /// Tells whether a folder is watched.
    pub fn is_watched(&self, folder: &Path) -> bool {
        self.watched.contains(folder)
    }

    /// Waits up to `patience` for something to happen, and returns the files that it happened to.
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

impl Default for Folders {
    fn default() -> Self {
        Self::new()
    }
}
