//! A new repository.

use std::path::Path;

use super::command::Git;
use super::commit::Author;
use super::error::GitError;
use super::names::CommitId;

impl Git {
    /// Makes a folder a repository, and all that is in it its first commit, on `branch`.
    pub fn begin(
        &self,
        folder: &Path,
        branch: &str,
        message: &str,
        author: &Author,
    ) -> Result<CommitId, GitError> {
        // No template: it could bring hooks.
        self.at(folder)
            .args(["init", "--quiet", "--template="])
            .arg(format!("--initial-branch={branch}"))
            .done()?;
        self.at(folder).args(["add", "--all", "--force"]).done()?;
        self.at(folder)
            .env("GIT_AUTHOR_NAME", &author.name)
            .env("GIT_AUTHOR_EMAIL", &author.email)
            .env("GIT_COMMITTER_NAME", &author.name)
            .env("GIT_COMMITTER_EMAIL", &author.email)
            .args(["commit", "--quiet", "--no-verify", "--no-gpg-sign"])
            .arg(format!("--message={message}"))
            .done()?;
        self.at(folder).args(["rev-parse", "HEAD"]).commit()
    }
}
