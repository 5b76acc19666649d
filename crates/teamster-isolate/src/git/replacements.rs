//! Replacement objects, grafts and other features by which git shows other objects or another history than what is
//! stored.
//!
//! A clone receives the stored objects and none of these rules. So none of teamster's git calls follow them, and
//! neither do the commands that check the work: the objects that are shown, checked and landed are the same.

use std::ffi::OsString;

use teamster_fs::Dir;

use super::command::GitSetting;
use super::error::GitError;
use super::repo::Repo;

/// Environment variables that make git read objects as they are stored: no replacement, no graft, and no commit graph,
/// which git trusts without reading the commits.
const STORED: [(&str, &str); 5] = [
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // A path that cannot exist: an empty file makes git print a hint about grafts.
    ("GIT_GRAFT_FILE", "/dev/null/grafts"),
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", COMMIT_GRAPH.0),
    ("GIT_CONFIG_VALUE_0", COMMIT_GRAPH.1),
];
const COMMIT_GRAPH: (&str, &str) = ("core.commitGraph", "false");

/// Returns the environment variables that make git read objects as they are stored, for every command that checks the
/// work.
pub fn stored_objects() -> impl Iterator<Item = (OsString, OsString)> {
    STORED
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
}

/// Returns the settings among these variables, for a call that adds further settings.
pub(super) fn stored_settings() -> impl Iterator<Item = GitSetting> {
    std::iter::once((COMMIT_GRAPH.0.into(), COMMIT_GRAPH.1.into()))
}

impl Repo {
    /// Returns a description of every replacement, graft and shallow boundary of the repository.
    pub fn replacements(&self) -> Result<Vec<String>, GitError> {
        let replaced = self
            .call()
            .args(["for-each-ref", "--format=%(refname) %(objectname)", "--"])
            .arg("refs/replace/")
            .text()?;
        let mut found: Vec<String> = replaced.lines().map(str::to_owned).collect();
        let common = Dir::open_root(self.common())?;
        let info = match &common {
            Some(common) => common.child("info")?,
            None => None,
        };
        for (folder, file, word) in [(&info, "grafts", "graft"), (&common, "shallow", "shallow")] {
            let Some(folder) = folder else { continue };
            let Some((bytes, _)) = folder.read(file)? else {
                continue;
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let lines = text.lines().map(str::trim);
            let rules = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            found.extend(rules.map(|line| format!("{word} {line}")));
        }
        Ok(found)
    }
}
