//! Files that must be in no commit and under no ref: those of paths that are always denied, and those into which somebody
//! wrote a key of a well-known shape.
//!
//! They are found in what a worker committed, in its index and in its files, always as a change since the commit that its
//! work began at: what was there before is the user's. They are moved to a private folder of the team, and commits that an
//! agent made with them are replaced by one without them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use teamster_fs::{Dir, FileKind, ProjectFiles, Sync, layout};
use teamster_types::{denied, redact};

use super::command::GitCommand;
use super::commit::with_identity;
use super::error::GitError;
use super::fresh_index::FreshIndex;
use super::names::{CommitId, head_ref, integration_branch};
use super::repo::Repo;
use super::restore::CHUNK;
use super::worktree::Worktree;

/// More folders of private files than this one team never has.
const MOST_KEPT: u32 = 10_000;
/// A larger file is not searched for keys.
const MOST_READ: u64 = 32 * 1024 * 1024;
/// The mode of an entry of git's that is a repository.
const REPOSITORY: &str = "160000";

/// Why a file must not be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretReason {
    /// Its path is denied by this pattern.
    Denied(&'static str),
    /// It has a key of a well-known shape in this line.
    Key {
        /// The number of the line, from 1 on.
        line: usize,
    },
}

/// A file that must not be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile {
    /// Where it was, from the root of the worktree.
    pub path: PathBuf,
    /// Why it must not be committed.
    pub reason: SecretReason,
    /// Where it is kept; `None` when there is nothing to keep, as of a file that was deleted.
    pub kept: Option<PathBuf>,
}

impl fmt::Display for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.reason {
            SecretReason::Denied(pattern) => write!(f, "{path} ({pattern})")?,
            SecretReason::Key { line } => write!(f, "{path}:{line} (it looks like a key)")?,
        }
        match &self.kept {
            Some(kept) => write!(f, ", kept as {}", kept.display()),
            None => Ok(()),
        }
    }
}

/// What was found, by path.
pub(super) type FoundSecrets = BTreeMap<Vec<u8>, FoundSecret>;

/// Why a path must not be committed, and the object that git has of it.
#[derive(Clone, Debug)]
pub(super) struct FoundSecret {
    reason: SecretReason,
    object: Option<String>,
}

/// One change that git lists.
struct ListedChange {
    path: Vec<u8>,
    /// What the path has after the change; `None` when it has nothing or a repository.
    object: Option<String>,
    is_deletion: bool,
}

impl Worktree {
    /// Moves files that must not be committed out of the worktree into the team's private folder, and out of every commit
    /// of the worker since `base`. Nobody may be at work in it.
    pub fn set_secrets_aside(&self, base: &CommitId) -> Result<Vec<SecretFile>, GitError> {
        let from = self.fork_from(base)?;
        let mut found = self.uncommitted_secrets(&from)?;
        let (mut tips, mut seen) = (Vec::new(), Vec::new());
        let own = head_ref(&self.branch());
        for name in ["HEAD", own.as_str()] {
            let Some(tip) = self.resolve(name)?.filter(|tip| !seen.contains(tip)) else {
                continue;
            };
            seen.push(tip.clone());
            let committed = self.committed_secrets(&from, &tip)?;
            if !committed.is_empty() {
                tips.push(name);
                merge_into(&mut found, committed);
            }
        }
        if found.is_empty() {
            return Ok(Vec::new());
        }
        self.remove_stale_index_lock()?;
        let kept = self.keep_privately(&found, Keep::Move)?;
        for name in &tips {
            self.rewrite(name, &from)?;
        }
        if !tips.is_empty() {
            // The logs of the refs would keep the commits. Where there is no log, git says so.
            self.call()
                .args(["reflog", "expire", "--expire=now"])
                .args(["--expire-unreachable=now", "HEAD", own.as_str()])
                .run()?;
        }
        for path in found.keys().filter(|path| !is_of_git(path)) {
            self.restore(&from, path)?;
        }
        self.with_fresh_index(FreshIndex::install)?;
        Ok(kept)
    }

