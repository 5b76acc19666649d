//! The end: what is merged is cleared away, what is not is kept and named, and the story is written down.

use teamster_isolate::git::{self, Integration, Removal};
use teamster_types::event::NewEvent;
use teamster_types::flow::{Outcome, Stage};

use super::settled::hopeless;
use super::{Host, Next, Result};
use crate::exit;
use crate::story::HOST;

impl Host<'_> {
    /// The work is taken.
    pub(super) fn complete(&mut self, why: &str) -> Result<Next> {
        let missing = self.missing_at_the_end()?;
        self.clear_away();
        let failed = hopeless(&self.tasks()?).len();
        let (word, code, why) = if !missing.is_empty() {
            let why = format!("{why}; but {}", missing.join("; "));
            ("tasks_failed", exit::TASKS_FAILED, why)
        } else if failed > 0 {
            let why = format!("{why}; {failed} tasks failed for good or wait for one that did");
            ("tasks_failed", exit::TASKS_FAILED, why)
        } else {
            ("complete", exit::COMPLETE, why.to_owned())
        };
        self.finish(Outcome::Complete, word, code, &why)?;
        Ok(Next::GoOn)
    }

    /// Work that is called merged and is not in what has landed, or, where nothing lands, in the team's branch.
    fn missing_at_the_end(&self) -> Result<Vec<String>> {
        let (Some(repo), Some(integration)) = (self.parts.repo, &self.integration) else {
            return Ok(Vec::new());
        };
        let decided = self.story.decision.is_some();
        let landed = match self.branch().filter(|_| decided) {
            Some(branch) => repo.resolve(&format!("refs/heads/{branch}"))?,
            None => None,
        };
        let end = match landed {
            Some(tip) => tip,
            None => integration.head()?,
        };
        let missing = self.missing_in(&end)?;
        Ok(missing.iter().map(super::truth::Missing::words).collect())
    }

    /// Ends the run. Everybody was stopped before.
    pub(super) fn finish(
        &mut self,
        outcome: Outcome,
        word: &str,
        code: u8,
        reason: &str,
    ) -> Result<()> {
        let head = |integration: &Integration| integration.head().ok().map(|head| head.to_string());
        let commit = match &self.story.gate {
            Some(gate) => Some(gate.commit.clone()),
            None => self.integration.as_ref().and_then(head),
        };
        let event = NewEvent::new("run.finished", HOST)
            .with("from", self.story.stage.map(Stage::as_str))
            .with("to", Stage::End(outcome).as_str())
            .with("outcome", word)
            .with("exitCode", code)
            .with("reason", reason);
        let landed = commit.clone();
        self.record(event.with("commit", commit))?;
        for sentence in self.changed_refs(landed.as_deref()) {
            self.parts.desk.say(&sentence);
        }
        self.write_down();
        Ok(())
    }

    /// Removes worktrees and branches whose work is in a branch of the user's. What is not stays, and is named in the
    /// report; so nothing here can fail the run.
    pub(super) fn clear_away(&mut self) {
        let Some(repo) = self.parts.repo.filter(|_| !self.order.in_place) else {
            return;
        };
        match git::list(repo, &self.team) {
            Ok(listed) => {
                for listed in listed {
                    let removed = listed.remove_if_safe(repo);
                    if let Ok(Removal::Kept { why }) = &removed {
                        self.parts
                            .desk
                            .say(&format!("{} is kept: {why}", listed.name));
                    }
                    if let Err(error) = removed {
                        self.parts.desk.say(&error.to_string());
                    }
                }
            }
            Err(error) => self.parts.desk.say(&error.to_string()),
        }
    }
}
