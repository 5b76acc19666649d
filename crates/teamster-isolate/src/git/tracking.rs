//! The rules that decide which files of a worktree count as changed.
//!
//! An agent can change them while it works: a line in `info/exclude`, a filter, an attribute, a merge driver. So they
//! are recorded once when a run begins, before any agent starts, and its commits, merges and checks use the recorded
//! ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use teamster_fs::{Dir, Durability, UserFile};

use super::command::{GitCommand, GitSetting};
use super::error::GitError;
use super::repo::Repo;
use super::worktree::{Worktree, vanished};

/// The folder for the recorded rules, in a worktree's git folder.
const FOLDER: &str = "teamster";
const IGNORED: &str = "ignored";
const ATTRIBUTES: &str = "attributes";
const SETTINGS: &str = "settings";
/// The repository's own attributes file, in the git folder that all worktrees share.
pub(super) const INFO_ATTRIBUTES: &str = "info/attributes";
const ATTRIBUTES_FILE: &str = "core.attributesfile";
/// Settings that determine the content of a file in a commit or a work tree, or the result of a merge, with their
/// default values. Those of filters and merge drivers do so, too.
const CONVERTING: [(&str, &str); 14] = [
    (ATTRIBUTES_FILE, ""),
    ("core.autocrlf", "false"),
    ("core.checkroundtripencoding", "SHIFT-JIS"),
    ("core.eol", "native"),
    ("core.symlinks", "true"),
    ("diff.renamelimit", "1000"),
    ("diff.renames", "true"),
    ("merge.conflictstyle", "merge"),
    ("merge.default", ""),
    ("merge.directoryrenames", "conflict"),
    ("merge.renamelimit", "7000"),
    ("merge.renames", "true"),
    ("merge.renormalize", "false"),
    ("merge.verbosity", "2"),
];

/// The rules that decide which files of a worktree count as changed, as they were before an agent worked there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrackingRules {
    /// Patterns of `core.excludesFile` and `info/exclude`.
    ignored: Vec<u8>,
    /// Lines of `core.attributesFile` and `info/attributes`.
    attributes: Vec<u8>,
    /// Settings that convert or merge contents, with their values.
    settings: BTreeMap<OsString, OsString>,
}

impl TrackingRules {
    /// Reads the current rules.
    pub(super) fn now(repo: &Repo) -> Result<Self, GitError> {
        let mut ignored = match configured(repo, "core.excludesFile")? {
            Some(path) => contents(&path),
            None => default_file("ignore").map_or_else(Vec::new, |path| contents(&path)),
        };
        ignored.push(b'\n');
        ignored.extend(contents(&repo.common().join("info/exclude")));
        let mut settings = CurrentSettings::read(repo.call())?.converting();
        // Resolved by git: `~` and relative paths have a different meaning elsewhere.
        if let Some(path) = configured(repo, ATTRIBUTES_FILE)? {
            settings.insert(ATTRIBUTES_FILE.into(), path.into_os_string());
        }
        let mut rules = Self {
            ignored,
            attributes: Vec::new(),
            settings,
        };
        rules.attributes = rules.attributes_now(repo);
        Ok(rules)
    }

    /// Returns the current content of the attributes files that applied when the rules were recorded.
    fn attributes_now(&self, repo: &Repo) -> Vec<u8> {
        let path = self.settings.get(OsStr::new(ATTRIBUTES_FILE));
        let path = path.map(PathBuf::from).or_else(|| default_file(ATTRIBUTES));
        let mut now = path.map_or_else(Vec::new, |path| contents(&path));
        now.push(b'\n');
        now.extend(contents(&repo.common().join(INFO_ATTRIBUTES)));
        now
    }

    /// Returns the settings that make calls where `current` applies use these rules, and disable those that were added
    /// since.
    pub(super) fn settings(&self, current: &CurrentSettings) -> Result<Vec<GitSetting>, GitError> {
        let mut ruled = Vec::new();
        for name in current.converting().into_keys() {
            if !self.settings.contains_key(&name) {
                let value = self.without(&name)?;
                ruled.push((name, value));
            }
        }
        let ours = self.settings.iter();
        ruled.extend(ours.map(|(name, value)| (name.clone(), value.clone())));
        Ok(ruled)
    }

    /// Returns the value that neutralizes a setting that was added.
    fn without(&self, name: &OsStr) -> Result<OsString, GitError> {
        let bytes = name.as_bytes();
        if bytes == ATTRIBUTES_FILE.as_bytes() {
            let path = default_file(ATTRIBUTES);
            return Ok(path.map_or_else(OsString::new, PathBuf::into_os_string));
        }
        if let Some((_, usual)) = CONVERTING.iter().find(|(known, _)| *known == name) {
            return Ok(usual.into());
        }
        // git takes an empty process setting as one, and then runs none of the filter's other commands.
        if let Some(filter) = bytes.strip_suffix(b"process")
            && let mut known = self.settings.keys()
            && known.any(|known| known.as_bytes().starts_with(filter))
        {
            return Err(GitError::refused(
                format!(
                    "{} was added to the settings of git since the run began",
                    name.display()
                ),
                "it changes one of your filters; `git config --show-origin --get NAME` shows where it is; remove it there",
            ));
        }
        // An empty driver would succeed and take one side; this one causes a conflict.
        let is_driver = bytes.starts_with(b"merge.") && bytes.ends_with(b".driver");
        Ok(if is_driver { "false" } else { "" }.into())
    }