    /// Returns the secrets in the index and the files.
    pub(super) fn uncommitted_secrets(&self, from: &CommitId) -> Result<FoundSecrets, GitError> {
        let mut found = FoundSecrets::new();
        let staged = self
            .call()
            .args(["diff-index", "--cached", "--raw", "-z", "--no-abbrev"])
            .args(["--no-renames", "--ignore-submodules=all", "HEAD", "--"])
            .bytes()?;
        merge_into(&mut found, self.judge(from, &listed(&staged))?);
        let changed = self.changed()?;
        let deleted = changed
            .iter()
            .filter(|(_, letter)| **letter == b'D')
            .map(|(path, _)| path);
        let known = KnownTexts::new(self, from, deleted.cloned().collect());
        for path in changed.keys() {
            let object = None;
            if let Some(reason) = denied_by(path) {
                found
                    .entry(path.clone())
                    .or_insert(FoundSecret { reason, object });
            } else if let Some(bytes) = self.content(path)?
                && let Some(line) = known.first_new_key(path, &bytes)?
            {
                let reason = SecretReason::Key { line };
                found
                    .entry(path.clone())
                    .or_insert(FoundSecret { reason, object });
            }
        }
        Ok(found)
    }

    /// Returns the secrets that commits of a worker have, although a later one may have removed them.
    pub(super) fn committed_secrets(
        &self,
        from: &CommitId,
        tip: &CommitId,
    ) -> Result<FoundSecrets, GitError> {
        let integration = head_ref(&integration_branch(&self.team));
        let merged = self.repo.resolve(&integration)?;
        let merged = merged.filter(|_| self.branch() != integration_branch(&self.team));
        let changes = log_of(self.call(), tip, from, merged.as_ref())?;
        self.judge(from, &changes)
    }

    fn judge(&self, from: &CommitId, changes: &[ListedChange]) -> Result<FoundSecrets, GitError> {
        judge(&self.repo, from, changes)
    }

    /// Returns the commit in which the work that is here and `base` have gone apart.
    pub(super) fn fork_from(&self, base: &CommitId) -> Result<CommitId, GitError> {
        let fork = self.repo.fork_point(base, &self.head()?)?;
        Ok(fork.unwrap_or_else(|| base.clone()))
    }

    /// Returns the commit that the work here began at, as far as the repository tells.
    pub(super) fn began_at(&self) -> Result<CommitId, GitError> {
        let integration = integration_branch(&self.team);
        let merged = if self.branch() == integration {
            None
        } else {
            self.repo.resolve(&head_ref(&integration))?
        };
        let base = match merged {
            Some(base) => Some(base),
            None => self.repo.resolve("HEAD")?,
        };
        match base {
            Some(base) => self.fork_from(&base),
            None => self.head(),
        }
    }

    /// Returns the content of a plain file; `None` when there is none that can hold a key in words.
    fn content(&self, path: &[u8]) -> Result<Option<Vec<u8>>, GitError> {
        if is_of_git(path) || std::str::from_utf8(path).is_err() {
            return Ok(None);
        }
        let path = Path::new(OsStr::from_bytes(path));
        let about = self.path.join(path).symlink_metadata();
        if !about.is_ok_and(|about| about.is_file() && about.len() <= MOST_READ) {
            return Ok(None);
        }
        let Some(files) = ProjectFiles::open(&self.path)? else {
            return Ok(None);
        };
        Ok(files.read(path)?)
    }

    fn resolve(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        self.call()
            .args(["rev-parse", "--verify", "--quiet"])
            .arg(format!("{name}^{{commit}}"))
            .commit_if_any()
    }

    /// Keeps the files in a new folder of the team's private ones.
    pub(super) fn keep_privately(
        &self,
        found: &FoundSecrets,
        keep: Keep,
    ) -> Result<Vec<SecretFile>, GitError> {
        let mut kept = Vec::new();
        let mut folder = None;
        for (path, secret) in found {
            let name = Path::new(OsStr::from_bytes(path));
            let is_file = !is_of_git(path);
            let content = match self.content(path)? {
                _ if !is_file => None,
                Some(bytes) => Some(bytes),
                None => match &secret.object {
                    Some(object) => Some(object_of(self.call(), object)?),
                    None => None,
                },
            };
            let is_there = is_file && self.path.join(name).symlink_metadata().is_ok();
            let mut place = None;
            if content.is_some() || is_there {
                let folder: &Dir = match &folder {
                    Some(folder) => folder,
                    None => folder.insert(self.private_folder()?),
                };
                place = self.put(name, content.as_deref(), folder, keep)?;
            }
            kept.push(SecretFile {
                path: name.to_owned(),
                reason: secret.reason,
                kept: place,
            });
        }
        Ok(kept)
    }

