//! Whether the work holds: which commands prove it, what they say, and what of that the team has to answer for.
//!
//! [`detect()`] finds the checks that a project's own files show. A [`Verifier`] runs one of them to its end and leaves
//! no process behind. [`charge()`] compares what it said with what the same command said before the work began.
//!
//! A check that fails is run once more at once. One that passes then is flaky: it is told as that, and never as passed.

mod charge;
mod detect;
mod environment;
mod event;
mod output;
mod run;

use serde::{Deserialize, Serialize};

pub use charge::{Charge, charge};
pub use detect::{Detected, Skipped, detect};
pub use run::{NotRun, Place, Verifier};

/// A command that proves something, by exit code 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// For `sh -c`.
    pub command: String,
    /// Who wants it: `--verify`, a preset, or the file that it was found in.
    pub source: String,
    /// Whether a person asked for it. An order of an older teamster does not say, and is treated as the project's.
    #[serde(default)]
    pub origin: Origin,
}

/// Whose command a check is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// It comes with the project, so it runs only after the user accepted it.
    #[default]
    Project,
    /// A person asked for it: on the command line, in a preset of their own, or by the plan of the run.
    Person,
}

impl Check {
    /// Returns a check that a person asks for.
    pub fn new(command: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            source: source.into(),
            origin: Origin::Person,
        }
    }

    /// Returns a check that comes with the project.
    pub fn of_project(command: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            origin: Origin::Project,
            ..Self::new(command, source)
        }
    }
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It passed, the first time.
    Passed,
    /// It failed twice.
    Failed,
    /// It failed, and passed when it was run again at once.
    Flaky,
    /// It did not end in time. It is not run again: that would take as long once more.
    TimedOut,
    /// Somebody did not want to wait for its end. It says nothing about the work.
    Stopped,
}

impl Verdict {
    /// In one word or two, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Flaky => "flaky",
            Self::TimedOut => "timed out",
            Self::Stopped => "stopped",
        }
    }

    /// Whether it says that something is wrong.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut)
    }
}

/// A check that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// The command.
    pub command: String,
    /// Who wanted it.
    pub source: String,
    /// What came of it.
    pub verdict: Verdict,
    /// Its exit code, where it ended by itself; of a flaky one that of the run that failed.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long it took, a second run included.
    pub seconds: f64,
    /// The last 200 lines of what it printed, redacted and cleaned; of a flaky one those of the run that failed.
    pub last: String,
    /// The file in the project with all that it printed, or the first and last part of that; empty if there is none.
    pub log: String,
    /// What else a person should know: processes that it left, a log that could not be written.
    pub remarks: Vec<String>,
}
