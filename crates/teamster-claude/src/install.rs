//! Installs teamster's hooks in the client's settings, after those of other tools, and removes exactly these again.
//!
//! The settings are the user's own text. A change is an edit of that text (`merge`, `edit`) at positions found by a
//! strict parser (`json`): every other byte is kept, whatever its indentation, line endings or order. Settings that are
//! not plain JSON are not edited; the error shows what to paste.
//!
//! Removal is the exact inverse of installation, to the byte. Where the text alone is ambiguous (was `hooks` missing or
//! `{}`?), the backup decides: it is the original if adding the hooks to it results in the current settings. A backup
//! that contains nothing beyond the settings is removed with the hooks, so nothing is left behind.

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
pub use servers::{SettingsError, put_server, take_server};
pub use settings::{install, is_installed, uninstall};

/// How long to wait for another installation.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which settings to change.
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

/// What to install or remove, and where.
#[derive(Clone, Debug)]
pub struct InstallRequest<'a> {
    /// The folders of the client and of the project.
    pub layout: &'a Layout,
    /// Which settings to change.
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

/// The result of an installation or removal, or with `dry_run` what it would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallOutcome {
    /// The path of the settings file.
    pub settings: PathBuf,
    /// The real file, if the path is a symbolic link.
    pub real: Option<PathBuf>,
    /// Whether anything was changed.
    pub changed: bool,
    /// The events for which hooks were added or removed.
    pub events: Vec<String>,
    /// The backup of the previous settings.
    pub backup: Option<PathBuf>,
    /// Backups with content that the settings no longer have.
    pub kept_backups: Vec<PathBuf>,
    /// A diff of every changed file.
    pub diff: String,
    /// Further remarks for the user.
    pub remarks: Vec<String>,
}