    /// Writes a file to the private folder and, unless it is only copied, takes it out of the worktree.
    fn put(
        &self,
        path: &Path,
        content: Option<&[u8]>,
        private: &Dir,
        keep: Keep,
    ) -> Result<Option<PathBuf>, GitError> {
        let unfit = || {
            GitError::refused(
                format!(
                    "{} must not be committed, and cannot be moved away",
                    path.display()
                ),
                format!("move it out of {} yourself", self.path.display()),
            )
        };
        let mut names = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => names.push(name.to_str().ok_or_else(unfit)?),
                Component::CurDir => {}
                _ => return Err(unfit()),
            }
        }
        let last = names.pop().ok_or_else(unfit)?;
        let to = private.descend_or_create(&names)?;
        if let Some(bytes) = content {
            to.create_new(last, bytes, Sync::Durable)?;
        }
        let here = Dir::open_root(&self.path)?;
        let here = match here {
            Some(root) => root.descend(&names)?,
            None => None,
        };
        let Some(here) = here else {
            return Ok(content.map(|_| to.join(last)));
        };
        match (here.stamp(last)?.map(|stamp| stamp.kind), keep) {
            (Some(_), Keep::Copy) if content.is_none() => return Ok(None),
            // Links, repositories and large files: what was not read goes as it is.
            (Some(_), Keep::Move) if content.is_none() => here.rename(last, &to, last)?,
            // What is in a folder is kept file by file.
            (None, _) | (Some(_), Keep::Copy) | (Some(FileKind::Folder), Keep::Move) => {}
            (Some(_), Keep::Move) => drop(here.remove(last)?),
        }
        Ok(Some(to.join(last)))
    }

    /// Makes a folder for private files that nobody has used yet.
    fn private_folder(&self) -> Result<Dir, GitError> {
        let names = layout::private_folders(&self.team);
        let project = Dir::open_or_create_root(self.repo.project())?;
        let team = project.descend_or_create(&names)?;
        for number in 1..MOST_KEPT {
            let name = format!("{}-{number}", self.name);
            if team.make_dir(&name)? {
                return Ok(team.child_or_create(&name)?);
            }
        }
        Err(GitError::refused(
            format!("{} has too many folders", team.path().display()),
            "remove those that you do not need",
        ))
    }

    /// Replaces the commits of a ref since `from` by one without secrets. Their own would stay in the history.
    fn rewrite(&self, name: &str, from: &CommitId) -> Result<(), GitError> {
        let Some(tip) = self.resolve(name)? else {
            return Ok(());
        };
        let found = self.committed_secrets(from, &tip)?;
        let new = self.commit_without(&found, from, &tip)?;
        self.call()
            .args([
                "update-ref",
                "-m",
                "remove files that must not be committed",
            ])
            .args([name, new.as_str(), tip.as_str()])
            .done()
    }

    /// Makes one commit of all that `tip` has since `from`, without secrets.
    pub(super) fn commit_without(
        &self,
        found: &FoundSecrets,
        from: &CommitId,
        tip: &CommitId,
    ) -> Result<CommitId, GitError> {
        let tree = self.with_spare_index(|index| {
            self.call()
                .env("GIT_INDEX_FILE", index)
                .args(["read-tree", tip.as_str()])
                .done()?;
            self.reset_paths(index, found, from)?;
            self.call()
                .env("GIT_INDEX_FILE", index)
                .arg("write-tree")
                .text()
        })?;
        let integration = head_ref(&integration_branch(&self.team));
        if tree == self.tree_of(from)? {
            return Ok(from.clone());
        }
        let mut call = with_identity(self.call(), self, None)?.args([
            "commit-tree",
            "--no-gpg-sign",
            "-p",
            from.as_str(),
        ]);
        if let Some(merged) = self.repo.resolve(&integration)?
            && merged != *from
            && self.repo.is_ancestor(&merged, tip)?
        {
            call = call.args(["-p", merged.as_str()]);
        }
        let message = format!(
            "Commits of {}/{} without files that must not be committed",
            self.team, self.name
        );
        call.args(["-m", &message]).arg(tree).commit()
    }

    /// Makes the entries of an index what they were in `from`.
    pub(super) fn reset_paths(
        &self,
        index: &Path,
        found: &FoundSecrets,
        from: &CommitId,
    ) -> Result<(), GitError> {
        let paths: Vec<&Vec<u8>> = found.keys().filter(|path| !is_of_git(path)).collect();
        for chunk in paths.chunks(CHUNK) {
            self.call()
                .env("GIT_INDEX_FILE", index)
                .env("GIT_LITERAL_PATHSPECS", "1")
                .args(["reset", "--quiet", "--no-refresh", from.as_str(), "--"])
                .args(chunk.iter().map(|path| OsStr::from_bytes(path)))
                .done()?;
        }
        Ok(())
    }

    /// Puts a file back as it was in `from`, where it was there.
    fn restore(&self, from: &CommitId, path: &[u8]) -> Result<(), GitError> {
        let name = OsStr::from_bytes(path);
        let was = self
            .call()
            .env("GIT_LITERAL_PATHSPECS", "1")
            .args(["ls-tree", "--full-tree", "-z", from.as_str(), "--"])
            .arg(name)
            .bytes()?;
        if was.is_empty() {
            return Ok(());
        }
        self.ruled_call()?
            .env("GIT_LITERAL_PATHSPECS", "1")
            .args(["checkout", "--quiet", from.as_str(), "--"])
            .arg(name)
            .done()
    }
}

