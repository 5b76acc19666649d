//! Every team on the machine, in short.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_types::Time;
use teamster_types::progress::Progress;

use super::team::{TeamKind, Viewed};

/// One team, as the list of teams shows it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamRow {
    /// Its name in the API.
    pub key: String,
    /// Its own name. A foreign program may have chosen any.
    pub name: String,
    /// Whose team.
    pub kind: Option<TeamKind>,
    /// The project it works on.
    pub project: Option<String>,
    /// Whether it still does something.
    pub state: Viewed,
    /// The stage of its run.
    pub stage: Option<String>,
    /// How many workers it has.
    pub members: usize,
    /// How far it is.
    pub progress: Progress,
    /// How many things need a person.
    pub problems: usize,
    /// Whether a decision waits for a person.
    pub awaits_approval: bool,
    /// The last position of its journal; 0 when it has none.
    pub seq: u64,
    /// When something last happened.
    pub updated_at: Option<Time>,
    /// The team of the store that a state file tells about too.
    pub same_as: Option<String>,
    /// What is wrong with its registry.
    pub problem: Option<String>,
}

/// A project that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Its folder.
    pub path: String,
    /// Its last part, for people.
    pub name: String,
    /// `inactive` when there is neither a team nor a state file; else the liveliest state of what there is.
    pub state: Viewed,
    /// How many teams and sessions are there.
    pub teams: usize,
    /// Whether the folder is there.
    pub exists: bool,
}

/// All teams and projects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Overview {
    /// The teams: live ones first, then by name.
    pub teams: Vec<TeamRow>,
    /// The projects that are watched, by path.
    pub projects: Vec<Project>,
}
