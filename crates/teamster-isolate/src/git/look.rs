//! What a person wants to know before they decide, and what is cleared away after the checks.

use std::collections::BTreeSet;
use std::path::PathBuf;

use teamster_fs::layout::INTEGRATION;
use teamster_types::TeamName;

use super::error::GitError;
use super::integration::Integration;
use super::merge::Predicted;
use super::names::{CommitId, head_ref, integration_branch, moved_ref, rejected_ref};
use super::registered;
use super::repo::Repo;
use super::worktree::{Worktree, hold, team_folder, vanished};

/// The names in a list that zero bytes end.
pub(super) fn names(listed: &[u8]) -> Vec<String> {
    listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

impl Repo {
    /// How many files of the user's are not committed: changed, staged or new. Nothing is touched, not even the index.
    pub fn uncommitted(&self) -> Result<usize, GitError> {
        let listed = self
            .call_in(self.root())
            .args(["--no-optional-locks", "status", "--porcelain=v1", "-z"])
            .args(["--untracked-files=normal", "--no-renames"])
            .bytes()?;
        let entries = listed.split(|byte| *byte == 0);
        Ok(entries.filter(|entry| !entry.is_empty()).count())
    }

    /// Files of the user's that are not committed where a branch is checked out, and that the branch would have to write
    /// over to get to `commit`. Nothing is touched, not even the index.
    pub fn in_the_way(&self, branch: &str, commit: &CommitId) -> Result<Vec<String>, GitError> {
        let Some(tip) = self.resolve(&head_ref(branch))? else {
            return Ok(Vec::new());
        };
        let there = registered::all(self)?
            .into_iter()
            .find(|entry| entry.branch.as_deref() == Some(branch));
        let Some(folder) = there.map(|entry| entry.path).filter(|path| path.is_dir()) else {
            return Ok(Vec::new());
        };
        let changed = self
            .call()
            .args(["diff", "--name-only", "-z", "--no-ext-diff", "--no-renames"])
            .args([tip.as_str(), commit.as_str(), "--"])
            .bytes()?;
        let changed: BTreeSet<String> = names(&changed).into_iter().collect();
        let listed = self
            .call_in(&folder)
            .args(["--no-optional-locks", "status", "--porcelain=v1", "-z"])
            .args([
                "--untracked-files=all",
                "--ignored=matching",
                "--no-renames",
            ])
            .bytes()?;
        // A file stands in the way of one of its name, and of a folder of its name.
        let is_in_the_way = |file: &String| {
            let folder = format!("{file}/");
            changed.contains(file)
                || changed
                    .range(folder.clone()..)
                    .next()
                    .is_some_and(|name| name.starts_with(&folder))
        };
        Ok(names(&listed)
            .iter()
            .filter_map(|entry| Some(entry.get(3..)?.to_owned()))
            .filter(is_in_the_way)
            .collect())
    }

    /// What changed between two commits, as `git diff --stat` shows it.
    pub fn diff_stat(&self, from: &CommitId, to: &CommitId) -> Result<String, GitError> {
        self.call()
            .args(["diff", "--stat=100", "--no-color", "--no-ext-diff"])
            .args(["--no-textconv", "--find-renames"])
            .args([from.as_str(), to.as_str(), "--"])
            .text()
    }

    /// The files that changed between two commits.
    pub fn changed_files(&self, from: &CommitId, to: &CommitId) -> Result<Vec<String>, GitError> {
        let listed = self
            .call()
            .args(["diff", "--name-only", "-z", "--no-ext-diff"])
            .args([from.as_str(), to.as_str(), "--"])
            .bytes()?;
        Ok(names(&listed))
    }

    /// The files that a commit changed since it and `other` went apart.
    pub fn changed_since_fork(
        &self,
        other: &CommitId,
        commit: &CommitId,
    ) -> Result<Vec<String>, GitError> {
        let listed = self
            .call()
            .args(["diff", "--name-only", "-z", "--no-ext-diff", "--no-renames"])
            .arg(format!("{other}...{commit}"))
            .arg("--")
            .bytes()?;
        Ok(names(&listed))
    }

    /// Repositories in the repository that a commit brings along since it and `other` went apart, and does not register
    /// as submodules: whoever gets the commit gets nothing but their names.
    pub fn nested_since_fork(
        &self,
        other: &CommitId,
        commit: &CommitId,
    ) -> Result<Vec<String>, GitError> {
        let listed = self
            .call()
            .args(["diff", "--raw", "-z", "--no-ext-diff", "--no-renames"])
            .arg(format!("{other}...{commit}"))
            .arg("--")
            .text()?;
        let mut fields = listed.split('\0');
        let (mut nested, mut registers) = (Vec::new(), false);
        while let (Some(modes), Some(path)) = (fields.next(), fields.next()) {
            registers |= path == ".gitmodules";
            if modes.starts_with(":000000 160000") {
                nested.push(path.to_owned());
            }
        }
        Ok(if registers { Vec::new() } else { nested })
    }

    /// The files that a commit has, by path.
    pub fn tracked_files(&self, commit: &CommitId) -> Result<Vec<String>, GitError> {
        let listed = self
            .call()
            .args(["ls-tree", "-r", "--name-only", "-z", commit.as_str()])
            .bytes()?;
        Ok(names(&listed))
    }

    /// Where the work of a run is kept that a person did not want, by the name of a reference.
    pub fn rejected(&self, team: &TeamName) -> Result<Option<(String, CommitId)>, GitError> {
        let name = rejected_ref(team);
        Ok(self.resolve(&name)?.map(|commit| (name, commit)))
    }
}

impl Integration {
    /// The folder in it that corresponds to the project, which may be a folder of the repository.
    pub fn work_folder(&self) -> PathBuf {
        self.worktree.work_folder()
    }

    /// Refuses to go on where our worktree is not what it was: whoever put a link or another folder in its place would
    /// have us set right what is not ours.
    pub(super) fn is_still_there(&self) -> Result<(), GitError> {
        match Worktree::named(&self.repo, &self.team, INTEGRATION)? {
            Some(now) if now.path() == self.path() && now.admin() == self.worktree.admin() => {
                Ok(())
            }
            _ => Err(vanished(self.path())),
        }
    }

    /// Its worktree.
    pub fn worktree(&self) -> &Worktree {
        &self.worktree
    }

    /// Whether `head` is exactly what merging `second` into `first` comes to.
    pub fn is_merge_of(
        &self,
        head: &CommitId,
        first: &CommitId,
        second: &CommitId,
    ) -> Result<bool, GitError> {
        let said = self
            .repo
            .call()
            .args([
                "rev-parse",
                &format!("{head}^@"),
                &format!("{head}^{{tree}}"),
            ])
            .text()?;
        let said: Vec<&str> = said.lines().collect();
        let [one, other, tree] = said.as_slice() else {
            return Ok(false);
        };
        if (*one, *other) != (first.as_str(), second.as_str()) {
            return Ok(false);
        }
        let merged = self.predict_on(first, second)?;
        Ok(matches!(merged, Predicted::Clean { tree: expected } if expected == *tree))
    }

    /// Puts the branch back to `to`, where the host had left it, if somebody else has moved it. What it was moved to is
    /// kept under a name of ours, which is returned.
    pub fn put_back(&self, to: &CommitId) -> Result<Option<String>, GitError> {
        let dir = team_folder(&self.repo, &self.team)?;
        let _held = hold(&dir, INTEGRATION)?;
        self.settle()?;
        let head = self.head()?;
        if head == *to {
            return Ok(None);
        }
        let mut number = 1_u32;
        let name = loop {
            let name = moved_ref(&self.team, number);
            match self.repo.resolve(&name)? {
                Some(there) if there != head => number += 1,
                _ => break name,
            }
        };
        self.repo
            .call()
            .args(["update-ref", "-m", "teamster: moved by somebody else"])
            .args([name.as_str(), head.as_str()])
            .done()?;
        self.repo
            .call()
            .args(["update-ref", "-m", "teamster: put back"])
            .arg(head_ref(&self.branch()))
            .args([to.as_str(), head.as_str()])
            .done()?;
        self.worktree
            .call()
            .args(["reset", "--quiet", "--hard", "HEAD", "--"])
            .done()?;
        Ok(Some(name))
    }

    /// Takes the integration branch back: its worktree and its name go, its commits are kept under a name of ours, so
    /// that a rejection loses nothing. That name; `None` when there is no such branch. What was begun is finished.
    pub fn roll_back(repo: &Repo, team: &TeamName) -> Result<Option<String>, GitError> {
        let dir = team_folder(repo, team)?;
        let _held = hold(&dir, INTEGRATION)?;
        let branch = head_ref(&integration_branch(team));
        let Some(head) = repo.resolve(&branch)? else {
            return Ok(repo.rejected(team)?.map(|(name, _)| name));
        };
        let name = rejected_ref(team);
        if let Some(earlier) = repo.resolve(&name)?
            && !repo.is_ancestor(&earlier, &head)?
        {
            // An earlier run of this name was rejected, too; its work keeps a name.
            let mut number = 1_u32;
            while repo.resolve(&format!("{name}.was-{number}"))?.is_some() {
                number += 1;
            }
            repo.call()
                .args(["update-ref", &format!("{name}.was-{number}")])
                .arg(earlier.as_str())
                .done()?;
        }
        repo.call()
            .args(["update-ref", "-m", "teamster: rejected"])
            .args([name.as_str(), head.as_str()])
            .done()?;
        if let Some(integration) = Self::open(repo, team)? {
            // Everything in it is then in the commit that was just named, or ignored by git, or salvaged.
            integration.settle()?;
            repo.call()
                .args(["worktree", "remove", "--force", "--"])
                .arg(integration.path())
                .done()?;
        }
        repo.call()
            .args(["update-ref", "-d", &branch, head.as_str()])
            .done()?;
        Ok(Some(name))
    }
}
