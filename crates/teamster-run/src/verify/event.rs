//! What the journal keeps of a check. The report reads it back.

use teamster_journal::NewEvent;

use super::{Check, Checked, Place, Verdict};

impl Check {
    /// That it is run now, on this commit.
    pub fn started(&self, actor: &str, place: &Place<'_>, commit: &str) -> NewEvent {
        about("verify.started", actor, place, commit, &self.command)
    }
}

impl Checked {
    /// What came of it. One that was stopped has come to nothing, and that it was begun is all there is to say.
    ///
    /// `charged`: it fails and the team has to answer for that, see [`charge()`](super::charge()).
    pub fn event(
        &self,
        actor: &str,
        place: &Place<'_>,
        commit: &str,
        charged: bool,
    ) -> Option<NewEvent> {
        let kind = match self.verdict {
            Verdict::Passed => "verify.passed",
            Verdict::Failed | Verdict::TimedOut => "verify.failed",
            Verdict::Flaky => "verify.flaky",
            Verdict::Stopped => return None,
        };
        let mut event = about(kind, actor, place, commit, &self.command)
            .with("source", &self.source)
            .with("exitCode", self.exit_code)
            .with("signal", self.signal)
            .with("seconds", (self.seconds * 1_000.0).round() / 1_000.0)
            .with("timedOut", self.verdict == Verdict::TimedOut)
            .with("last", &self.last)
            .with("log", &self.log)
            .with("charged", charged && self.verdict.is_failure());
        if !self.remarks.is_empty() {
            event = event.with("remarks", &self.remarks);
        }
        Some(event)
    }
}

fn about(
    kind: &'static str,
    actor: &str,
    place: &Place<'_>,
    commit: &str,
    command: &str,
) -> NewEvent {
    NewEvent::new(kind, actor)
        .with("on", place.on)
        .with("commit", commit)
        .with("command", command)
        .with("round", place.round)
}
