//! Guards the integration branch and the invariant of the merge train: the commit of every task that is marked as
//! merged is an ancestor of the commit that lands, and only a commit that was checked and shown lands.
//!
//! Only the host may change the branch. A worker can change it with plain git; such changes are kept under another
//! name, are reported, and are not part of the work.
//!
//! The invariant is checked against the repository, never against records: after each merge, before the checks and the
//! gate, before landing, and at the end. Missing work is marked as not merged and merged again; if that does not help,
//! the run stops and names it.

use teamster_isolate::git::{
    self, CheckTree, CommitId, Integration, ListedWorktree, Removal, Repo, WorktreeKind, pin_ref,
};
use teamster_journal::payload::{GateAnswer, MergeAdopted};
use teamster_journal::{EventKind, HOST};
use teamster_store::LostMerge;
use teamster_types::flow::Stage;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::task::Task;
use teamster_types::{TaskId, TeamName};

use super::context::RunContext;
use super::merger::{share_integration, take_over_integration};
use super::task_progress::{Resolutions, to_merge};
use super::{HostCommand, Result, RunError};

/// How often the work of a task may get lost before the run stops.
const MOST_LOST: u32 = 2;

/// Work that is marked as merged but missing from a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MissingWork {
    task: TaskId,
    /// The commit of the task, or `None` when it has none.
    commit: Option<CommitId>,
    /// The reference that keeps the work.
    kept: String,
}

impl MissingWork {
    /// Returns what is missing and where it is kept, for a person.
    fn words(&self) -> Phrase {
        match &self.commit {
            Some(commit) => {
                let kept: [(&str, &dyn std::fmt::Display); 3] = [
                    ("task", &self.task),
                    ("commit", &commit.short()),
                    ("name", &self.kept),
                ];
                Phrase::new(PhraseCode::MissingCommit, kept)
            }
            None => Phrase::new(PhraseCode::MissingWithoutCommit, [("task", &self.task)]),
        }
    }
}

/// Owns the integration branch and its worktree. Without a branch, all workers share the project's folder and nothing
/// is merged.
#[derive(Debug, Default)]
pub(super) struct IntegrationGuard {
    integration: Option<Integration>,
}

impl IntegrationGuard {
    /// Creates the integration branch and its worktree, for a run that has a repository and was not rolled back.
    pub(super) fn prepare(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let (Some(repo), Some(base), false) = (run.repo(), &run.spec().base, run.spec().in_place)
        else {
            return Ok(());
        };
        repo.exclude_ours()?;
        let is_rolled_back = matches!(
            &run.state().decision,
            Some(decision) if matches!(decision.answer, GateAnswer::Reject { rollback: true, .. })
        );
        if is_rolled_back {
            return Ok(());
        }
        let base = base.commit.parse().map_err(|_| {
            RunError::refused(
                format!("the run began at {:?}, which is not a commit", base.commit),
                "check the team's config.json",
            )
        })?;
        let team = run.team().clone();
        take_over_integration(run)?;
        // The checkout of a large repository takes long.
        let (ready, swept) = run.in_background(|_| {
            let ready = Integration::prepare(repo, &team, &base);
            (ready, CheckTree::sweep(repo, &team))
        })?;
        let ready = ready?;
        if let Some(branch) = ready.salvaged {
            run.say(&format!(
                "uncommitted work that was found is kept in {branch}"
            ));
        }
        if let Err(error) = swept {
            run.say(&format!(
                "the tree of an earlier check could not be removed: {error}"
            ));
        }
        self.integration = Some(ready.integration);
        share_integration(run)
    }

    /// Returns whether there is an integration branch, so that tasks have to be merged.
    pub(super) fn is_active(&self) -> bool {
        self.integration.is_some()
    }

    /// Returns the integration branch, or `None` when nothing is merged.
    pub(super) fn integration(&self) -> Option<&Integration> {
        self.integration.as_ref()
    }

    /// Returns the tip of the integration branch, for a report; `None` when it cannot be read.
    pub(super) fn present_head(&self) -> Option<String> {
        let head = self.integration.as_ref()?.head().ok()?;
        Some(head.to_string())
    }

    /// Returns the same as [`Self::head`] while the host waits for a person: as long as the branch has not moved, the
    /// files of the worktree are not compared again.
    pub(super) fn head_at_gate(
        &self,
        run: &mut RunContext<'_>,
        is_shown: bool,
    ) -> Result<Option<CommitId>> {
        if let (Some(integration), true) = (&self.integration, is_shown) {
            let head = integration.head()?;
            if run.state().head.as_deref() == Some(head.as_str()) {
                return Ok(Some(head));
            }
        }
        self.head(run)
    }

