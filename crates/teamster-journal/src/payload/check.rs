//! Payloads about checks: the commands that verify the work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{list, text_or_lines, text_or_null};
use crate::kind::EventKind;

/// A command that verifies the work: it passes with exit code 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The command, for `sh -c`.
    pub command: String,
    /// Where it comes from: `--verify`, a preset, or the file in which it was found.
    #[serde(default)]
    pub source: String,
    /// Whether a person asked for it. A journal of an older version does not record this, and its check counts as the
    /// project's.
    #[serde(default)]
    pub origin: CheckOrigin,
    /// Whether it is a target of the work: it must pass in the end even if it failed before the work began.
    #[serde(default, rename = "target", skip_serializing_if = "std::ops::Not::not")]
    pub is_target: bool,
}

/// The origin of a check.
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

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckVerdict {
    /// It passed, the first time.
    Passed,
    /// It failed, and failed again on the retry.
    Failed,
    /// It failed, and passed on the immediate retry.
    Flaky,
    /// It timed out. It is not retried, because that would take as long again.
    TimedOut,
    /// It was interrupted before its end. It says nothing about the work.
    Stopped,
}

impl CheckVerdict {
    /// Returns a short description for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Flaky => "flaky",
            Self::TimedOut => "timed out",
            Self::Stopped => "stopped",
        }
    }

    /// Returns whether it means that something is wrong.
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
    /// Where the check comes from.
    pub source: String,
    /// The result.
    pub verdict: CheckVerdict,
    /// Its exit code, if it exited by itself; for a flaky check, that of the failed run.
    pub exit_code: Option<i32>,
    /// The signal that terminated it.
    pub signal: Option<i32>,
    /// How long it took, including a retry.
    pub seconds: f64,
    /// The last 200 lines of its output, redacted and cleaned; for a flaky check, those of the failed run.
    pub last: String,
    /// The file in the project with its output, or with the first and last part of it; empty if there is none.
    pub log: String,
    /// Other remarks for a person: processes that it left behind, or a log that could not be written.
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
    /// The id of the launched process, so that the next host can find it.
    pub launch: String,
    /// The fix round.
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
    /// The fix round.
    pub round: u32,
    /// The command.
    pub command: String,
    /// Where the check comes from.
    pub source: String,
    /// The result, in more detail than the kind of the event.
    pub verdict: Option<CheckVerdict>,
    /// Its exit code, if it exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that terminated it.
    pub signal: Option<i32>,
    /// How long it took.
    pub seconds: f64,
    /// The last lines of its output.
    #[serde(deserialize_with = "text_or_lines")]
    pub last: String,
    /// The file in the project with its output.
    #[serde(deserialize_with = "text_or_null")]
    pub log: String,
    /// Other remarks for a person.
    #[serde(deserialize_with = "list")]
    pub remarks: Vec<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Whether it timed out.
    pub timed_out: bool,
    /// Whether the check failed and the failure counts against the team. A missing value counts as `true`.
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
    /// Creates the result of a check that ran on `commit`.
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

    /// Returns the event for the journal, or `None` for a check that was stopped, which has no result.
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

    /// Returns the verdict of a check, given the one that the kind of its event stands for. A recorded verdict says more;
    /// of a failed check, some journals record only whether it timed out.
    pub fn verdict_or(&self, of_kind: CheckVerdict) -> CheckVerdict {
        if let Some(verdict) = self.verdict {
            verdict
        } else if of_kind == CheckVerdict::Failed && self.timed_out {
            CheckVerdict::TimedOut
        } else {
            of_kind
        }
    }
}
