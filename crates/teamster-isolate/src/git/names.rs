//! Names in git: commits, branches, teamster's references. All are built from validated names, so none can be mistaken
//! for an option.

use std::fmt;
use std::str::FromStr;

use teamster_fs::layout::INTEGRATION;
use teamster_types::{TaskId, TeamName, WorkerName};

/// A full commit id: 40 or 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommitId(String);

impl CommitId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the abbreviated id, for display.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not a commit id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a commit's id has 40 or 64 hexadecimal digits")]
pub struct NoCommitId;

impl FromStr for CommitId {
    type Err = NoCommitId;

    fn from_str(text: &str) -> Result<Self, NoCommitId> {
        let digits = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if matches!(text.len(), 40 | 64) && digits {
            Ok(Self(text.to_owned()))
        } else {
            Err(NoCommitId)
        }
    }
}

/// The prefix of all of teamster's branches.
pub(crate) const BRANCHES: &str = "omc-team/";
/// The prefix of the full names of branches.
pub(crate) const HEADS: &str = "refs/heads/";
/// The prefix of teamster's references that keep commits.
pub(crate) const PINS: &str = "refs/teamster/";

/// Returns the branch of a worker.
pub fn branch_of(team: &TeamName, worker: &WorkerName) -> String {
    team_branch(team, worker.as_str())
}

/// Returns the branch into which a team's finished tasks are merged.
pub fn integration_branch(team: &TeamName) -> String {
    team_branch(team, INTEGRATION)
}

/// Returns the branch of a team for a worktree of this name.
pub(crate) fn team_branch(team: &TeamName, name: &str) -> String {
    format!("{BRANCHES}{team}/{name}")
}

/// Returns the full name of a branch.
pub(crate) fn head_ref(branch: &str) -> String {
    format!("{HEADS}{branch}")
}

/// Returns the branch that keeps salvaged work of a worktree; numbers start at 1.
pub(crate) fn salvage_branch(team: &TeamName, name: &str, number: u32) -> String {
    team_branch(team, &format!("{name}.salvaged-{number}"))
}

/// Returns the reference that keeps the commit of a finished task.
pub fn pin_ref(team: &TeamName, task: &TaskId) -> String {
    format!("{PINS}{team}/task-{task}")
}

/// Returns the reference that keeps the commit to which another process has moved the integration branch.
pub(crate) fn moved_ref(team: &TeamName, number: u32) -> String {
    format!("{PINS}{team}/moved-{number}")
}

/// Returns the reference that keeps the work of a rejected run.
pub(crate) fn rejected_ref(team: &TeamName) -> String {
    format!("{PINS}{team}/rejected")
}

/// Returns the reference that keeps the commit that a task was pinned to before.
pub(crate) fn former_pin_ref(team: &TeamName, task: &TaskId, number: u32) -> String {
    format!("{PINS}{team}/task-{task}.was-{number}")
}

/// Returns the reference that keeps the commit of a failed attempt.
pub(crate) fn attempt_ref(team: &TeamName, task: &TaskId, number: u64) -> String {
    format!("{PINS}{team}/task-{task}.attempt-{number}")
}

/// Returns the reference under which a result is shared, and which no other worker's result can replace.
pub(crate) fn result_ref(team: &TeamName, task: &TaskId, commit: &CommitId) -> String {
    format!("{PINS}{team}/task-{task}.commit-{commit}")
}

/// Returns the git pattern for the references of all failed attempts of a task.
pub(crate) fn attempts_of(team: &TeamName, task: &TaskId) -> String {
    format!("{PINS}{team}/task-{task}.attempt-*")
}

/// Returns the prefix of all pins of a team.
pub(crate) fn pins(team: &TeamName) -> String {
    format!("{PINS}{team}/")
}

/// Returns the git pattern for all pins of a team.
pub(crate) fn pins_of(team: &TeamName) -> String {
    format!("{}*", pins(team))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_id_is_a_commit() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(id.parse::<CommitId>().unwrap().short(), "0123456789ab");
        for wrong in ["", "HEAD", &id[1..], &id.to_uppercase(), "-c", "--all"] {
            assert_eq!(wrong.parse::<CommitId>(), Err(NoCommitId), "{wrong}");
        }
    }
}
