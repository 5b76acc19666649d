//! Finds the real changes in a worktree, whatever its index says.
//!
//! Flags (`skip-worktree`, `assume-unchanged`), caches and a sparse checkout make git skip files. So the files are
//! compared with the commit through an index that is newly created from it, and by the rules that applied before an
//! agent started.
//!
//! A new index has no cached file state, so git has to read all files. The refreshed index is kept in memory, out of an
//! agent's reach, for the next comparison of the same worktree. That relies on change times (ctime), which programs
//! cannot set, and is as reliable as git's own. A sparse checkout is compared from scratch each time: git decides only
//! for a new entry whether it is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use teamster_fs::{Dir, Durability, ProjectFiles, layout, remove_tree};

use super::changes::status;
use super::command::{GitCommand, GitSetting};
use super::error::{GitError, GitProblem};
use super::names::CommitId;
use super::nested::NestedWork;
use super::restore::CHUNK;
use super::secrets::FoundSecrets;
use super::tracking::{CurrentSettings, INFO_ATTRIBUTES, TrackingRules};
use super::worktree::Worktree;
use crate::OrTrace as _;
use crate::is_program;

/// The index of a worktree, in the worktree's git folder.
const INDEX: &str = "index";
/// Settings that keep flags and caches from hiding a changed file.
const UNCACHED: [&str; 7] = [
    "core.checkStat=default",
    "core.trustctime=true",
    "core.ignoreStat=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "index.sparse=false",
    "sparse.expectFilesOutsideOfPatterns=false",
];
/// The maximum number of names in an error.
const NAMED: usize = 10;
/// The size limit for comparing a file with git's checkout of it; a larger file that git reports as modified counts as
/// modified.
const MOST_COMPARED: u64 = 64 * 1024 * 1024;
/// The maximum number of files to compare; above it all of them count as modified.
const MOST_FILES_COMPARED: usize = 5_000;
/// The size limit for keeping an index in memory.
const LARGEST_KEPT: u64 = 64 * 1024 * 1024;

/// The index of the worktree that this process compared last.
static LAST_INDEX: Mutex<Option<RememberedIndex>> = Mutex::new(None);

/// An index after the comparison of a worktree.
struct RememberedIndex {
    /// The worktree's git folder.
    admin: PathBuf,
    index: Vec<u8>,
    /// When the index was written, in nanoseconds since 1970. git reads files again that changed at the same moment.
    modified: i64,
}

/// An index newly created from the commit that is checked out in a worktree.
pub(super) struct FreshIndex {
    worktree: Worktree,
    rules: Arc<TrackingRules>,
    /// The settings of the recorded rules.
    ruled: Vec<GitSetting>,
    /// Whether only a part of the commit is checked out.
    is_sparse: bool,
    options: Vec<String>,
    dir: Dir,
    name: String,
    /// Files that git reports as modified although they are exactly what git itself checks out. That happens where the
    /// commit does not conform to the configured line endings or a filter.
    untouched: BTreeSet<Vec<u8>>,
}

impl Worktree {
    /// Calls `with` with a fresh index, and removes the index afterwards.
    pub(super) fn with_fresh_index<T>(
        &self,
        with: impl FnOnce(&FreshIndex) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        let rules = self.rules()?;
        let current = CurrentSettings::read(self.call())?;
        let mut fresh = FreshIndex {
            ruled: rules.settings(&current)?,
            is_sparse: current.may_be_on("core.sparsecheckout"),
            options: Vec::new(),
            worktree: self.clone(),
            rules,
            dir: self.admin_dir()?,
            name: layout::spare_index(&self.name),
            untouched: BTreeSet::new(),
        };
        let result = fresh.fill().and_then(|()| with(&fresh));
        remove_tree(&fresh.dir, &fresh.checked_out()).or_trace("remove an old look at a worktree");
        for name in fresh.files() {
            fresh.dir.remove(&name).or_trace("remove an old index");
        }
        result
    }

    /// Returns every file that differs from the commit: its path, and git's letter for the change.
    pub(super) fn changed(&self) -> Result<BTreeMap<Vec<u8>, u8>, GitError> {
        self.with_fresh_index(FreshIndex::all_changed)
    }