    /// Returns a description of every rule about contents that has changed.
    fn changed(&self, repo: &Repo) -> Result<Vec<String>, GitError> {
        let now = Self::now(repo)?;
        let names: BTreeSet<&OsString> = self.settings.keys().chain(now.settings.keys()).collect();
        let mut changed: Vec<String> = names
            .into_iter()
            .filter(|name| self.settings.get(*name) != now.settings.get(*name))
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        if self.attributes_changed(repo) {
            changed.push(format!(".git/{INFO_ATTRIBUTES}"));
        }
        Ok(changed)
    }

    /// Returns the ignore patterns.
    pub(super) fn ignored(&self) -> &[u8] {
        &self.ignored
    }

    /// Returns whether `info/attributes` has been changed since. No git option can override that file.
    pub(super) fn attributes_changed(&self, repo: &Repo) -> bool {
        self.attributes_now(repo) != self.attributes
    }

    /// Fails if `info/attributes` has been changed since the rules were recorded.
    pub(super) fn refuse_changed_attributes(&self, repo: &Repo) -> Result<(), GitError> {
        if !self.attributes_changed(repo) {
            return Ok(());
        }
        Err(GitError::refused(
            format!(
                "{} was changed since the run began, and it affects the contents of files",
                repo.common().join(INFO_ATTRIBUTES).display()
            ),
            "restore it, and resume the run",
        ))
    }

    /// Returns these rules with additional ignore patterns.
    fn and_ignored(&self, patterns: &[String]) -> Self {
        let mut rules = self.clone();
        for pattern in patterns {
            rules.ignored.extend(format!("\n{pattern}\n").into_bytes());
        }
        rules
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
            settings: converting(&listed),
        }))
    }

    fn save(&self, admin: &Dir) -> Result<(), GitError> {
        let dir = admin.child_or_create(FOLDER)?;
        let mut listed = Vec::new();
        for (name, value) in &self.settings {
            listed.extend([name.as_bytes(), b"\n", value.as_bytes(), b"\0"].concat());
        }
        dir.replace(IGNORED, &self.ignored, Durability::Fast)?;
        dir.replace(ATTRIBUTES, &self.attributes, Durability::Fast)?;
        dir.replace(SETTINGS, &listed, Durability::Fast)?;
        Ok(())
    }
}

/// Returns the content of a file of the user's. A missing or unreadable file counts as empty, as in git.
fn contents(path: &Path) -> Vec<u8> {
    let found = UserFile::find(path).ok().flatten();
    let was = found.and_then(|file| file.read().ok().flatten());
    was.map(|was| was.bytes).unwrap_or_default()
}

/// Returns the path that a setting contains.
fn configured(repo: &Repo, setting: &str) -> Result<Option<PathBuf>, GitError> {
    let get = ["config", "--type=path", "--get", setting];
    let found = repo.call().args(get).run()?.stdout;
    let path = found.strip_suffix(b"\n").map(OsStr::from_bytes);
    Ok(path.map(|path| repo.root().join(path)))
}

/// Returns the default path of a file with the user's rules.
fn default_file(name: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".config"),
    };
    Some(folder.join("git").join(name))
}

/// Returns the settings that convert or merge contents, from a list as [`CurrentSettings`] has it.
fn converting(listed: &[u8]) -> BTreeMap<OsString, OsString> {
    entries(listed)
        .filter(|(name, _)| {
            let is_driver = name.starts_with(b"merge.")
                && [&b".driver"[..], b".recursive"]
                    .iter()
                    .any(|end| name.ends_with(end));
            let is_known = || {
                CONVERTING
                    .iter()
                    .any(|(known, _)| known.as_bytes() == *name)
            };
            name.starts_with(b"filter.") || is_driver || is_known()
        })
        .map(|(name, value)| {
            (
                OsStr::from_bytes(name).into(),
                OsStr::from_bytes(value).into(),
            )
        })
        .collect()
}

/// Returns the name and the value of each setting in a list. A setting without a value is on.
fn entries(listed: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let entries = listed.split(|byte| *byte == 0);
    entries.filter(|entry| !entry.is_empty()).map(|entry| {
        let end = entry.iter().position(|byte| *byte == b'\n');
        end.map_or((entry, &b"true"[..]), |end| {
            (&entry[..end], &entry[end + 1..])
        })
    })
}

/// All settings of git where a command would run, as `git config --list -z` prints them.
pub(super) struct CurrentSettings(Vec<u8>);

