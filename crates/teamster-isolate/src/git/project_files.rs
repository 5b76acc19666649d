//! The current files of the user's own work tree, for a team that works directly in it.

use teamster_fs::layout;
use teamster_types::TeamName;

use super::error::GitError;
use super::names::CommitId;
use super::repo::Repo;
use super::worktree::team_folder;
use crate::OrTrace as _;

/// The name prefix of the temporary index.
const INDEX: &str = "project";

impl Repo {
    /// Returns the current files of the project as a git tree: committed or not, tracked or new, without ignored ones.
    /// The user's index and branches are not touched.
    pub fn files_now(&self, team: &TeamName) -> Result<CommitId, GitError> {
        let dir = team_folder(self, team)?;
        let name = layout::spare_index(INDEX);
        let index = dir.join(&name);
        let call = || self.call_in(self.project()).env("GIT_INDEX_FILE", &index);
        let tree = call()
            .args(["read-tree", "HEAD"])
            .done()
            .and_then(|()| call().args(["add", "--all", "--", "."]).done())
            .and_then(|()| call().arg("write-tree").commit());
        dir.remove(&name).or_trace("remove the index of a look");
        dir.remove(&format!("{name}.lock"))
            .or_trace("remove the lock of that index");
        tree
    }
}
