//! Files that must not be in any commit or under any reference: those with denied paths, and those that contain a key
//! in a well-known format.
//!
//! They are searched in a worker's commits, its index and its files, always as a change since the commit where its work
//! began: anything older is the user's. They are moved to a private folder of the team, and commits that contain them
//! are replaced by one without them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use teamster_fs::{Dir, Durability, FileKind, ProjectFiles, layout};
use teamster_types::{denied, redact};

use super::command::GitCommand;
use super::commit::with_identity;
use super::error::GitError;
use super::fresh_index::FreshIndex;
use super::names::{CommitId, head_ref, integration_branch};
use super::repo::Repo;
use super::restore::CHUNK;
use super::worktree::Worktree;

/// The limit for numbered folders of private files of one team.
const MOST_KEPT: u32 = 10_000;
/// How often a worktree is searched, each time after the files that were found are moved away.
const MOST_SEARCHES: usize = 16;
/// The size limit for searching a file for keys.
const MOST_READ: u64 = 32 * 1024 * 1024;
/// The mode of an entry that is a repository (a gitlink).
const REPOSITORY: &str = "160000";

/// Why a file must not be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretReason {
    /// Its path is denied by this pattern.
    Denied(&'static str),
    /// It contains a key in a well-known format in this line.
    Key {
        /// The line number, starting at 1.
        line: usize,
    },
}

/// A file that must not be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile {
    /// Its former path, relative to the root of the worktree.
    pub path: PathBuf,
    /// Why it must not be committed.
    pub reason: SecretReason,
    /// Where it is kept; `None` when there is nothing to keep, such as for a deleted file.
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

/// The files found, by path.
pub(super) type FoundSecrets = BTreeMap<Vec<u8>, FoundSecret>;

/// Why a path must not be committed, and its object in git.
#[derive(Clone, Debug)]
pub(super) struct FoundSecret {
    reason: SecretReason,
    object: Option<String>,
}

/// One change in git's list.
struct ListedChange {
    path: Vec<u8>,
    /// The object at the path after the change; `None` when it was deleted or is a repository.
    object: Option<String>,
    is_deletion: bool,
}

impl Worktree {
    /// Moves files that must not be committed out of the worktree into the team's private folder, and removes them from
    /// every commit of the worker since `base`. No process may be working in the worktree.
    ///
    /// A file that is moved away can reveal others that git did not show before: it may have been an ignore file that
    /// hid them, or a deleted file whose text was found under another name. So the worktree is searched until nothing
    /// is found. The moved files are added to `kept`, also if there is an error later.
    pub fn set_secrets_aside(
        &self,
        base: &CommitId,
        kept: &mut Vec<SecretFile>,
    ) -> Result<(), GitError> {
        let from = self.fork_from(base)?;
        for search in 0..=MOST_SEARCHES {
            let (mut found, tips) = self.secrets_since(&from)?;
            if search > 0 {
                // Files of git itself stay in their place, and are reported once.
                found.retain(|path, _| !is_of_git(path));
            }
            if found.is_empty() {
                return Ok(());
            }
            if search == MOST_SEARCHES {
                break;
            }
            self.remove_stale_index_lock()?;
            self.keep_privately(&found, Keep::Move, kept)?;
            self.remove_from_work(&found, &tips, &from)?;
        }
        Err(GitError::refused(
            format!(
                "{} has files that must not be committed, and each of {MOST_SEARCHES} times that they were moved away, \
                 others appeared",
                self.path.display()
            ),
            "remove them, and the ignore files among them, yourself",
        ))
    }

    /// Returns all secrets since `from`, and the names of the references whose commits contain some.
    fn secrets_since(&self, from: &CommitId) -> Result<(FoundSecrets, Vec<String>), GitError> {
        let mut found = self.uncommitted_secrets(from)?;
        let (mut tips, mut seen) = (Vec::new(), Vec::new());
        for name in ["HEAD".to_owned(), head_ref(&self.branch())] {
            let Some(tip) = self.resolve(&name)?.filter(|tip| !seen.contains(tip)) else {
                continue;
            };
            seen.push(tip.clone());
            let committed = self.committed_secrets(from, &tip)?;
            if !committed.is_empty() {
                tips.push(name);
                merge_into(&mut found, committed);
            }
        }
        Ok((found, tips))
    }

