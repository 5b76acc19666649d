//! What is shown at the gate, made from all that is known when it opens.

use teamster_journal::payload::{
    CheckVerdict, Finding, GivenUp, LONGEST_FINDING, Shown, Unverified,
};
use teamster_types::redact::redact;
use teamster_types::text::clip;

use super::{CheckRun, ReportInput, TaskState};

impl ReportInput {
    /// Returns what a person has to be shown. What only git knows is for the caller to add: the files, and those in the way.
    pub fn to_show(&self) -> Shown {
        Shown {
            verification: self.verified_words(),
            unverified: self.unverified(),
            findings: self
                .findings
                .iter()
                .map(|(name, text)| Finding {
                    name: name.clone(),
                    text: shortened(text),
                })
                .collect(),
            failed: self.given_up(),
            denied: self.denied.clone(),
            said: self.said(),
            untaken: self.untaken.clone(),
            ..Shown::default()
        }
    }

    /// Returns the checks that do not count as passed: those that were wanted and not run, too.
    fn unverified(&self) -> Vec<Unverified> {
        let ran = self.last_checks();
        let mut found: Vec<Unverified> = ran
            .iter()
            .filter_map(|run| {
                Some(Unverified {
                    command: run.checked.command.clone(),
                    why: self.why_not(run)?,
                })
            })
            .collect();
        for check in &self.wanted {
            if !ran.iter().any(|run| run.checked.command == check.command) {
                found.push(Unverified {
                    command: check.command.clone(),
                    why: "not run".to_owned(),
                });
            }
        }
        found
    }

    fn why_not(&self, run: &CheckRun) -> Option<String> {
        if self
            .asked_about
            .as_ref()
            .is_some_and(|asked| *asked != run.commit)
        {
            return Some("it looked at another commit".to_owned());
        }
        let why = match (run.checked.verdict, run.charged) {
            (CheckVerdict::Passed, _) => return None,
            (CheckVerdict::Flaky, _) => "flaky, which is not passed",
            (CheckVerdict::Stopped, _) => "not run to the end",
            (CheckVerdict::Failed, true) => "failed",
            (CheckVerdict::TimedOut, true) => "timed out",
            (CheckVerdict::Failed | CheckVerdict::TimedOut, false) => {
                "failed as before the work began"
            }
        };
        Some(why.to_owned())
    }

    fn given_up(&self) -> Vec<GivenUp> {
        let lines = self.tasks.iter().filter_map(|task| {
            let why = match &task.state {
                TaskState::Failed => task
                    .error
                    .as_deref()
                    .unwrap_or("nobody said why")
                    .to_owned(),
                TaskState::NotMerged => "it could not be merged".to_owned(),
                TaskState::Behind(ids) => format!("it waits for {}", ids.join(", ")),
                _ => return None,
            };
            Some(GivenUp {
                task_id: task.id.parse().ok()?,
                subject: task.subject.clone(),
                why,
            })
        });
        lines.collect()
    }
}

/// Redacts a text before it is cut: half a secret is no longer seen as one.
fn shortened(text: &str) -> String {
    clip(&redact(text), LONGEST_FINDING - 1)
}