impl Repo {
    /// Returns the files that a commit must not have, of all that its commits have done since it and `other` went apart.
    pub fn secrets_since_fork(
        &self,
        other: &CommitId,
        commit: &CommitId,
    ) -> Result<Vec<SecretFile>, GitError> {
        let from = self.fork_point(other, commit)?;
        let from = from.unwrap_or_else(|| other.clone());
        let changes = log_of(self.call(), commit, &from, Some(other))?;
        let found = judge(self, &from, &changes)?;
        let file = |(path, secret): (Vec<u8>, FoundSecret)| SecretFile {
            path: OsStr::from_bytes(&path).into(),
            reason: secret.reason,
            kept: None,
        };
        Ok(found.into_iter().map(file).collect())
    }
}

/// What becomes of the files that are kept privately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// They leave the worktree.
    Move,
    /// They stay in the worktree, because somebody may be at work in it.
    Copy,
}

/// Texts that were there before a worker began, by which a key in them is none of the worker's.
struct KnownTexts<'a> {
    worktree: Option<&'a Worktree>,
    repo: &'a Repo,
    from: &'a CommitId,
    /// Files that are gone: a file may have got another name.
    deleted: Vec<Vec<u8>>,
}

impl<'a> KnownTexts<'a> {
    fn new(worktree: &'a Worktree, from: &'a CommitId, deleted: Vec<Vec<u8>>) -> Self {
        Self {
            worktree: Some(worktree),
            repo: &worktree.repo,
            from,
            deleted,
        }
    }

    /// Returns the line of the first key that was not there before.
    fn first_new_key(&self, path: &[u8], bytes: &[u8]) -> Result<Option<usize>, GitError> {
        let text = String::from_utf8_lossy(bytes);
        let keys = redact::keys(&text);
        if keys.is_empty() {
            return Ok(None);
        }
        let mut before = self.before(path)?;
        for path in &self.deleted {
            before.push('\n');
            before.push_str(&self.before(path)?);
        }
        let new = keys
            .into_iter()
            .find(|key| !before.contains(&text[key.clone()]));
        Ok(new.map(|key| 1 + text[..key.start].matches('\n').count()))
    }

    fn before(&self, path: &[u8]) -> Result<String, GitError> {
        let call = match self.worktree {
            Some(worktree) => worktree.call(),
            None => self.repo.call(),
        };
        let mut object = format!("{}:", self.from).into_bytes();
        object.extend_from_slice(path);
        let ended = call
            .args(["cat-file", "blob"])
            .arg(OsStr::from_bytes(&object))
            .run()?;
        Ok(if ended.status.success() {
            String::from_utf8_lossy(&ended.stdout).into_owned()
        } else {
            String::new()
        })
    }
}

