//! What appeared in the repository during a run that makes git show something else than what lands: replaced objects,
//! and settings that convert or merge contents.

use teamster_fs::{Dir, layout};

use super::{Host, Result, RunError};

/// The name under which new replacements are shown among the findings.
const FINDING: &str = "replaced objects";
const SETTINGS: &str = "changed settings of git";

impl Host<'_> {
    /// Returns the replacements, grafts and shallow boundaries that were not there when the run began. What cannot be
    /// read is told in their place.
    pub(super) fn new_replacements(&self) -> Vec<String> {
        let Some(repo) = self.run.repo() else {
            return Vec::new();
        };
        match repo.replacements() {
            Ok(now) => now
                .into_iter()
                .filter(|rule| !self.run.state().replacements.contains(rule))
                .collect(),
            Err(error) => vec![error.to_string()],
        }
    }

    /// Returns what the gate and the report say about new replacements: a name and a text.
    pub(super) fn replacement_finding(&self) -> Option<(String, String)> {
        let new = self.new_replacements();
        if new.is_empty() {
            return None;
        }
        let text = format!(
            "These were added to the repository during the run:\n\n    {}\n\nWith them, your git shows other content or \
             another history than what is stored. The checks, the diff and the commit that lands use what is stored. \
             `git replace -d ID` removes a replacement; grafts and shallow boundaries are lines of `info/grafts` and \
             `shallow` in the folder `.git`.",
            new.join("\n    ")
        );
        Some((FINDING.to_owned(), text))
    }

    /// Records the rules by which git converts and merges contents when the run begins, before any worker does, and goes by
    /// those ever after.
    pub(super) fn keep_rules(&self) -> Result<()> {
        let (Some(repo), false) = (self.run.repo(), self.run.spec().in_place) else {
            return Ok(());
        };
        let path = self.run.env().layout.claude.join(layout::TEAMS);
        let team = Dir::open_root(&path.join(self.run.team().as_str()))?.ok_or_else(|| {
            RunError::refused(
                format!(
                    "the folder of team {} is gone from {}",
                    self.run.team(),
                    path.display()
                ),
                "`teamster team list` shows the teams there are",
            )
        })?;
        // A run of an older version has recorded none.
        if self.run.state().begun.is_none() || !repo.use_recorded_rules(&team)? {
            repo.exclude_ours()?;
            repo.record_rules(&team)?;
        }
        Ok(())
    }

    /// Returns the settings that convert or merge contents and are not as they were when the run began. What cannot be
    /// read is told in their place.
    pub(super) fn changed_rules(&self) -> Vec<String> {
        let changed = self
            .run
            .repo()
            .map(teamster_isolate::git::Repo::changed_rules);
        match changed {
            None => Vec::new(),
            Some(Ok(changed)) => changed,
            Some(Err(error)) => vec![error.to_string()],
        }
    }

    /// Returns what the gate and the report say about such settings: a name and a text.
    pub(super) fn changed_rules_finding(&self) -> Option<(String, String)> {
        let changed = self.changed_rules();
        if changed.is_empty() {
            return None;
        }
        let text = format!(
            "These settings of git were added or changed during the run:\n\n    {}\n\nCommits, merges and checks went by \
             the settings from before the run. Your own git uses these, also when the work lands in your files. \
             `git config --show-origin --get-all NAME` tells where a setting is, and `git config --unset NAME` removes it.",
            changed.join("\n    ")
        );
        Some((SETTINGS.to_owned(), text))
    }
}