    /// Returns the tip of the integration branch as the host has left it, with the worktree at exactly that commit.
    /// Changes of others to either are kept under another name and reported, and are not part of the work.
    pub(super) fn head(&self, run: &mut RunContext<'_>) -> Result<Option<CommitId>> {
        let Some(integration) = &self.integration else {
            return Ok(None);
        };
        if let Some(branch) = run.in_background(|_| integration.recover())?? {
            run.say(&format!(
                "uncommitted files of the integration worktree are kept in {branch}"
            ));
        }
        let head = integration.head()?;
        let known = run.state().head.as_ref().and_then(|head| head.parse().ok());
        let Some(known) = known.filter(|known| *known != head) else {
            return Ok(Some(head));
        };
        if is_unrecorded_merge(run, integration, &known, &head)? {
            return Ok(Some(head));
        }
        if is_lost(run, &known, &head)? {
            self.resume_from(run, &known, &head)?;
            return Ok(Some(head));
        }
        if let Some(name) = integration.put_back(&known)? {
            run.say(&format!(
                "another process moved {}; its state is kept as {name} and is not part of the work",
                integration.branch()
            ));
        }
        Ok(Some(known))
    }

    /// Goes on from an earlier head of the branch, because the last one is lost: what was merged since is merged again.
    fn resume_from(
        &self,
        run: &mut RunContext<'_>,
        lost: &CommitId,
        head: &CommitId,
    ) -> Result<()> {
        run.say(&format!(
            "the merge {} is not in this repository; the run goes on from {}, and what was merged since is merged again",
            lost.short(),
            head.short()
        ));
        run.journal(EventKind::MergeAdopted(MergeAdopted {
            commit: head.to_string(),
            merge: Some(head.to_string()),
            files: Vec::new(),
        }))?;
        self.unmark_missing(run, head)?;
        Ok(())
    }

    /// Returns every task that is marked as merged and whose work is missing from `commit`.
    fn missing_in(&self, run: &RunContext<'_>, commit: &CommitId) -> Result<Vec<MissingWork>> {
        let Some(repo) = run.repo().filter(|_| self.is_active()) else {
            return Ok(Vec::new());
        };
        if !teamster_fs::fail::are_merges_checked() {
            return Ok(Vec::new());
        }
        let tasks = run.tasks()?;
        let resolutions = Resolutions::among(&tasks);
        let called: Vec<(&Task, Vec<CommitId>)> = tasks
            .iter()
            .filter(|task| task.is_done() && task.is_merged())
            .map(|task| (task, commits_for(task, &resolutions)))
            .collect();
        let all: Vec<CommitId> = called.iter().flat_map(|(_, ids)| ids.clone()).collect();
        let outside = repo.not_in(&all, commit)?;
        Ok(called
            .into_iter()
            .filter(|(_, ids)| ids.iter().all(|id| outside.contains(id)))
            .map(|(task, ids)| MissingWork {
                task: task.id().clone(),
                commit: ids.into_iter().next(),
                kept: pin_ref(run.team(), task.id()),
            })
            .collect())
    }

    /// Marks work that is missing from `commit` as not merged, so that it is merged again; returns whether there was
    /// any. The run stops when the work of a task gets lost repeatedly.
    pub(super) fn unmark_missing(
        &self,
        run: &mut RunContext<'_>,
        commit: &CommitId,
    ) -> Result<bool> {
        let missing = self.missing_in(run, commit)?;
        for lost in &missing {
            let times = run.state().lost.get(&lost.task).copied().unwrap_or(0);
            if times >= MOST_LOST {
                return Err(RunError::refused(
                    format!(
                        "{}, and it was merged {times} times before; nothing lands without it",
                        lost.words()
                    ),
                    "find out what changes the team's branch or its task files, then resume the run",
                ));
            }
            run.say(&format!(
                "{}; it was marked as merged but is not in {}, so it is merged again",
                lost.words(),
                commit.short()
            ));
            let found = LostMerge {
                commit: lost.commit.as_ref().map(ToString::to_string),
                head: commit.to_string(),
            };
            run.store()
                .merge_lost(run.team(), HOST, &lost.task, &found)?;
        }
        run.read()?;
        Ok(!missing.is_empty())
    }

    /// Returns the command to merge again when work is missing from the commit that is to be checked, shown or landed.
    pub(super) fn merge_missing(
        &self,
        run: &mut RunContext<'_>,
        commit: &str,
    ) -> Result<Option<HostCommand>> {
        let Ok(commit) = commit.parse() else {
            return Ok(None);
        };
        if !self.unmark_missing(run, &commit)? {
            return Ok(None);
        }
        let reason = PhraseCode::MergedWorkMissing;
        Ok(Some(HostCommand::enter(Stage::Execute, reason)))
    }

    /// Returns a sentence for each task that is marked as merged but missing from the landed work, or, where nothing
    /// lands, from the team's branch.
    pub(super) fn missing_at_the_end(&self, run: &RunContext<'_>) -> Result<Vec<Phrase>> {
        let (Some(repo), Some(integration)) = (run.repo(), &self.integration) else {
            return Ok(Vec::new());
        };
        let decided = run.state().decision.is_some();
        let landed = match run.branch().filter(|_| decided) {
            Some(branch) => repo.resolve(&format!("refs/heads/{branch}"))?,
            None => None,
        };
        let end = match landed {
            Some(tip) => tip,
            None => integration.head()?,
        };
        let missing = self.missing_in(run, &end)?;
        Ok(missing.iter().map(MissingWork::words).collect())
    }