    /// Removes files that were moved away from the references whose commits contain some, and from the index. The files
    /// are then as in the worktree's commit.
    fn remove_from_work(
        &self,
        found: &FoundSecrets,
        tips: &[String],
        from: &CommitId,
    ) -> Result<(), GitError> {
        for name in tips {
            self.rewrite(name, from)?;
        }
        if !tips.is_empty() {
            // The reflogs would keep the commits. A missing reflog makes git fail, which is ignored.
            self.call()
                .args(["reflog", "expire", "--expire=now"])
                .args(["--expire-unreachable=now", "HEAD"])
                .arg(head_ref(&self.branch()))
                .run()?;
        }
        // Not as in `from`: the commit may contain merged work that changed them.
        let head = self.head()?;
        for path in found.keys().filter(|path| !is_of_git(path)) {
            self.restore(&head, path)?;
        }
        self.with_fresh_index(FreshIndex::install)?;
        Ok(())
    }

    /// Returns the secrets in the index and in the files.
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

    /// Returns the secrets in a worker's commits, including those that a later commit removed.
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

    /// Returns the merge base of the worktree's commit and `base`.
    pub(super) fn fork_from(&self, base: &CommitId) -> Result<CommitId, GitError> {
        let fork = self.repo.fork_point(base, &self.head()?)?;
        Ok(fork.unwrap_or_else(|| base.clone()))
    }

    /// Returns the commit at which the work here began, as far as the repository shows.
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

    /// Returns the content of a plain file; `None` when it is missing, too large or another kind of file.
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

    /// Saves the files to a new folder among the team's private ones, and adds each to `kept` when that is done.
    pub(super) fn keep_privately(
        &self,
        found: &FoundSecrets,
        keep: Keep,
        kept: &mut Vec<SecretFile>,
    ) -> Result<(), GitError> {
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
        Ok(())
    }

    /// Writes a file to the private folder and, with [`Keep::Move`], removes it from the worktree.
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
            to.create_new(last, bytes, Durability::Durable)?;
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
            // Links, repositories and large files were not read, and are moved as they are.
            (Some(_), Keep::Move) if content.is_none() => here.rename(last, &to, last)?,
            // The content of a folder is kept file by file.
            (None, _) | (Some(_), Keep::Copy) | (Some(FileKind::Folder), Keep::Move) => {}
            (Some(_), Keep::Move) => drop(here.remove(last)?),
        }
        Ok(Some(to.join(last)))
    }

    /// Creates a new folder for private files.
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

    /// Replaces the commits of a reference since `from` by one without secrets, which would otherwise stay in the
    /// history.
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

    /// Makes a single commit of everything in `tip` since `from`, without secrets.
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

    /// Resets the entries of an index to their state in `from`.
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

    /// Restores a file to its state in a commit, if it exists there.
    fn restore(&self, commit: &CommitId, path: &[u8]) -> Result<(), GitError> {
        let name = OsStr::from_bytes(path);
        let was = self
            .call()
            .env("GIT_LITERAL_PATHSPECS", "1")
            .args(["ls-tree", "--full-tree", "-z", commit.as_str(), "--"])
            .arg(name)
            .bytes()?;
        if was.is_empty() {
            return Ok(());
        }
        self.ruled_call()?
            .env("GIT_LITERAL_PATHSPECS", "1")
            .args(["checkout", "--quiet", commit.as_str(), "--"])
            .arg(name)
            .done()
    }
}

impl Repo {
    /// Returns the secrets in any commit of `commit` since its merge base with `other`.
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

/// What happens to the original of a file that is kept privately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// It is removed from the worktree.
    Move,
    /// It stays in the worktree, because a process may be working there.
    Copy,
}

/// Texts that existed before the worker started; a key in one of them is not the worker's.
struct KnownTexts<'a> {
    worktree: Option<&'a Worktree>,
    repo: &'a Repo,
    from: &'a CommitId,
    /// Deleted files: a file may have been renamed.
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

    /// Returns the line of the first key that did not exist before.
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
                let bytes = match object_of(repo.call(), object) {
                    Ok(bytes) => bytes,
                    // An object that is too large is not searched for keys. Any other error must not let a key pass.
                    Err(_) if size_of(repo.call(), object)? > MOST_READ => continue,
                    Err(error) => return Err(error),
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
        // The log starts with the newest commit.
        entry.object = entry.object.take().or_else(|| change.object.clone());
    }
    Ok(found)
}

/// Returns the changes by those commits of `tip` that are neither in `from` nor in `merged`.
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

/// Parses git's `--raw -z` output: one colon, two modes, two objects and a letter; for a merge one more of each for
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

fn size_of(call: GitCommand, object: &str) -> Result<u64, GitError> {
    let size = call.args(["cat-file", "-s", object]).text()?;
    size.parse()
        .map_err(|_| GitError::failed(format!("git calls the size of {object} {size:?}"), ""))
}

fn denied_by(path: &[u8]) -> Option<SecretReason> {
    denied::pattern(Path::new(OsStr::from_bytes(path))).map(SecretReason::Denied)
}

/// Returns whether a path is inside a `.git` folder, which cannot be committed.
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
