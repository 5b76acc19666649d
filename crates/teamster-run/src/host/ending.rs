//! The end: what is merged is cleared away, what is not is kept and named, and the story is written down.

use teamster_isolate::git::{self, Integration, ListedWorktree, Removal, Repo};
use teamster_journal::EventKind;
use teamster_journal::cost::Exceeded;
use teamster_journal::payload::{RunEnd, RunFinished};
use teamster_types::TeamName;

use super::task_progress::hopeless;
use super::{Host, Next, Result};

impl Host<'_> {
    /// The work is taken.
    pub(super) fn complete(&mut self, why: &str) -> Result<Next> {
        let missing = self.missing_at_the_end()?;
        self.clear_away()?;
        let failed = hopeless(&self.run.tasks()?).len();
        let (end, why) = if !missing.is_empty() {
            let why = format!("{why}; but {}", missing.join("; "));
            (RunEnd::CompleteInPart, why)
        } else if failed > 0 {
            let why = format!("{why}; {failed} tasks failed for good or wait for one that did");
            (RunEnd::CompleteInPart, why)
        } else {
            (RunEnd::Complete, why.to_owned())
        };
        self.finish(end, &why)?;
        Ok(Next::GoOn)
    }

    /// Work that is called merged and is not in what has landed, or, where nothing lands, in the team's branch.
    fn missing_at_the_end(&self) -> Result<Vec<String>> {
        let (Some(repo), Some(integration)) = (self.run.repo(), &self.integration) else {
            return Ok(Vec::new());
        };
        let decided = self.run.state().decision.is_some();
        let landed = match self.run.branch().filter(|_| decided) {
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

    /// Ends a run whose budget is used up. Running agents are interrupted; what they have is committed on their branches.
    pub(super) fn out_of_budget(&mut self, exceeded: &Exceeded) -> Result<Next> {
        self.run
            .journal(EventKind::BudgetExhausted(exceeded.event()))?;
        self.run.stop_workers("the budget is used up")?;
        let why = format!("the budget is used up: {}", exceeded.words());
        self.finish(RunEnd::BudgetExhausted, &why)?;
        Ok(Next::GoOn)
    }

    /// Ends the run. Everybody was stopped before.
    pub(super) fn finish(&mut self, end: RunEnd, reason: &str) -> Result<()> {
        let head = |integration: &Integration| integration.head().ok().map(|head| head.to_string());
        let commit = match &self.run.state().gate {
            Some(gate) => Some(gate.commit.clone()),
            None => self.integration.as_ref().and_then(head),
        };
        let landed = commit.clone();
        let finished = RunFinished::new(self.run.state().stage, end, reason, commit);
        self.run.journal(EventKind::RunFinished(finished))?;
        for sentence in self.changed_refs(landed.as_deref()) {
            self.run.say(&sentence);
        }
        self.write_down();
        Ok(())
    }

    /// Removes worktrees and branches whose work is in a branch of the user's. What is not stays, and is named in the
    /// report.
    pub(super) fn clear_away(&mut self) -> Result<()> {
        let Some(repo) = self.run.repo().filter(|_| !self.run.spec().in_place) else {
            return Ok(());
        };
        let team = self.run.team().clone();
        let said = self
            .run
            .in_background(|_| remove_what_is_safe(repo, &team))?;
        for sentence in said {
            self.run.say(&sentence);
        }
        Ok(())
    }
}

/// Removes the team's worktrees and branches whose work is in a branch of the user's; a sentence for each that stays.
fn remove_what_is_safe(repo: &Repo, team: &TeamName) -> Vec<String> {
    let listed = match git::list(repo, team) {
        Ok(listed) => listed,
        Err(error) => return vec![error.to_string()],
    };
    let kept = |listed: ListedWorktree| match listed.remove_if_safe(repo) {
        Ok(Removal::Removed) => None,
        Ok(Removal::Kept { why }) => Some(format!("{} is kept: {why}", listed.name)),
        Err(error) => Some(error.to_string()),
    };
    listed.into_iter().filter_map(kept).collect()
}
