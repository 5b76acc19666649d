//! Observes everything that teamster shows at one moment.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::super::session_files::STATE;
use super::truth::Truth;
use crate::product::{Finished, unix_time, words};

/// How many polls there are for each frame of `top`, which is the most expensive.
const TOP: usize = 5;

/// What was shown at one moment, between two readings of the truth.
#[derive(Debug, Default)]
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

/// A running session, and the programs with which teamster is called beside it.
#[derive(Clone, Debug)]
pub(super) struct LabSession {
    pub(super) folder: PathBuf,
    pub(super) programs: PathBuf,
}

impl LabSession {
    /// Returns a call with the home and the project of the session.
    pub(super) fn command(&self, line: &str) -> Command {
        let socket = self.folder.join("tmux.sock");
        let mut command = Command::new(self.programs.join("teamster"));
        command
            .args(words(line))
            .env_clear()
            .env("HOME", self.folder.join("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TMUX", format!("{},1,0", socket.display()))
            .current_dir(self.folder.join("project"));
        command
    }

    fn ask(&self, line: &str) -> Value {
        let asked = Finished::of(&mut self.command(line)).ok();
        asked.and_then(|answer| answer.json()).unwrap_or_default()
    }

    /// Returns whether the lab's script has made the project.
    pub(super) fn is_ready(&self) -> bool {
        let is_there = |name: &str| self.folder.join(name).is_dir();
        is_there("project/.git") && is_there("home/.claude")
    }

    /// Reads and asks everything once.
    pub(super) fn look(&self, number: usize) -> Look {
        let (at, before) = (unix_time(), Truth::read(&self.folder));
        let read = || std::fs::read(self.folder.join("project").join(STATE)).ok();
        let bytes = read();
        let state: Option<Value> =
            (bytes.as_ref()).and_then(|bytes| serde_json::from_slice(bytes).ok());
        let is_top = number.is_multiple_of(TOP);
        Look {
            at,
            before,
            is_torn: bytes.is_some() && state.is_none(),
            state,
            status: self.ask("status --json"),
            zombies: self.ask("zombies scan --json"),
            top: is_top.then(|| self.ask("top --once --json")),
            after: Truth::read(&self.folder),
            until: unix_time(),
            was_written: read() != bytes,
        }
    }
}
