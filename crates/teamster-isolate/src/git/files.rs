//! What a commit holds, for whoever plans work on it.

use super::error::GitError;
use super::names::CommitId;
use super::repo::Repo;

impl Repo {
    /// Every file of a commit that has a name in UTF-8, seen from the root.
    pub fn files_at(&self, commit: &CommitId) -> Result<Vec<String>, GitError> {
        let listed = self
            .call()
            .args(["ls-tree", "-r", "-z", "--full-tree", "--name-only"])
            .arg(commit.as_str())
            .bytes()?;
        let names = listed.split(|byte| *byte == 0);
        Ok(names
            .filter(|name| !name.is_empty())
            .filter_map(|name| std::str::from_utf8(name).ok())
            .map(str::to_owned)
            .collect())
    }

    /// The text of a file of a commit; `None` when there is no such file.
    pub fn text_at(&self, commit: &CommitId, path: &str) -> Result<Option<String>, GitError> {
        let name = format!("{}:{path}", commit.as_str());
        let is_there = self.call().args(["cat-file", "-e"]).arg(&name).run()?;
        if !is_there.status.success() {
            return Ok(None);
        }
        let bytes = self.call().args(["cat-file", "blob"]).arg(&name).bytes()?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}
