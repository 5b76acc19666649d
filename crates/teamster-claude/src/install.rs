//! Installs our hooks in the client's settings, behind those of others, and removes exactly ours again.
//!
//! The settings are the user's own text. A change is an edit of that text (`merge`, `edit`) at places that a strict reader
//! finds (`json`): every byte that is not ours stays, whatever indentation, line ends or order it has. What is no plain
//! JSON is not edited; the refusal shows what to paste.
//!
//! Removing is the inverse of installing, to the byte. Where the text alone cannot tell (was `hooks` missing or
//! `{}`?), the backup can: it is what the settings were, if putting our hooks into it gives what they are now. A
//! backup that has nothing the settings do not have is removed with the hooks, so nothing is left behind.

mod backup;
mod diff;
mod edit;
pub mod hooks;
mod ignore;
mod json;
mod merge;
mod project;
#[cfg(test)]
mod property;
mod servers;
mod settings;

use std::path::PathBuf;
use std::time::Duration;

use teamster_fs::layout::{LOCAL_SETTINGS, Layout, PROJECT_CLAUDE, SETTINGS};
use teamster_types::Time;

pub use diff::diff;
pub use ignore::{FOLDERS, HEADING};
pub use servers::{UnfitSettings, put_server, take_server};
pub use settings::{install, is_installed, uninstall};

/// Limits how long we wait for another install.
const PATIENCE: Duration = Duration::from_secs(5);

/// Names whose settings are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The user's, for every project.
    User,
    /// The project's, shared with everybody who works on it.
    Project,
    /// The project's, for this user only.
    Local,
}

impl Scope {
    /// Returns the name of the scope on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }

    /// Returns the path of the settings of this scope.
    pub fn settings(self, layout: &Layout) -> PathBuf {
        let project = layout.project.join(PROJECT_CLAUDE);
        match self {
            Self::User => layout.claude.join(SETTINGS),
            Self::Project => project.join(SETTINGS),
            Self::Local => project.join(LOCAL_SETTINGS),
        }
    }
}

/// Holds what to install or remove, and where.
#[derive(Clone, Debug)]
pub struct InstallRequest<'a> {
    /// The folders of the client and of the project.
    pub layout: &'a Layout,
    /// The settings that are changed.
    pub scope: Scope,
    /// The absolute path of the binary that the client will call.
    pub program: &'a str,
    /// Whether the events of tools are left out.
    pub light: bool,
    /// Whether nothing is written and only the outcome is returned.
    pub dry_run: bool,
    /// The time, for the name of a backup.
    pub now: Time,
}

/// Tells what was done, or with `dry_run` would be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallOutcome {
    /// The settings, as they are named.
    pub settings: PathBuf,
    /// The real file, when a link led to it.
    pub real: Option<PathBuf>,
    /// Whether anything was changed.
    pub changed: bool,
    /// The events that our hooks stand for, or stood for.
    pub events: Vec<String>,
    /// The settings as they were.
    pub backup: Option<PathBuf>,
    /// Backups that hold something the settings do not have any more.
    pub kept_backups: Vec<PathBuf>,
    /// Every change of a text.
    pub diff: String,
    /// What else a person should know.
    pub remarks: Vec<String>,
}