    /// Rolls the merged work back and keeps it under another name. This also works in a host that has not opened the
    /// integration branch, because its predecessor was killed meanwhile.
    pub(super) fn roll_back(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let team = run.team().clone();
        let Some(repo) = run.repo().filter(|_| !run.spec().in_place) else {
            return Ok(());
        };
        let Some(name) = run.in_background(|_| Integration::roll_back(repo, &team))?? else {
            return Ok(());
        };
        // The branches of workers are contained in it; those that are not are kept.
        remove_leftovers(run)?;
        self.integration = None;
        let on = match repo.resolve(&name)? {
            Some(commit) => repo.branches_with(&commit)?,
            None => Vec::new(),
        };
        run.say(&if on.is_empty() {
            format!("the work is kept as {name}, and is on no branch")
        } else {
            format!(
                "the work is kept as {name}, and is also on {}, which teamster did not change",
                on.join(", ")
            )
        });
        Ok(())
    }

    /// Returns a worktree with exactly the files of a commit, or `None` where all workers share the project's folder.
    pub(super) fn fresh_tree(
        &self,
        run: &mut RunContext<'_>,
        commit: &str,
    ) -> Result<Option<CheckTree>> {
        let (Some(repo), true) = (run.repo(), self.is_active()) else {
            return Ok(None);
        };
        let commit: CommitId = commit.parse().map_err(|_| {
            RunError::refused(
                format!("{commit:?} was to be checked, which is not a commit"),
                "check the team's config.json",
            )
        })?;
        let team = run.team().clone();
        let tree = run.in_background(|_| CheckTree::make(repo, &team, &commit))??;
        Ok(Some(tree))
    }
}

/// Returns whether the branch was moved by a merge of a host that was killed before it could journal it: the tip is
/// exactly the merge of a commit that was waiting to be merged.
fn is_unrecorded_merge(
    run: &RunContext<'_>,
    integration: &Integration,
    known: &CommitId,
    head: &CommitId,
) -> Result<bool> {
    let tasks = run.tasks()?;
    let mut candidates: Vec<CommitId> = to_merge(&tasks)
        .into_iter()
        .filter_map(|task| task.commit()?.parse().ok())
        .collect();
    if let (Some(repo), Some(branch)) = (run.repo(), run.branch()) {
        candidates.extend(repo.resolve(&format!("refs/heads/{branch}"))?);
    }
    for candidate in candidates {
        if integration.is_merge_of(head, known, &candidate)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether the recorded head of the branch does not exist here, and the branch is where the run had left it
/// before. A host that is killed between a merge and its push leaves this behind for a host on another machine.
fn is_lost(run: &RunContext<'_>, known: &CommitId, head: &CommitId) -> Result<bool> {
    let Some(repo) = run.repo() else {
        return Ok(false);
    };
    let is_base = (run.spec().base.as_ref()).is_some_and(|base| base.commit == head.as_str());
    let is_past = is_base || run.state().past_heads.contains(head.as_str());
    Ok(is_past && repo.resolve(known.as_str())?.is_none())
}

/// Returns the commits any of which proves that the work of a task is merged: its own, or those of the tasks that
/// resolved its conflict.
fn commits_for(task: &Task, resolutions: &Resolutions<'_>) -> Vec<CommitId> {
    let own = task.commit().and_then(|commit| commit.parse().ok());
    let resolved = resolutions
        .of(task)
        .iter()
        .filter(|other| other.is_done() && other.is_merged() && other.id() != task.id())
        .filter_map(|other| other.commit()?.parse().ok());
    own.into_iter().chain(resolved).collect()
}

/// Removes worktrees and branches whose work is in a branch of the user's. The others stay, and are named in the
/// report.
pub(super) fn remove_leftovers(run: &mut RunContext<'_>) -> Result<()> {
    let Some(repo) = run.repo().filter(|_| !run.spec().in_place) else {
        return Ok(());
    };
    let team = run.team().clone();
    // Workers without a run continue, each in its worktree.
    let has_ended = !run.spec().collects;
    for sentence in run.in_background(|_| remove_merged(repo, &team, has_ended))? {
        run.say(&sentence);
    }
    Ok(())
}

/// Removes the team's worktrees and branches whose work is in a branch of the user's; returns a sentence for each that
/// stays. While workers may still run, only the worktrees of the integration and of the checks are removed.
fn remove_merged(repo: &Repo, team: &TeamName, has_ended: bool) -> Vec<String> {
    let listed = match git::list(repo, team) {
        Ok(listed) => listed,
        Err(error) => return vec![error.to_string()],
    };
    let kept = |listed: ListedWorktree| match listed.remove_if_safe(repo) {
        Ok(Removal::Removed) => None,
        Ok(Removal::Kept { why }) => Some(format!("{} is kept: {why}", listed.name)),
        Err(error) => Some(error.to_string()),
    };
    let is_meant = |listed: &ListedWorktree| {
        has_ended
            || matches!(
                listed.kind,
                WorktreeKind::Integration | WorktreeKind::Checks
            )
    };
    listed
        .into_iter()
        .filter(is_meant)
        .filter_map(kept)
        .collect()
}
