//! Observes everything that teamster shows, on a thread that polls every 200 ms.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::judge::Judge;
use super::truth::{Truth, now};
use crate::product::Finished;

/// The poll interval.
const LOOK: Duration = Duration::from_millis(200);
/// How many polls there are for each frame of `top`, which is the most expensive.
const TOP: usize = 5;

/// What was shown at one moment, between two readings of the truth.
#[derive(Debug)]
pub(super) struct Look {
    /// When the observation began and ended.
    pub(super) at: Duration,
    pub(super) until: Duration,
    pub(super) before: Truth,
    pub(super) after: Truth,
    pub(super) state: Option<Value>,
    pub(super) is_torn: bool,
    /// Whether a hook wrote the state meanwhile.
    pub(super) was_written: bool,
    pub(super) status: Value,
    pub(super) zombies: Value,
    pub(super) top: Option<Value>,
}

impl Look {
    /// Returns whether nothing changed meanwhile.
    pub(super) fn is_still(&self) -> bool {
        self.before == self.after && !self.was_written
    }
}

/// How teamster is called beside a session.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    pub(super) session: PathBuf,
    pub(super) programs: PathBuf,
}

impl Beside {
    /// Returns a call with the home and the project of the session.
    pub(super) fn command(&self, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(self.programs.join("teamster"));
        command
            .args(line.split(' '))
            .env_clear()
            .env("HOME", self.session.join("home"))
            .env("PATH", path)
            .env(
                "TMUX",
                format!("{},1,0", self.session.join("tmux.sock").display()),
            )
            .current_dir(self.session.join("project"));
        command
    }

    fn ask(&self, line: &str) -> Value {
        let asked = Finished::of(&mut self.command(line)).ok();
        asked.and_then(|answer| answer.json()).unwrap_or_default()
    }

    fn look(&self, number: usize) -> Look {
        let (at, before) = (now(), Truth::read(&self.session));
        let file = self.session.join("project/.bkit/agent-state.json");
        let read = || std::fs::read(&file).ok();
        let bytes = read();
        let state = bytes
            .as_ref()
            .and_then(|bytes| serde_json::from_slice(bytes).ok());
        let is_torn = bytes.is_some() && state.is_none();
        let status = self.ask("status --json");
        let zombies = self.ask("zombies scan --json");
        let top = number
            .is_multiple_of(TOP)
            .then(|| self.ask("top --once --json"));
        let (after, until) = (Truth::read(&self.session), now());
        let was_written = read() != bytes;
        Look {
            at,
            until,
            before,
            after,
            state,
            is_torn,
            was_written,
            status,
            zombies,
            top,
        }
    }
}

/// The thread that polls.
pub(super) struct Looks {
    over: Arc<AtomicBool>,
    judge: Arc<Mutex<Judge>>,
    thread: Option<JoinHandle<()>>,
}

impl Looks {
    pub(super) fn begin(beside: Beside) -> Self {
        let (over, judge) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Mutex::new(Judge::default())),
        );
        let (ends, judged) = (over.clone(), judge.clone());
        let thread = std::thread::spawn(move || {
            let mut number = 0;
            while !ends.load(Ordering::Relaxed) {
                let start = Instant::now();
                if is_ready(&beside.session) {
                    let look = beside.look(number);
                    number += 1;
                    judged
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .look(&beside.session, &look);
                }
                std::thread::sleep(LOOK.saturating_sub(start.elapsed()));
            }
        });
        Self {
            over,
            judge,
            thread: Some(thread),
        }
    }

    /// Records that the session is over from now on.
    pub(super) fn session_is_over(&self) {
        self.judge
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .over = Some(now());
    }

    /// Ends the thread and returns its observations.
    pub(super) fn end(mut self) -> Judge {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        std::mem::take(&mut self.judge.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns whether the lab's script has made the project.
fn is_ready(session: &Path) -> bool {
    session.join("project/.git").is_dir() && session.join("home/.claude").is_dir()
}
