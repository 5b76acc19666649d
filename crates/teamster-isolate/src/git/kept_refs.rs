//! References of ours that keep commits, and which of these a branch of the user's keeps as well.

use std::collections::HashSet;

use teamster_types::TeamName;

use super::error::GitError;
use super::names::PINS;
use super::repo::Repo;

/// A reference of ours that keeps a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRef {
    /// The team whose run made it.
    pub team: TeamName,
    /// Its full name.
    pub name: String,
    /// What it points to.
    pub object: String,
    /// When the commit was made, in seconds since 1970; `None` when it is no commit.
    pub made: Option<i64>,
    /// Whether a branch of the user's has the commit.
    pub is_landed: bool,
}

impl Repo {
    /// Returns every reference of ours that keeps a commit, by name. The user's branches are all but those of teams.
    pub fn kept_refs(&self) -> Result<Vec<KeptRef>, GitError> {
        let listed = self
            .call()
            .args([
                "for-each-ref",
                "--format=%(objectname) %(committerdate:unix) %(refname)",
            ])
            .args(["--", PINS])
            .text()?;
        if listed.is_empty() {
            return Ok(Vec::new());
        }
        let elsewhere = self
            .call()
            .args(["rev-list", &format!("--glob={PINS}*"), "--not"])
            .args(["--exclude=omc-team/*", "--branches", "--"])
            .text()?;
        let elsewhere: HashSet<&str> = elsewhere.lines().collect();
        let kept = |line: &str| {
            let mut parts = line.splitn(3, ' ');
            let (object, made, name) = (parts.next()?, parts.next()?, parts.next()?);
            let made = made.parse().ok();
            Some(KeptRef {
                team: name.strip_prefix(PINS)?.split_once('/')?.0.parse().ok()?,
                name: name.to_owned(),
                object: object.to_owned(),
                made,
                is_landed: made.is_some() && !elsewhere.contains(object),
            })
        };
        Ok(listed.lines().filter_map(kept).collect())
    }

    /// Removes a reference of ours, if it still points to what it did.
    pub fn forget(&self, kept: &KeptRef) -> Result<(), GitError> {
        self.call()
            .args(["update-ref", "-d", &kept.name, &kept.object])
            .done()
    }
}
