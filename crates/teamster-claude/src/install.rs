//! Our hooks in the client's settings: put in behind those of others, and exactly ours taken out again.
//!
//! The settings are the user's own text. A change is an edit of that text ([`merge`]) at the places a scanner of our
//! own finds ([`json`]): every byte that is not ours stays, whatever indentation, line ends or order it has. What is
//! no plain JSON is not edited; the refusal shows what to paste.
//!
//! Taking out is the inverse of putting in, to the byte. Where the text alone cannot tell (was `hooks` missing or
//! `{}`?), the backup can: it is what the settings were, if putting our hooks into it gives what they are now. A
//! backup that has nothing the settings do not have is removed with the hooks, so nothing is left behind.

mod backup;
mod diff;
pub mod hooks;
mod ignore;
mod json;
mod merge;
mod project;
#[cfg(test)]
mod property;
mod settings;

use std::path::PathBuf;
use std::time::Duration;

use teamster_fs::layout::{LOCAL_SETTINGS, Layout, PROJECT_CLAUDE, SETTINGS};
use teamster_types::Time;

pub use diff::diff;
pub use ignore::{FOLDERS, HEADING};
pub use settings::{install, is_installed, uninstall};

/// How long another install may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whose settings.
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
    /// As it is named on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }

    /// Where its settings are.
    pub fn settings(self, layout: &Layout) -> PathBuf {
        let project = layout.project.join(PROJECT_CLAUDE);
        match self {
            Self::User => layout.claude.join(SETTINGS),
            Self::Project => project.join(SETTINGS),
            Self::Local => project.join(LOCAL_SETTINGS),
        }
    }
}

/// What to install, where.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Where things are.
    pub layout: &'a Layout,
    /// Whose settings.
    pub scope: Scope,
    /// The absolute path of the binary that the client will call.
    pub program: &'a str,
    /// Without the events of tools.
    pub light: bool,
    /// Only say what would happen.
    pub dry_run: bool,
    /// The time, for the name of a backup.
    pub now: Time,
}

/// What was done, or with `dry_run` would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
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