    /// Removes new files that git ignores by a rule that an agent has added. The caller has already saved their
    /// contents.
    pub(super) fn remove_hidden(&self) -> Result<(), GitError> {
        let hidden = self.with_fresh_index(|fresh| fresh.hidden(fresh.call()))?;
        let paths: Vec<&[u8]> = hidden
            .split(|byte| *byte == 0)
            .filter(|path| !path.is_empty())
            .collect();
        for chunk in paths.chunks(CHUNK) {
            self.call()
                .env("GIT_LITERAL_PATHSPECS", "1")
                .args(["clean", "--quiet", "-f", "-d", "-x", "--"])
                .args(chunk.iter().map(|path| OsStr::from_bytes(path)))
                .done()?;
        }
        Ok(())
    }

    /// Replaces an index in which flags are set, so that git updates every file again.
    pub(super) fn clear_flags(&self) -> Result<(), GitError> {
        let listed = self.call().args(["ls-files", "-v", "-z"]).bytes()?;
        let is_flagged = |line: &[u8]| {
            line.first()
                .is_some_and(|letter| letter.is_ascii_lowercase() || *letter == b'S')
        };
        if !listed.split(|byte| *byte == 0).any(is_flagged) {
            return Ok(());
        }
        self.with_fresh_index(FreshIndex::install)
    }
}

impl FreshIndex {
    fn fill(&mut self) -> Result<(), GitError> {
        if !self.is_sparse {
            self.recall();
        }
        // Unlike `read-tree`, this respects a sparse checkout.
        self.call()
            .args(["reset", "--quiet", "--no-refresh", "HEAD", "--", ":/"])
            .done()?;
        // git probes the file system for both only once, when the repository is created, and then relies on its
        // settings.
        let has_modes = !is_program(&self.path(""));
        let folds_case = self.dir.join(&self.name.to_uppercase()).exists();
        self.options.push(format!("core.fileMode={has_modes}"));
        self.options.push(format!("core.ignoreCase={folds_case}"));
        // Reads the files, once. Without `-q`, the exit code says whether a file differs.
        let refreshed = self.call().args(["update-index", "--refresh"]).run()?;
        self.remember();
        if !refreshed.status.success() {
            self.untouched = self.find_untouched()?;
        }
        Ok(())
    }

    /// Starts from the index of the last comparison of this worktree, if there is one.
    fn recall(&self) {
        let last = LAST_INDEX.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(look) = last.as_ref().filter(|look| look.admin == self.dir.path()) {
            let put = self
                .dir
                .create_new(&self.name, &look.index, Durability::Fast);
            let put = put.and_then(|_| self.dir.set_modified(&self.name, look.modified));
            if put.is_err() {
                self.dir
                    .remove(&self.name)
                    .or_trace("remove the index of a look");
            }
        }
    }

    /// Keeps the refreshed index in memory, unless the checkout is sparse.
    fn remember(&self) {
        let stamp = self.dir.stamp(&self.name).ok().flatten();
        let is_kept = !self.is_sparse && stamp.is_some_and(|stamp| stamp.size <= LARGEST_KEPT);
        let read = self.dir.read(&self.name);
        let read = read.ok().flatten().filter(|_| is_kept);
        let mut last = LAST_INDEX.lock().unwrap_or_else(PoisonError::into_inner);
        *last = read.map(|(index, stamp)| RememberedIndex {
            admin: self.dir.path().to_owned(),
            index,
            modified: stamp.modified,
        });
    }

    /// Compares files that git reports as modified with what it would check out.
    fn find_untouched(&self) -> Result<BTreeSet<Vec<u8>>, GitError> {
        let is_small = |path: &Vec<u8>| {
            let path = self.worktree.path.join(OsStr::from_bytes(path));
            path.symlink_metadata()
                .is_ok_and(|about| about.is_file() && about.len() <= MOST_COMPARED)
        };
        let listed = self
            .call()
            .args(["diff-files", "--raw", "-z", "--no-abbrev"]);
        let listed = listed
            .args(["--diff-filter=M", "--no-ext-diff", "--no-renames"])
            .arg("--ignore-submodules=all")
            .bytes()?;
        let mut fields = listed.split(|byte| *byte == 0);
        let mut paths = Vec::new();
        while let (Some(change), Some(path)) = (fields.next(), fields.next()) {
            // `:OLD-MODE NEW-MODE OLD-ID NEW-ID LETTER`: a changed mode counts as a modification.
            let is_same_mode = change.get(1..7) == change.get(8..14);
            let path = path.to_vec();
            if is_same_mode && is_small(&path) {
                paths.push(path);
            }
        }
        if paths.is_empty() || paths.len() > MOST_FILES_COMPARED {
            return Ok(BTreeSet::new());
        }
        let folder = self.dir.child_or_create(&self.checked_out())?;
        let mut prefix = folder.path().as_os_str().to_owned();
        prefix.push("/");
        for chunk in paths.chunks(CHUNK) {
            // A file that cannot be checked out counts as modified.
            self.call()
                // A large file is not downloaded only to be compared.
                .env("GIT_LFS_SKIP_SMUDGE", "1")
                .args(["checkout-index", "--quiet", "--force", "--prefix"])
                .arg(&prefix)
                .arg("--")
                .args(chunk.iter().map(|path| OsStr::from_bytes(path)))
                .run()?;
        }
        let (Some(there), Some(written)) = (
            ProjectFiles::open(&self.worktree.path)?,
            ProjectFiles::open(folder.path())?,
        ) else {
            return Ok(BTreeSet::new());
        };
        paths.retain(|path| {
            let path = Path::new(OsStr::from_bytes(path));
            let written = written.read(path).ok().flatten();
            written.is_some() && there.read(path).ok().flatten() == written
        });
        Ok(paths.into_iter().collect())
    }

