//! What a person is shown at the gate of a run, beyond what the journal tells event by event.
//!
//! The host makes it once, when it opens the gate, and writes it down as `approval.shown`. The terminal and every viewer
//! read it from there, so nobody can decide about something that somebody else was shown otherwise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use teamster_types::TaskId;

/// Files that are named at most.
pub const MOST_FILES: usize = 200;
/// The longest text of one finding, in characters. The whole of it is in the project.
pub const LONGEST_FINDING: usize = 32 * 1024;

/// What a person is shown at the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Shown {
    /// Whether the work was verified, in one sentence that never says more than is so.
    pub verification: String,
    /// Checks that do not count as passed, and why.
    pub unverified: Vec<Unverified>,
    /// What was found out on the way, by reviewers too.
    pub findings: Vec<Finding>,
    /// The files that would change, at most 200.
    pub files: Vec<FileChange>,
    /// How many files would change in all.
    pub file_count: u64,
    /// What failed for good, or waits for that.
    pub failed: Vec<GivenUp>,
    /// Tasks that changed files which they had not reserved.
    pub outside: Vec<Outside>,
    /// Files of the user's that are not committed, and that the work would have to write over.
    pub in_the_way: Vec<String>,
    /// What became of the user's branches and tags while the run was at work, one sentence each. teamster did not do it.
    pub references: Vec<String>,
}

/// A check that does not count as passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unverified {
    /// The command.
    pub command: String,
    /// Why not, in words.
    pub why: String,
}

/// Something that was found out on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Its file, in `.party/findings`.
    pub name: String,
    /// What it says, at most 32,768 characters.
    pub text: String,
}

/// A file that would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// Its path.
    pub path: String,
    /// Lines that come; `null` when it is no text.
    pub added: Option<u64>,
    /// Lines that go; `null` when it is no text.
    pub removed: Option<u64>,
}

/// A task that will not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GivenUp {
    /// The task.
    pub task_id: TaskId,
    /// What it was about.
    pub subject: String,
    /// Why not, in words.
    pub why: String,
}

/// A task that changed files which it had not reserved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outside {
    /// The task.
    pub task_id: TaskId,
    /// The files.
    pub files: Vec<String>,
}
