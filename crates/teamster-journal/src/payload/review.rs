//! Payloads about reviews of the merged work by an agent in a session of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use teamster_types::phrase::{PhraseKeys, Wording};

use super::list;

/// How bad a finding is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The work must not land with it.
    Blocker,
    /// It should be fixed before the work lands.
    Major,
    /// It may be fixed later.
    #[default]
    Minor,
    /// A matter of taste.
    Nit,
}

impl Severity {
    /// Every severity, the worst first.
    pub const ALL: [Self; 4] = [Self::Blocker, Self::Major, Self::Minor, Self::Nit];

    /// Returns the name in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocker => "blocker",
            Self::Major => "major",
            Self::Minor => "minor",
            Self::Nit => "nit",
        }
    }

    /// Returns whether a finding of this severity becomes a task.
    pub const fn needs_fix(self) -> bool {
        matches!(self, Self::Blocker | Self::Major)
    }
}

/// Whether the merged work is reviewed before the gate opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReviewMode {
    /// It is not reviewed. A journal of an older version has no value, which means this.
    #[default]
    Off,
    /// It is reviewed if an agent is available for it.
    Prefer,
    /// It is reviewed; without a review only a person can approve it.
    Require,
}

impl ReviewMode {
    /// Returns whether reviews are off.
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

/// One finding of a reviewer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewFinding {
    /// How bad it is.
    pub severity: Severity,
    /// The file, relative to the root of the repository; `None` if the finding is not about a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What is wrong.
    pub claim: String,
    /// The evidence for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// The suggested fix.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suggestion: String,
}

impl ReviewFinding {
    /// Returns the location: `src/a.rs:12`, `src/a.rs`, or nothing.
    pub fn place(&self) -> String {
        match (&self.path, self.line) {
            (Some(path), Some(line)) => format!("{path}:{line}"),
            (Some(path), None) => path.clone(),
            (None, _) => String::new(),
        }
    }
}

/// A reviewer's verdict on the work as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReviewVerdict {
    /// It can land.
    Accept,
    /// It needs changes first. An unreadable verdict counts as this one.
    #[default]
    Changes,
}

impl ReviewVerdict {
    /// Returns the verdict as the end of a sentence about the reviewer.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Accept => "accepts the work",
            Self::Changes => "asks for changes",
        }
    }
}

/// The status of an acceptance criterion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Criterion {
    /// The criterion, as written in the plan.
    pub criterion: String,
    /// Whether it is met.
    pub met: bool,
    /// The evidence for it.
    #[serde(default)]
    pub evidence: String,
}

/// The payload of `review.started`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReviewStarted {
    /// The commit that is reviewed.
    pub commit: String,
    /// The commit that was reviewed before; `null` for the first review.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The reviewer: the name of a member, or `leader`.
    pub reviewer: String,
    /// The user's name for its agent.
    pub provider: String,
    /// The id of the launched process, so that the next host can find it.
    pub launch: String,
}

/// The payload of `review.finished`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReviewFinished {
    /// The commit that was reviewed.
    pub commit: String,
    /// The reviewer.
    pub reviewer: String,
    /// The reviewer's verdict on the work as a whole.
    pub verdict: ReviewVerdict,
    /// The findings, the worst first.
    #[serde(deserialize_with = "list")]
    pub findings: Vec<ReviewFinding>,
    /// The status of the acceptance criteria.
    #[serde(deserialize_with = "list")]
    pub criteria: Vec<Criterion>,
    /// How many findings were dropped because their location does not exist in the commit, or because there were too
    /// many.
    pub dropped: usize,
}

impl ReviewFinished {
    /// Returns the findings that become tasks.
    pub fn to_fix(&self) -> impl Iterator<Item = &ReviewFinding> {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.severity.needs_fix())
    }
}

/// The payload of `review.failed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReviewFailed {
    /// The commit that was to be reviewed.
    pub commit: String,
    /// The reviewer.
    pub reviewer: String,
    /// Why there is no review.
    pub reason: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
}

impl ReviewFailed {
    /// Returns the reason, with its codes.
    pub fn wording(&self) -> Wording {
        Wording::new(self.reason.as_str(), self.reason_codes.clone())
    }
}

/// The payload of `review.skipped`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReviewSkipped {
    /// The commit that is not reviewed.
    pub commit: String,
    /// Why it is not reviewed.
    pub reason: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
}

impl ReviewSkipped {
    /// Returns the reason, with its codes.
    pub fn wording(&self) -> Wording {
        Wording::new(self.reason.as_str(), self.reason_codes.clone())
    }
}
