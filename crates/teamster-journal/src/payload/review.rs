//! Payloads about reviews: what somebody who did not write it says about the merged work.

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
    /// The work must not land like this.
    Blocker,
    /// It should be mended before the work lands.
    Major,
    /// It may be mended later.
    #[default]
    Minor,
    /// A matter of taste.
    Nit,
}

impl Severity {
    /// Every severity, the worst first.
    pub const ALL: [Self; 4] = [Self::Blocker, Self::Major, Self::Minor, Self::Nit];

    /// Returns the word in the journal.
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
    /// It is not. A run of an older version says nothing, and means this.
    #[default]
    Off,
    /// It is, when an agent is there to do it.
    Prefer,
    /// It is, and without a review only a person can approve it.
    Require,
}

impl ReviewMode {
    /// Returns whether it is off.
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

/// One thing that a reviewer found in the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewFinding {
    /// How bad it is.
    pub severity: Severity,
    /// The file, from the root of the repository; `None` where it is about no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What is wrong.
    pub claim: String,
    /// What shows that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suggestion: String,
}

impl ReviewFinding {
    /// Returns where it is: `src/a.rs:12`, `src/a.rs`, or nothing.
    pub fn place(&self) -> String {
        match (&self.path, self.line) {
            (Some(path), Some(line)) => format!("{path}:{line}"),
            (Some(path), None) => path.clone(),
            (None, _) => String::new(),
        }
    }
}

/// What a reviewer thinks of the work as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReviewVerdict {
    /// It can land.
    Accept,
    /// It needs changes first. What cannot be read as a verdict is no consent.
    #[default]
    Changes,
}

impl ReviewVerdict {
    /// Returns the verdict as the rest of a sentence about the reviewer.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Accept => "accepts the work",
            Self::Changes => "asks for changes",
        }
    }
}

/// How an acceptance criterion stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Criterion {
    /// The criterion, as the plan says it.
    pub criterion: String,
    /// Whether it is met.
    pub met: bool,
    /// What shows that.
    #[serde(default)]
    pub evidence: String,
}

/// The payload of `review.started`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReviewStarted {
    /// The commit that is reviewed.
    pub commit: String,
    /// The commit that was reviewed last; `null` for the first review.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Who reviews: the name of a member, or `leader`.
    pub reviewer: String,
    /// What the user calls its agent.
    pub provider: String,
    /// Names the process that was started, so that a successor finds it.
    pub launch: String,
}

/// The payload of `review.finished`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReviewFinished {
    /// The commit that was reviewed.
    pub commit: String,
    /// Who reviewed it.
    pub reviewer: String,
    /// What the reviewer thinks of it as a whole.
    pub verdict: ReviewVerdict,
    /// What the reviewer found, the worst first.
    #[serde(deserialize_with = "list")]
    pub findings: Vec<ReviewFinding>,
    /// How the acceptance criteria stand.
    #[serde(deserialize_with = "list")]
    pub criteria: Vec<Criterion>,
    /// How many findings were dropped because their place does not exist in the commit, or because there were too many.
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
    /// Who was to review it.
    pub reviewer: String,
    /// Why there is no review, in words.
    pub reason: String,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
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
    /// The commit that nobody reviews.
    pub commit: String,
    /// Why nobody does, in words.
    pub reason: String,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
}

impl ReviewSkipped {
    /// Returns the reason, with its codes.
    pub fn wording(&self) -> Wording {
        Wording::new(self.reason.as_str(), self.reason_codes.clone())
    }
}
