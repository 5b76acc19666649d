//! The integration branch is the host's alone. A worker can reach it with plain git; what it does there counts for nothing.

use teamster_isolate::git::{CommitId, Integration};

use super::task_progress::{commit_of, to_merge};
use super::{Host, Result};

impl Host<'_> {
    /// The same as [`Self::own_head`] while a person is waited for: as long as the branch is where it was, nobody looks at
    /// every file of the worktree again.
    pub(super) fn own_head_at_gate(&mut self) -> Result<Option<CommitId>> {
        if let (Some(integration), Some(_)) = (&self.integration, &self.gate_shown) {
            let head = integration.head()?;
            if self.run.state().head.as_deref() == Some(head.as_str()) {
                return Ok(Some(head));
            }
        }
        self.own_head()
    }

    /// The end of the integration branch as the host has left it, with the worktree at exactly that commit. What somebody
    /// else did to either is kept under a name and told, and is no part of the work.
    pub(super) fn own_head(&mut self) -> Result<Option<CommitId>> {
        let Some(integration) = self.integration.clone() else {
            return Ok(None);
        };
        if let Some(branch) = self.run.in_background(|_| integration.recover())?? {
            let text = format!(
                "files in the integration worktree that were in no commit are kept in {branch}"
            );
            self.run.say(&text);
        }
        let head = integration.head()?;
        let known = self
            .run
            .state()
            .head
            .as_ref()
            .and_then(|head| head.parse().ok());
        let Some(known) = known.filter(|known| *known != head) else {
            return Ok(Some(head));
        };
        if self.is_unnoted(&integration, &known, &head)? {
            return Ok(Some(head));
        }
        if let Some(name) = integration.put_back(&known)? {
            self.run.say(&format!(
                "somebody else moved {}; that is kept as {name} and is no part of the work",
                integration.branch()
            ));
        }
        Ok(Some(known))
    }

    /// Whether it is a merge of ours that a killed host could not note any more: exactly what merging one of the things
    /// that were to be merged comes to.
    fn is_unnoted(
        &self,
        integration: &Integration,
        known: &CommitId,
        head: &CommitId,
    ) -> Result<bool> {
        let tasks = self.run.tasks()?;
        let mut candidates: Vec<CommitId> = to_merge(&tasks)
            .into_iter()
            .filter_map(|task| commit_of(task)?.parse().ok())
            .collect();
        if let (Some(repo), Some(branch)) = (self.run.repo(), self.run.branch()) {
            candidates.extend(repo.resolve(&format!("refs/heads/{branch}"))?);
        }
        for candidate in candidates {
            if integration.is_merge_of(head, known, &candidate)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
