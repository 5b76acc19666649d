//! Publishes the sessions that are known by their state files.
//!
//! They have their own thread: updating a large team takes long, and a small file must not wait for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use teamster_fs::layout;
use teamster_store::FolderWatcher;
use teamster_view::model::{Sessions, TeamView};

use super::Hub;
use super::subscriber::{Subscriber, message};
use crate::api::{Gone, Hello};
use crate::error::ApiError;

/// The poll interval: ages change, a notification may be missed, and folders are created.
const TICK: Duration = Duration::from_secs(1);
/// The minimum interval between two reads of a file that is written continuously. Reading takes at most a fifth of the
/// time, but the next read is never delayed by more than `LONGEST_PAUSE`.
const BETWEEN: Duration = Duration::from_millis(2);
const TIMES_ITS_COST: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// Clients that follow one session each.
#[derive(Default)]
pub(super) struct SessionListeners(Mutex<Vec<SessionListener>>);

struct SessionListener {
    key: String,
    project: PathBuf,
    subscriber: Subscriber,
    /// The view that it was last sent.
    shown: Option<TeamView>,
}

impl SessionListeners {
    pub(super) fn count(&self) -> usize {
        let listeners = self.lock();
        let here = listeners.iter().filter(|one| !one.subscriber.is_gone());
        here.count()
    }

    pub(super) fn send_keepalive(&self, event: &Bytes) {
        self.lock()
            .retain(|listener| listener.subscriber.offer(event));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SessionListener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionListener {
    /// Sends the current view if it changed. A state file is small, so the whole view is sent. Returns `false` when
    /// there is nothing more to send.
    fn show(&mut self, now: Option<&TeamView>) -> bool {
        if self.shown.as_ref() == now {
            return true;
        }
        self.shown = now.cloned();
        if let Some(view) = now {
            return self.subscriber.offer(&message("view", None, view));
        }
        let gone = Gone {
            message: "the session no longer exists".to_owned(),
        };
        self.subscriber.end_with(&message("gone", None, &gone));
        false
    }
}

/// Returns whether a change of this path may be one of a state file, and not of a temporary file beside it.
fn may_be_state(project: &Path, path: &Path) -> bool {
    let bkit = project.join(layout::BKIT);
    path == bkit
        || path == bkit.join(layout::AGENT_STATE)
        || path.starts_with(bkit.join(layout::STATE_SESSIONS))
}

impl Hub {
    /// Subscribes a client to one session.
    pub fn subscribe_to_session(&self, key: &str, subscriber: Subscriber) -> Result<(), ApiError> {
        let found = self.find_session(key);
        let (project, view) =
            found.ok_or_else(|| ApiError::not_found(format!("there is no session {key}")))?;
        let hello = Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            team: Some(key.to_owned()),
        };
        subscriber.offer(&message("hello", None, &hello));
        subscriber.offer(&message("view", None, &view));
        self.sessions.lock().push(SessionListener {
            key: key.to_owned(),
            project: project.clone(),
            subscriber,
            shown: Some(view),
        });
        // A change since the session was read has only been sent to the existing listeners.
        self.show_sessions(|listener| listener.project == project);
        Ok(())
    }

    /// Returns a session and its project.
    pub(super) fn find_session(&self, key: &str) -> Option<(PathBuf, TeamView)> {
        let now = self.read.now();
        self.projects().into_iter().find_map(|project| {
            let project = PathBuf::from(project);
            let view = Sessions::of(&self.settings.layout, &project).view(key, now)?;
            Some((project, view))
        })
    }

    /// Publishes sessions until the process ends.
    pub(super) fn tell_sessions(&self) {
        let mut folders = FolderWatcher::new();
        let mut looked = Instant::now();
        loop {
            if !folders.watch_only(&self.session_folders()).is_empty() {
                self.show_sessions(|_| true);
            }
            let touched = folders.wait(TICK.saturating_sub(looked.elapsed()));
            let begun = Instant::now();
            if touched.is_empty() {
                self.show_sessions(|_| true);
                looked = Instant::now();
            } else {
                self.show_sessions(|listener| {
                    touched
                        .iter()
                        .any(|path| may_be_state(&listener.project, path))
                });
            }
            let pause = BETWEEN.max(begun.elapsed() * TIMES_ITS_COST);
            std::thread::sleep(pause.min(LONGEST_PAUSE));
        }
    }

    /// Returns the folders that may contain state files, whether or not they are being viewed.
    fn session_folders(&self) -> BTreeSet<PathBuf> {
        let projects = self.projects().into_iter().map(PathBuf::from);
        let folders = projects.flat_map(|project| {
            let bkit = project.join(layout::BKIT);
            [bkit.join(layout::STATE_SESSIONS), bkit, project]
        });
        folders.filter(|folder| folder.is_dir()).collect()
    }

    /// Sends changed sessions to their listeners, as far as they are `wanted`.
    fn show_sessions(&self, wanted: impl Fn(&SessionListener) -> bool) {
        let keys: BTreeSet<(String, PathBuf)> = {
            let listeners = self.sessions.lock();
            let wanted = listeners.iter().filter(|listener| wanted(listener));
            wanted
                .map(|listener| (listener.key.clone(), listener.project.clone()))
                .collect()
        };
        for (key, project) in keys {
            let sessions = Sessions::of(&self.settings.layout, &project);
            // Read under the lock: otherwise, of two concurrent reads, the older result could be sent last.
            let mut listeners = self.sessions.lock();
            let now = sessions.view(&key, self.read.now());
            // Another program may be writing the file in place; the last view stays until the file is complete again.
            if now.is_none() && sessions.has_damaged() {
                continue;
            }
            listeners.retain_mut(|listener| {
                listener.key != key || listener.project != project || listener.show(now.as_ref())
            });
        }
    }
}
