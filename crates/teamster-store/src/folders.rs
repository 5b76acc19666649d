//! Which of many folders something happened in, as the system tells it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use notify::event::EventKind;
use notify::{RecursiveMode, Watcher};

/// Folders that are watched, each without those in it. One notification of the system serves them all.
///
/// A notice may be missed (too many watches, a network file system), so whoever relies on it looks by itself now and then.
pub struct Folders {
    watcher: Option<notify::RecommendedWatcher>,
    notices: Receiver<PathBuf>,
    watched: BTreeSet<PathBuf>,
}

impl Folders {
    /// None yet.
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
            watcher: watcher.ok(),
            notices,
            watched: BTreeSet::new(),
        }
    }

    /// Watches these folders and no others; those that were not watched before, in which something may have happened
    /// unnoticed. One that is not there is tried again the next time.
    pub fn watch_only(&mut self, wanted: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let mut new = Vec::new();
        let Some(watcher) = &mut self.watcher else {
            return new;
        };
        self.watched.retain(|folder| {
            let stays = wanted.contains(folder) && folder.is_dir();
            if !stays {
                let _ = watcher.unwatch(folder);
            }
            stays
        });
        for folder in wanted {
            if !self.watched.contains(folder)
                && watcher.watch(folder, RecursiveMode::NonRecursive).is_ok()
            {
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

    /// Waits up to `patience` for something to happen; the files it happened to.
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
