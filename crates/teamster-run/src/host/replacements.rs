//! Replaced objects: what appeared in the repository during a run that makes git show something else than what lands.

use super::Host;

/// The name under which new replacements are shown among the findings.
const FINDING: &str = "replaced objects";

impl Host<'_> {
    /// Returns the replacements, grafts and shallow boundaries that were not there when the run began. What cannot be
    /// read is told in their place.
    pub(super) fn new_replacements(&self) -> Vec<String> {
        let Some(repo) = self.parts.repo else {
            return Vec::new();
        };
        match repo.replacements() {
            Ok(now) => now
                .into_iter()
                .filter(|rule| !self.story.replacements.contains(rule))
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
}
