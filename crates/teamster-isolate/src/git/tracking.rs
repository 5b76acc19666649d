//! The rules by which the files of a worktree count as changed.
//!
//! An agent can change them while it works: a line in `info/exclude`, a filter, an attribute. So they are recorded before it
//! begins, and what it did is judged by those.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use teamster_fs::{Dir, Sync, UserFile};

use super::command::Call;
use super::error::GitError;
use super::repo::Repo;
use super::worktree::{Worktree, vanished};

/// The folder in git's own folder of a worktree that holds the rules.
const FOLDER: &str = "teamster";
const IGNORED: &str = "ignored";
const ATTRIBUTES: &str = "attributes";
const SETTINGS: &str = "settings";
/// In the folder that all worktrees share.
pub(super) const INFO_ATTRIBUTES: &str = "info/attributes";
/// Settings of these names decide what a file becomes in a commit, besides those of filters.
const CONVERTING: [&str; 4] = [
    "core.attributesfile",
    "core.autocrlf",
    "core.eol",
    "core.checkroundtripencoding",
];

/// The rules by which the files of a worktree count as changed, as they were before an agent worked there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrackingRules {
    /// Patterns of `core.excludesFile` and `info/exclude`.
    ignored: Vec<u8>,
    /// Lines of `info/attributes`.
    attributes: Vec<u8>,
    /// Settings that convert contents, with their values.
    settings: BTreeMap<String, String>,
}

impl TrackingRules {
    /// Reads the rules that hold at this moment.
    pub(super) fn now(repo: &Repo) -> Result<Self, GitError> {
        let configured = repo
            .call()
            .args(["config", "--type=path", "--get", "core.excludesFile"])
            .run()?;
        let mut ignored = match configured.stdout.strip_suffix(b"\n") {
            Some(path) => contents(Path::new(OsStr::from_bytes(path))),
            None => default_excludes().map_or_else(Vec::new, |path| contents(&path)),
        };
        ignored.push(b'\n');
        ignored.extend(contents(&repo.common().join("info/exclude")));
        let listed = repo.call().args(["config", "--list", "-z"]).bytes()?;
        Ok(Self {
            ignored,
            attributes: contents(&repo.common().join(INFO_ATTRIBUTES)),
            settings: settings(&listed),
        })
    }

    /// The options of calls like `call` by which these settings hold, and none that was added since.
    pub(super) fn options(&self, call: Call) -> Result<Vec<String>, GitError> {
        let listed = call.args(["config", "--list", "-z"]).bytes()?;
        let added = settings(&listed)
            .into_keys()
            .filter(|name| !self.settings.contains_key(name))
            .map(|name| format!("{name}="));
        let ours = self
            .settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        Ok(added.chain(ours).collect())
    }

    /// Patterns of files that are ignored.
    pub(super) fn ignored(&self) -> &[u8] {
        &self.ignored
    }

    /// Whether somebody has changed `info/attributes` since. No option of git's makes up for that.
    pub(super) fn attributes_changed(&self, repo: &Repo) -> bool {
        contents(&repo.common().join(INFO_ATTRIBUTES)) != self.attributes
    }

    fn load(admin: &Dir) -> Result<Option<Self>, GitError> {
        let Some(dir) = admin.child(FOLDER)? else {
            return Ok(None);
        };
        let read = |name: &str| dir.read(name).map(|found| found.map(|(bytes, _)| bytes));
        let (Some(ignored), Some(attributes), Some(listed)) =
            (read(IGNORED)?, read(ATTRIBUTES)?, read(SETTINGS)?)
        else {
            return Ok(None);
        };
        Ok(Some(Self {
            ignored,
            attributes,
            settings: settings(&listed),
        }))
    }

    fn save(&self, admin: &Dir) -> Result<(), GitError> {
        let dir = admin.child_or_create(FOLDER)?;
        let mut listed = Vec::new();
        for (name, value) in &self.settings {
            listed.extend(format!("{name}\n{value}\0").into_bytes());
        }
        dir.replace(IGNORED, &self.ignored, Sync::Fast)?;
        dir.replace(ATTRIBUTES, &self.attributes, Sync::Fast)?;
        dir.replace(SETTINGS, &listed, Sync::Fast)?;
        Ok(())
    }
}

/// The contents of a file of the user's. One that is missing or cannot be read has no lines, as git sees it.
fn contents(path: &Path) -> Vec<u8> {
    let found = UserFile::find(path).ok().flatten();
    let was = found.and_then(|file| file.read().ok().flatten());
    was.map(|was| was.bytes).unwrap_or_default()
}

/// Where git looks for ignored files when no setting names a file.
fn default_excludes() -> Option<PathBuf> {
    let folder = match std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".config"),
    };
    Some(folder.join("git/ignore"))
}

/// The settings that convert contents, of what `git config --list -z` printed.
fn settings(listed: &[u8]) -> BTreeMap<String, String> {
    String::from_utf8_lossy(listed)
        .split('\0')
        .filter_map(|entry| {
            let (name, value) = entry.split_once('\n').unwrap_or((entry, "true"));
            let counts = name.starts_with("filter.") || CONVERTING.contains(&name);
            counts.then(|| (name.to_owned(), value.to_owned()))
        })
        .collect()
}

impl Worktree {
    /// Records the rules that hold now, before an agent begins.
    pub(super) fn record_rules(&self) -> Result<(), GitError> {
        self.use_rules(Arc::new(TrackingRules::now(&self.repo)?))
    }

    /// Records the rules again after commands of ours that may have changed them, where they were recorded before.
    pub(super) fn record_rules_again(&self) -> Result<(), GitError> {
        if self.rules_in_memory().is_some() {
            self.record_rules()?;
        }
        Ok(())
    }

    /// Goes on with the rules of a worktree that this one replaces: an agent has worked since they were recorded.
    pub fn keep_rules_of(&self, former: &Self) -> Result<(), GitError> {
        self.use_rules(former.rules()?)
    }

    fn use_rules(&self, rules: Arc<TrackingRules>) -> Result<(), GitError> {
        rules.save(&self.admin_dir()?)?;
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Some(rules);
        Ok(())
    }

    fn rules_in_memory(&self) -> Option<Arc<TrackingRules>> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.clone()
    }

    /// The rules in memory, which no agent can change; else those that were recorded; else those that hold now.
    pub(super) fn rules(&self) -> Result<Arc<TrackingRules>, GitError> {
        if let Some(rules) = self.rules_in_memory() {
            return Ok(rules);
        }
        let recorded = TrackingRules::load(&self.admin_dir()?)?;
        recorded
            .map_or_else(|| TrackingRules::now(&self.repo), Ok)
            .map(Arc::new)
    }

    pub(super) fn admin_dir(&self) -> Result<Dir, GitError> {
        Dir::open_root(self.admin())?.ok_or_else(|| vanished(self.admin()))
    }
}
