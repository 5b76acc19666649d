//! Payloads about merging the work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use teamster_types::TaskId;

use super::{TaskChange, list};

/// The predicted result of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Prediction {
    /// The work is already in the team's branch.
    Already,
    /// The merge is clean.
    Clean,
    /// Both sides changed the same lines.
    Conflict,
    /// The two have no common history.
    Unrelated,
}

impl Prediction {
    /// Returns the name in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Already => "already",
            Self::Clean => "clean",
            Self::Conflict => "conflict",
            Self::Unrelated => "unrelated",
        }
    }
}

/// The payload of `merge.predicted`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MergePredicted {
    /// The commit of the task.
    pub commit: String,
    /// The predicted result; `null` when this version does not know it.
    pub result: Option<Prediction>,
}

/// The payload of `merge.merged`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Merged {
    /// What changed in the task; it is written but never read back.
    #[serde(flatten, skip_deserializing)]
    #[schemars(skip)]
    pub task: TaskChange,
    /// The worker whose work it is.
    pub worker: Option<String>,
    /// The commit of the task. The first version wrote `null` for a task without one.
    pub commit: Option<String>,
    /// The merge commit; `null` when none was needed.
    pub merge: Option<String>,
    /// The files that the task changed.
    pub files: Vec<String>,
}

/// The payload of `merge.lost`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MergeLost {
    /// What changed in the task; it is written but never read back.
    #[serde(flatten, skip_deserializing)]
    #[schemars(skip)]
    pub task: TaskChange,
    /// The worker whose work it is.
    pub worker: Option<String>,
    /// The commit that is missing.
    pub commit: Option<String>,
    /// The head of the team's branch, which does not contain it.
    pub head: Option<String>,
}

/// The payload of `merge.conflict`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MergeConflict {
    /// The commit of the task.
    pub commit: Option<String>,
    /// The files that conflict.
    #[serde(deserialize_with = "list")]
    pub files: Vec<String>,
    /// How many files those are.
    pub conflicts: usize,
    /// How many times the work of this task has conflicted so far.
    #[serde(default = "once")]
    pub times: u64,
    /// Whether there will be no further attempt.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// The task that is to resolve it.
    pub fix_task: Option<TaskId>,
}

fn once() -> u64 {
    1
}

/// The payload of `merge.caught_up`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaughtUp {
    /// The head of the user's branch.
    pub commit: String,
    /// The merge commit; `null` when none was needed.
    pub merge: Option<String>,
}

/// The payload of `merge.adopted`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MergeAdopted {
    /// The commit that was found at the head of the team's branch.
    pub commit: String,
    /// The same commit, which is the new head of the branch.
    pub merge: Option<String>,
    /// The files that it changes.
    pub files: Vec<String>,
}