    fn files(&self) -> [String; 6] {
        ["", ".lock", ".ignored", ".paths", ".nested", ".nested.lock"]
            .map(|end| format!("{}{end}", self.name))
    }

    /// Returns the name of the folder for git's checkout of the compared files.
    fn checked_out(&self) -> String {
        format!("{}.checked-out", self.name)
    }

    /// Returns the worktree that the index describes.
    pub(super) fn worktree(&self) -> &Worktree {
        &self.worktree
    }

    /// Returns a path for another index, for a nested repository; the file does not exist yet.
    pub(super) fn nested_index(&self) -> Result<PathBuf, GitError> {
        let [.., name, _] = self.files();
        self.dir.remove(&name)?;
        Ok(self.dir.join(&name))
    }

    fn path(&self, end: &str) -> PathBuf {
        self.dir.join(&format!("{}{end}", self.name))
    }

    /// Returns a git command that uses this index.
    pub(super) fn call(&self) -> GitCommand {
        let call = self.worktree.call().env("GIT_INDEX_FILE", self.path(""));
        with_options(call, &self.options).settings(self.ruled.iter().cloned())
    }

    /// Returns a git command in a nested repository, with a separate index and without settings that an agent has made.
    pub(super) fn call_in(&self, folder: &Path, index: &Path) -> Result<GitCommand, GitError> {
        let call = self.worktree.repo.call_in(folder);
        let ruled = self.rules.settings(&CurrentSettings::read(call.clone())?)?;
        Ok(with_options(call.env("GIT_INDEX_FILE", index), &[]).settings(ruled))
    }

    /// Returns the path of a file with the recorded ignore patterns.
    fn ignored(&self) -> Result<PathBuf, GitError> {
        let [_, _, name, ..] = self.files();
        self.dir
            .replace(&name, self.rules.ignored(), Durability::Fast)?;
        Ok(self.dir.join(&name))
    }

    /// Returns the files that are untracked by the recorded ignore patterns, as listed by `call`.
    pub(super) fn hidden(&self, call: GitCommand) -> Result<Vec<u8>, GitError> {
        call.args(["ls-files", "--others", "-z"])
            .args(["--exclude-per-directory=.gitignore", "--exclude-from"])
            .arg(self.ignored()?)
            .bytes()
    }

    /// Returns every file that differs from the commit: its path, and git's letter for the change.
    pub(super) fn all_changed(&self) -> Result<BTreeMap<Vec<u8>, u8>, GitError> {
        let mut changed = self.changed()?;
        // Changes that git reports itself keep its letter, and a change that is only staged is in no file.
        for (letter, path) in self.worktree.status()? {
            if letter != b'M' || !self.untouched.contains(&path) {
                changed.insert(path, letter);
            }
        }
        Ok(changed)
    }

    fn changed(&self) -> Result<BTreeMap<Vec<u8>, u8>, GitError> {
        let hidden = self.hidden(self.call())?;
        let hidden = hidden
            .split(|byte| *byte == 0)
            .filter(|path| !path.is_empty());
        let mut changed: BTreeMap<Vec<u8>, u8> = hidden.map(|path| (path.to_vec(), b'?')).collect();
        // Nothing is staged in this index, so only the second letter is relevant.
        for file in status(self.call())? {
            if !self.untouched.contains(&file.path) {
                changed.insert(file.path, file.work);
            }
        }
        if self.rules.attributes_changed(&self.worktree.repo) {
            changed.insert(format!(".git/{INFO_ATTRIBUTES}").into(), b'M');
        }
        Ok(changed)
    }

    /// Adds every file to the index, and returns the id of its tree.
    pub(super) fn take(&self) -> Result<String, GitError> {
        self.take_but(&FoundSecrets::new(), None)
    }

