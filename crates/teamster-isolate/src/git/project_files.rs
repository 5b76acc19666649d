//! The files of the user's own work tree as they are at a moment, for a team that works in it.

use teamster_fs::layout;
use teamster_types::TeamName;

use super::error::GitError;
use super::names::CommitId;
use super::repo::Repo;
use super::worktree::team_folder;
use crate::OrTrace as _;

/// The name of the index that is made for a look, before what makes it unique.
const INDEX: &str = "project";

impl Repo {
    /// Returns the files of the project as they are now, as a tree of git: committed or not, known to git or new, without what
    /// it ignores. The user's index and branches are not touched.
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