impl CurrentSettings {
    /// Reads the settings that apply to a command.
    pub(super) fn read(call: GitCommand) -> Result<Self, GitError> {
        Ok(Self(call.args(["config", "--list", "-z"]).bytes()?))
    }

    fn converting(&self) -> BTreeMap<OsString, OsString> {
        converting(&self.0)
    }

    /// Returns whether a setting may be on. Its name is in lower case; the last one of several counts.
    ///
    /// Git knows many ways to write a number (`1k`, `0x1`), so everything that does not clearly mean "off" counts as on.
    pub(super) fn may_be_on(&self, name: &str) -> bool {
        let found = entries(&self.0).filter(|(known, _)| *known == name.as_bytes());
        found.last().is_some_and(|(_, value)| {
            let value = value.to_ascii_lowercase();
            !matches!(value.as_slice(), b"" | b"false" | b"no" | b"off" | b"0")
        })
    }
}

impl Repo {
    /// Records the current rules for a team's run that begins, in a folder of the team.
    pub fn record_rules(&self, team: &Dir) -> Result<(), GitError> {
        let rules = TrackingRules::now(self)?;
        rules.save(team)?;
        self.rules.get_or_init(|| Arc::new(rules));
        Ok(())
    }

    /// Switches to the rules that were recorded when the team's run began, and returns false when there are none.
    pub fn use_recorded_rules(&self, team: &Dir) -> Result<bool, GitError> {
        let Some(rules) = TrackingRules::load(team)? else {
            return Ok(false);
        };
        self.rules.get_or_init(|| Arc::new(rules));
        Ok(true)
    }

    /// Returns a git command in the user's work tree that uses the rules recorded for the team's run, if there is one.
    pub(super) fn ruled_call(&self) -> Result<GitCommand, GitError> {
        let Some(rules) = self.rules.get() else {
            return Ok(self.call());
        };
        rules.refuse_changed_attributes(self)?;
        let current = CurrentSettings::read(self.call())?;
        Ok(self.call().settings(rules.settings(&current)?))
    }

    /// Returns a description of every rule about contents (filters, attributes, merge drivers) that has changed since
    /// the run began.
    pub fn changed_rules(&self) -> Result<Vec<String>, GitError> {
        match self.rules.get() {
            Some(rules) => rules.changed(self),
            None => Ok(Vec::new()),
        }
    }
}

impl Worktree {
    /// Records the rules of the team's run, or the current ones if there is no run.
    pub(super) fn record_rules(&self) -> Result<(), GitError> {
        self.use_rules(match self.repo.rules.get() {
            Some(rules) => Arc::clone(rules),
            None => Arc::new(TrackingRules::now(&self.repo)?),
        })
    }

    /// Updates the recorded rules, if there are any: without a run, teamster's own setup commands may have changed the
    /// rules, and the patterns of linked folders are added.
    pub(super) fn record_rules_again(&self, patterns: &[String]) -> Result<(), GitError> {
        if self.rules_in_memory().is_none() {
            return Ok(());
        }
        self.record_rules()?;
        let rules = self.rules()?.and_ignored(patterns);
        self.use_rules(Arc::new(rules))
    }

    /// Returns a git command in the worktree that uses the recorded rules, for commands that write files or merge.
    pub(super) fn ruled_call(&self) -> Result<GitCommand, GitError> {
        let rules = self.rules()?;
        rules.refuse_changed_attributes(&self.repo)?;
        let current = CurrentSettings::read(self.call())?;
        Ok(self.call().settings(rules.settings(&current)?))
    }

    /// Takes over the rules of a worktree that this one replaces: an agent has worked since they were recorded.
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

    /// Returns the rules in memory, which no agent can change; else the recorded ones; else the current ones.
    pub(super) fn rules(&self) -> Result<Arc<TrackingRules>, GitError> {
        let known = self
            .rules_in_memory()
            .or_else(|| self.repo.rules.get().cloned());
        if let Some(rules) = known {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_may_be_on_unless_it_clearly_means_off_and_the_last_one_counts() {
        let is_on =
            |listed: &[u8]| CurrentSettings(listed.to_vec()).may_be_on("core.sparsecheckout");
        for on in [
            "true", "TRUE", "yes", "On", "1", "-2", "1k", "0x1", "perhaps",
        ] {
            assert!(
                is_on(format!("core.sparsecheckout\n{on}\0").as_bytes()),
                "{on}"
            );
        }
        for off in ["false", "no", "off", "0", ""] {
            assert!(
                !is_on(format!("core.sparsecheckout\n{off}\0").as_bytes()),
                "{off}"
            );
        }
        assert!(is_on(b"a.b\nc\0core.sparsecheckout\0"));
        assert!(!is_on(
            b"core.sparsecheckout\ntrue\0core.sparsecheckout\nfalse\0"
        ));
        assert!(!is_on(b"core.sparsecheckoutcone\ntrue\0"));
    }
}
