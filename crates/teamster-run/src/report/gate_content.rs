//! The content of the gate, made when it opens.

use teamster_journal::payload::{
    CheckVerdict, Finding, GivenUp, LONGEST_FINDING, Shown, Unverified,
};
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::redact::redact;
use teamster_types::text::clip;

use super::{CheckRun, ReportInput, TaskState};

impl ReportInput {
    /// Returns the content of the gate. The caller adds what only git knows: the changed files, and those in the way.
    pub fn gate_content(&self) -> Shown {
        let (verification, verification_codes) = self.verified_words().into_parts();
        Shown {
            verification,
            verification_codes,
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
            untaken: Phrase::texts(&self.untaken),
            untaken_codes: Phrase::keys(&self.untaken).into(),
            ..Shown::default()
        }
    }

    /// Returns the checks that do not count as passed, including those that should have run and did not.
    fn unverified(&self) -> Vec<Unverified> {
        let ran = self.last_checks();
        let mut found: Vec<Unverified> = ran
            .iter()
            .filter_map(|run| {
                let why = self.why_not(run)?;
                Some(unverified(&run.checked.command, why))
            })
            .collect();
        for check in &self.wanted {
            if !ran.iter().any(|run| run.checked.command == check.command) {
                found.push(unverified(&check.command, PhraseCode::CheckNotRun));
            }
        }
        found
    }

    fn why_not(&self, run: &CheckRun) -> Option<PhraseCode> {
        if self
            .asked_about
            .as_ref()
            .is_some_and(|asked| *asked != run.commit)
        {
            return Some(PhraseCode::CheckElsewhere);
        }
        Some(match (run.checked.verdict, run.charged) {
            (CheckVerdict::Passed, _) => return None,
            (CheckVerdict::Flaky, _) => PhraseCode::CheckFlaky,
            (CheckVerdict::Stopped, _) => PhraseCode::CheckStopped,
            (CheckVerdict::Failed, true) => PhraseCode::CheckFailed,
            (CheckVerdict::TimedOut, true) => PhraseCode::CheckTimedOut,
            (CheckVerdict::Failed | CheckVerdict::TimedOut, false) => PhraseCode::CheckFailedBefore,
        })
    }

    fn given_up(&self) -> Vec<GivenUp> {
        let lines = self.tasks.iter().filter_map(|task| {
            let why = match &task.state {
                TaskState::Failed => match &task.error {
                    Some(error) => Phrase::verbatim(error),
                    None => PhraseCode::NobodySaidWhy.into(),
                },
                TaskState::NotMerged => PhraseCode::TaskNotMergeable.into(),
                TaskState::Behind(ids) => {
                    Phrase::new(PhraseCode::TaskWaitsFor, [("tasks", &ids.join(", "))])
                }
                _ => return None,
            };
            let (why, why_codes) = Wording::from(why).into_parts();
            Some(GivenUp {
                task_id: task.id.parse().ok()?,
                subject: task.subject.clone(),
                why,
                why_codes,
            })
        });
        lines.collect()
    }
}

/// Returns a check that does not count as passed.
fn unverified(command: &str, why: PhraseCode) -> Unverified {
    let (why, why_codes) = Wording::from(why).into_parts();
    Unverified {
        command: command.to_owned(),
        why,
        why_codes,
    }
}

/// Redacts and then cuts a text: half a secret would not be recognized as one.
fn shortened(text: &str) -> String {
    clip(&redact(text), LONGEST_FINDING - 1)
}