    /// Adds every file to the index except `secrets`, which are reset to the commit `from`, and returns the id of the
    /// tree. git never reads the secrets.
    pub(super) fn take_but(
        &self,
        secrets: &FoundSecrets,
        from: Option<&CommitId>,
    ) -> Result<String, GitError> {
        if secrets.is_empty() {
            add(self.call().args(["add", "--all"]))?;
        } else {
            let mut paths = b":/".to_vec();
            for path in secrets.keys() {
                paths.extend_from_slice(b"\0:(top,exclude,literal)");
                paths.extend_from_slice(path);
            }
            add(self.call_with_paths(&paths, &["add", "--all"])?)?;
        }
        let mut hidden = self.hidden(self.call())?;
        if !secrets.is_empty() {
            let listed = hidden.split(|byte| *byte == 0);
            let listed: Vec<&[u8]> = listed
                .filter(|path| !path.is_empty() && !secrets.contains_key(*path))
                .collect();
            hidden = listed.join(&0);
        }
        if !hidden.is_empty() {
            add(self.call_for(&hidden, &["add", "--force"])?)?;
        }
        if !self.untouched.is_empty() {
            let paths: Vec<&[u8]> = self.untouched.iter().map(Vec::as_slice).collect();
            let reset = ["reset", "--quiet", "--no-refresh"];
            self.call_for(&paths.join(&0), &reset)?.done()?;
        }
        if let Some(from) = from.filter(|_| !secrets.is_empty()) {
            self.worktree.reset_paths(&self.path(""), secrets, from)?;
        }
        self.call().arg("write-tree").text()
    }

    /// Returns a git command for literal paths, which are separated by zero bytes.
    fn call_for(&self, paths: &[u8], command: &[&str]) -> Result<GitCommand, GitError> {
        let call = self.call_with_paths(paths, command)?;
        Ok(call.env("GIT_LITERAL_PATHSPECS", "1"))
    }

    /// Returns a git command for path patterns, which are separated by zero bytes.
    fn call_with_paths(&self, paths: &[u8], command: &[&str]) -> Result<GitCommand, GitError> {
        let [_, _, _, name, ..] = self.files();
        self.dir.replace(&name, paths, Durability::Fast)?;
        Ok(self
            .call()
            .args(command)
            .args(["--pathspec-file-nul", "--pathspec-from-file"])
            .arg(self.dir.join(&name)))
    }

    /// Fails if a file in the worktree is not in the index after [`Self::take`].
    pub(super) fn refuse_left(&self) -> Result<(), GitError> {
        let mut left: BTreeSet<String> = BTreeSet::new();
        for file in status(self.call())? {
            if file.work != b' ' && !self.untouched.contains(&file.path) {
                left.insert(String::from_utf8_lossy(&file.path).into_owned());
            }
        }
        for (path, held) in self.nested_work()? {
            // An unfetchable commit of a nested repository is checked together with the commit that refers to it.
            if held != NestedWork::Commits {
                left.remove(&path);
                left.insert(format!("{path} ({held})"));
            }
        }
        if self.rules.attributes_changed(&self.worktree.repo) {
            left.insert(format!(".git/{INFO_ATTRIBUTES}"));
        }
        if left.is_empty() {
            return Ok(());
        }
        let count = left.len();
        let mut names: Vec<String> = left.into_iter().take(NAMED).collect();
        if count > NAMED {
            names.push(format!("and {} more", count - NAMED));
        }
        Err(GitError::new(
            GitProblem::NotTaken,
            format!(
                "git could not add everything to the commit: {}",
                names.join(", ")
            ),
            format!("it is still in {}", self.worktree.path.display()),
        ))
    }

    /// Installs it as the index of the worktree.
    pub(super) fn install(&self) -> Result<(), GitError> {
        self.dir.rename(&self.name, &self.dir, INDEX)?;
        Ok(())
    }
}

/// Returns the command with these settings and those that disable caches.
fn with_options(call: GitCommand, options: &[String]) -> GitCommand {
    let options = options.iter().map(String::as_str);
    let options = UNCACHED.into_iter().chain(options);
    call.args(options.flat_map(|option| ["-c", option]))
}

/// Adds what can be added. Files that could not be added are found by [`FreshIndex::refuse_left`].
fn add(call: GitCommand) -> Result<(), GitError> {
    let call = call.args(["--sparse", "--ignore-errors"]);
    let ended = call.run()?;
    match ended.status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(call.failed(&ended)),
    }
}
