//! How bad something is that somebody found in the work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
