//! Saves the work in a worktree to a branch, without touching the worktree or its index.

use std::path::Path;

use teamster_fs::{Dir, Durability, layout};
use teamster_types::TeamName;

use super::commit::with_identity;
use super::error::GitError;
use super::names::{CommitId, head_ref, salvage_branch};
use super::repo::Repo;
use super::secrets::{FoundSecrets, Keep, SecretFile, merge_into};
use super::worktree::{Worktree, team_folder};
use crate::OrTrace as _;

const MOST_SALVAGED: u32 = 10_000;

impl Worktree {
    /// Commits the index and the work tree, including untracked files, to a new branch, and returns its name. Ignored
    /// files are left out, and so are files that must not be committed: copies of those are in the team's private
    /// folder.
    pub fn salvage(&self) -> Result<String, GitError> {
        self.salvage_telling().map(|(branch, _)| branch)
    }

    /// Does the same as [`Self::salvage`], and also returns the files that must not be committed.
    pub fn salvage_telling(&self) -> Result<(String, Vec<SecretFile>), GitError> {
        let from = self.began_at()?;
        let head = self.head()?;
        let committed = self.committed_secrets(&from, &head)?;
        let mut tip = if committed.is_empty() {
            head
        } else {
            self.commit_without(&committed, &from, &head)?
        };
        let mut secrets = self.uncommitted_secrets(&from)?;
        merge_into(&mut secrets, committed);
        if let Some(staged) = self.staged_tree(&tip, &secrets, &from)? {
            tip = self.commit_tree(&staged, &tip, "what was staged")?;
        }
        let tree = self.with_fresh_index(|fresh| fresh.take_but(&secrets, Some(&from)))?;
        if tree != self.tree_of(&tip)? {
            tip = self.commit_tree(&tree, &tip, "what was in the worktree")?;
        }
        let mut kept = Vec::new();
        self.keep_privately(&secrets, Keep::Copy, &mut kept)?;
        Ok((self.new_branch(&tip)?, kept))
    }

    pub(super) fn new_branch(&self, tip: &CommitId) -> Result<String, GitError> {
        new_branch(&self.repo, &self.team, &self.name, tip)
    }

    /// Returns the tree of the index if it differs from `head`, with these paths reset to `from`; `None` for an index
    /// with conflicts.
    fn staged_tree(
        &self,
        head: &CommitId,
        secrets: &FoundSecrets,
        from: &CommitId,
    ) -> Result<Option<String>, GitError> {
        let Some(admin) = Dir::open_root(self.admin())? else {
            return Ok(None);
        };
        let Some((bytes, _)) = admin.read("index")? else {
            return Ok(None);
        };
        self.with_spare_index(|index| {
            write_copy(index, &bytes)?;
            self.reset_paths(index, secrets, from)?;
            let call = self.call().env("GIT_INDEX_FILE", index).arg("write-tree");
            let ended = call.run()?;
            if !ended.status.success() {
                return Ok(None);
            }
            let tree = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
            Ok((tree != self.tree_of(head)?).then_some(tree))
        })
    }

    pub(super) fn tree_of(&self, commit: &CommitId) -> Result<String, GitError> {
        self.call()
            .args(["rev-parse", "--verify", "--quiet"])
            .arg(format!("{commit}^{{tree}}"))
            .text()
    }

    fn commit_tree(&self, tree: &str, parent: &CommitId, what: &str) -> Result<CommitId, GitError> {
        with_identity(self.call(), self, None)?
            .args(["commit-tree", "--no-gpg-sign", "-p", parent.as_str(), "-m"])
            .arg(format!("Salvage {what}: {}/{}", self.team, self.name))
            .arg(tree)
            .commit()
    }

    /// Calls `with` with the path of a temporary index, and removes it afterwards.
    pub(super) fn with_spare_index<T>(
        &self,
        with: impl FnOnce(&Path) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        let dir = team_folder(&self.repo, &self.team)?;
        let name = layout::spare_index(&self.name);
        let result = with(&dir.join(&name));
        dir.remove(&name).or_trace("remove the index of a salvage");
        dir.remove(&format!("{name}.lock"))
            .or_trace("remove the lock of that index");
        result
    }
}

/// Creates a new branch at `tip` for work found in the worktree `name`.
pub(super) fn new_branch(
    repo: &Repo,
    team: &TeamName,
    name: &str,
    tip: &CommitId,
) -> Result<String, GitError> {
    for number in 1..MOST_SALVAGED {
        let branch = salvage_branch(team, name, number);
        if repo.resolve(&head_ref(&branch))?.is_none() {
            repo.call()
                .args(["update-ref", &head_ref(&branch), tip.as_str(), ""])
                .done()?;
            return Ok(branch);
        }
    }
    Err(GitError::refused(
        format!("{team}/{name} was salvaged {MOST_SALVAGED} times already"),
        "delete branches that you do not need",
    ))
}

fn write_copy(path: &Path, bytes: &[u8]) -> Result<(), GitError> {
    let (Some(folder), Some(name)) = (
        path.parent(),
        path.file_name().and_then(|name| name.to_str()),
    ) else {
        return Ok(());
    };
    if let Some(dir) = Dir::open_root(folder)? {
        dir.create_new(name, bytes, Durability::Fast)?;
    }
    Ok(())
}