fn judge(repo: &Repo, from: &CommitId, changes: &[ListedChange]) -> Result<FoundSecrets, GitError> {
    let deleted = changes.iter().filter(|change| change.is_deletion);
    let known = KnownTexts {
        worktree: None,
        repo,
        from,
        deleted: deleted.map(|change| change.path.clone()).collect(),
    };
    let mut found = FoundSecrets::new();
    for change in changes {
        let reason = match (denied_by(&change.path), &change.object) {
            (Some(reason), _) => reason,
            (None, Some(object)) => {
                // One that is larger than what git's output may be holds no key in words.
                let Ok(bytes) = object_of(repo.call(), object) else {
                    continue;
                };
                match known.first_new_key(&change.path, &bytes)? {
                    Some(line) => SecretReason::Key { line },
                    None => continue,
                }
            }
            (None, None) => continue,
        };
        let entry = found.entry(change.path.clone()).or_insert(FoundSecret {
            reason,
            object: None,
        });
        // The log begins with the newest commit.
        entry.object = entry.object.take().or_else(|| change.object.clone());
    }
    Ok(found)
}

/// Returns what the commits of `tip` changed that are neither in `from` nor in `merged`.
fn log_of(
    call: GitCommand,
    tip: &CommitId,
    from: &CommitId,
    merged: Option<&CommitId>,
) -> Result<Vec<ListedChange>, GitError> {
    let listed_bytes = call
        .args(["log", "--format=", "--raw", "-z", "--no-abbrev"])
        .args(["--no-renames", "--diff-merges=combined", "--no-ext-diff"])
        .args(["--no-textconv", "--no-show-signature"])
        .args(["--ignore-submodules=all", tip.as_str(), "--not"])
        .arg(from.as_str())
        .args(merged.map(CommitId::as_str))
        .arg("--")
        .bytes()?;
    Ok(listed(&listed_bytes))
}

/// Reads what git prints with `--raw -z`: one colon, two modes, two objects and a letter; for a merge one more of each for
/// every further parent.
fn listed(bytes: &[u8]) -> Vec<ListedChange> {
    let mut changes = Vec::new();
    let mut fields = bytes.split(|byte| *byte == 0);
    while let Some(head) = fields.next() {
        let head = String::from_utf8_lossy(head);
        let head = head.trim_start_matches('\n');
        let parents = head.bytes().take_while(|byte| *byte == b':').count();
        if parents == 0 {
            continue;
        }
        let Some(path) = fields.next() else {
            break;
        };
        let words: Vec<&str> = head[parents..].split(' ').collect();
        let mode = words.get(parents).copied().unwrap_or_default();
        let object = words.get(2 * parents + 1).copied().unwrap_or_default();
        let is_deletion = object.bytes().all(|byte| byte == b'0');
        changes.push(ListedChange {
            path: path.to_vec(),
            object: (!is_deletion && mode != REPOSITORY).then(|| object.to_owned()),
            is_deletion,
        });
    }
    changes
}

fn object_of(call: GitCommand, object: &str) -> Result<Vec<u8>, GitError> {
    call.args(["cat-file", "blob", object]).bytes()
}

fn denied_by(path: &[u8]) -> Option<SecretReason> {
    denied::pattern(Path::new(OsStr::from_bytes(path))).map(SecretReason::Denied)
}

/// Returns whether a path is in git's own folder, which no commit can have.
fn is_of_git(path: &[u8]) -> bool {
    Path::new(OsStr::from_bytes(path))
        .components()
        .any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
}

pub(super) fn merge_into(found: &mut FoundSecrets, more: FoundSecrets) {
    for (path, secret) in more {
        let entry = found.entry(path).or_insert_with(|| secret.clone());
        entry.object = entry.object.take().or(secret.object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_commits_and_of_merges_are_read() {
        let (one, two, none) = ("1".repeat(40), "2".repeat(40), "0".repeat(40));
        let text = format!(
            ":000000 100644 {none} {one} A\0a b\n.txt\0\n::100644 100644 100644 {one} {one} {two} MM\0c\0:100644 000000 {one} {none} D\0d\0:000000 160000 {none} {one} A\0sub\0"
        );
        let changes = listed(text.as_bytes());
        let told: Vec<(&[u8], Option<&str>, bool)> = changes
            .iter()
            .map(|change| {
                let object = change.object.as_deref();
                (change.path.as_slice(), object, change.is_deletion)
            })
            .collect();
        assert_eq!(
            told,
            [
                (b"a b\n.txt".as_slice(), Some(one.as_str()), false),
                (b"c", Some(two.as_str()), false),
                (b"d", None, true),
                (b"sub", None, false),
            ]
        );
    }
}
