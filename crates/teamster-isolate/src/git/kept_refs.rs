//! References that keep a team's commits, and which of these commits are also on a branch of the user's.

use std::collections::HashSet;

use teamster_types::TeamName;

use super::error::GitError;
use super::names::PINS;
use super::repo::Repo;

/// A reference that keeps a commit of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRef {
    /// The team whose run created it.
    pub team: TeamName,
    /// The full name of the reference.
    pub name: String,
    /// The id of the object that it points to.
    pub object: String,
    /// When the commit was made, in seconds since 1970; `None` when the object is not a commit.
    pub made: Option<i64>,
    /// Whether the commit is on a branch of the user's.
    pub is_landed: bool,
}

impl Repo {
    /// Returns every reference that keeps a team's commit, sorted by name. All branches but those of teams are the
    /// user's.
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

    /// Removes a reference, if it still points to the same object.
    pub fn forget(&self, kept: &KeptRef) -> Result<(), GitError> {
        self.call()
            .args(["update-ref", "-d", &kept.name, &kept.object])
            .done()
    }
}
