//! Payloads about checks: commands that prove the work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{list, text_or_lines, text_or_null};
use crate::kind::EventKind;

/// A command that proves something, by exit code 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The command, for `sh -c`.
    pub command: String,
    /// Who wants it: `--verify`, a preset, or the file that it was found in.
    #[serde(default)]
    pub source: String,
    /// Whether a person asked for it. A run of an older version does not say, and its check is treated as the project's.
    #[serde(default)]
    pub origin: CheckOrigin,
    /// Whether it is a target of the work: it is to pass in the end even if it failed before the work began.
    #[serde(default, rename = "target", skip_serializing_if = "std::ops::Not::not")]
    pub is_target: bool,
}

/// Whose command a check is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckOrigin {
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
            origin: CheckOrigin::Person,
            is_target: false,
        }
    }

    /// Returns the same check as a target of the work.
    #[must_use]
    pub fn as_target(self) -> Self {
        Self {
            is_target: true,
            ..self
        }
    }

    /// Returns a check that comes with the project.
    pub fn of_project(command: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            origin: CheckOrigin::Project,
            ..Self::new(command, source)
        }
    }
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckVerdict {
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

impl CheckVerdict {
    /// Returns one word or two, for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Flaky => "flaky",
            Self::TimedOut => "timed out",
            Self::Stopped => "stopped",
        }
    }

    /// Returns whether it says that something is wrong.
    pub const fn is_failure(self) -> bool {
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
    pub verdict: CheckVerdict,
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

/// The payload of `verify.started`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CheckStarted {
    /// What is checked: `base` before the work begins, else `integration`.
    pub on: String,
    /// The commit.
    pub commit: String,
    /// The command.
    pub command: String,
    /// Names the process that was started, so that a successor finds it.
    pub launch: String,
    /// The round of fixing.
    pub round: u32,
}

/// The payload of `verify.passed`, `verify.failed` and `verify.flaky`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckResult {
    /// What was checked: `base` before the work begins, else `integration`.
    pub on: String,
    /// The commit.
    pub commit: String,
    /// The round of fixing.
    pub round: u32,
    /// The command.
    pub command: String,
    /// Who wanted it.
    pub source: String,
    /// What came of it, in more detail than the kind of the event.
    pub verdict: Option<CheckVerdict>,
    /// Its exit code, where it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long it took.
    pub seconds: f64,
    /// The last lines of what it printed.
    #[serde(deserialize_with = "text_or_lines")]
    pub last: String,
    /// The file in the project with all that it printed.
    #[serde(deserialize_with = "text_or_null")]
    pub log: String,
    /// What else a person should know.
    #[serde(deserialize_with = "list")]
    pub remarks: Vec<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Whether it did not end in time.
    pub timed_out: bool,
    /// Whether it fails and the team has to answer for that. Nothing is excused because somebody did not say so.
    pub charged: bool,
}

impl Default for CheckResult {
    fn default() -> Self {
        Self {
            on: String::new(),
            commit: String::new(),
            round: 0,
            command: String::new(),
            source: String::new(),
            verdict: None,
            exit_code: None,
            signal: None,
            seconds: 0.0,
            last: String::new(),
            log: String::new(),
            remarks: Vec::new(),
            duration_ms: 0,
            timed_out: false,
            charged: true,
        }
    }
}

impl CheckResult {
    /// Returns what is written about a check that was run on `commit`.
    pub fn new(on: &str, commit: &str, round: u32, checked: &Checked, charged: bool) -> Self {
        let checked = checked.clone();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "no check takes centuries"
        )]
        let duration_ms = (checked.seconds * 1000.0).max(0.0) as u64;
        Self {
            on: on.to_owned(),
            commit: commit.to_owned(),
            round,
            command: checked.command,
            source: checked.source,
            verdict: Some(checked.verdict),
            exit_code: checked.exit_code,
            signal: checked.signal,
            seconds: checked.seconds,
            last: checked.last,
            log: checked.log,
            remarks: checked.remarks,
            duration_ms,
            timed_out: checked.verdict == CheckVerdict::TimedOut,
            charged,
        }
    }

    /// Returns the event that tells it, or `None` for a check that was stopped: it has come to nothing.
    pub fn event(self) -> Option<EventKind> {
        match self.verdict? {
            CheckVerdict::Passed => Some(EventKind::VerifyPassed(self)),
            CheckVerdict::Flaky => Some(EventKind::VerifyFlaky(self)),
            CheckVerdict::Failed | CheckVerdict::TimedOut => Some(EventKind::VerifyFailed(self)),
            CheckVerdict::Stopped => None,
        }
    }

    /// Returns the check that was run, with this verdict.
    pub fn checked(&self, verdict: CheckVerdict) -> Checked {
        Checked {
            command: self.command.clone(),
            source: self.source.clone(),
            verdict,
            exit_code: self.exit_code,
            signal: self.signal,
            seconds: self.seconds,
            last: self.last.clone(),
            log: self.log.clone(),
            remarks: self.remarks.clone(),
        }
    }

    /// Returns the verdict of a check that failed: some journals say only whether it was in time.
    pub fn failure(&self) -> CheckVerdict {
        if self.timed_out {
            CheckVerdict::TimedOut
        } else {
            CheckVerdict::Failed
        }
    }
}
