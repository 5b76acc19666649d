//! The invariant of the merge train: every task that is called merged is an ancestor of what lands, and what lands is what
//! was checked and what was shown.
//!
//! It is checked by looking into the repository, never by what was noted: after each merge, before the checks and the
//! gate, before landing, and at the end. Work that is missing is noted as not merged and merged again; where that does
//! not help, the run stops and names it.

use teamster_isolate::git::{CommitId, pin_ref};
use teamster_store::LostMerge;
use teamster_types::TaskId;
use teamster_types::flow::Stage;
use teamster_types::task::Task;

use super::task_progress::{commit_of, resolves, root};
use super::{Host, Result, RunError};

/// Work that gets lost more often than this stops the run.
const MOST_LOST: u32 = 2;

/// Work that is called merged and is not in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) task: TaskId,
    /// Its commit; `None` when it has none.
    pub(super) commit: Option<CommitId>,
    /// The reference that keeps it.
    pub(super) kept: String,
}

impl Missing {
    /// What is missing and where it is, for a person.
    pub(super) fn words(&self) -> String {
        match &self.commit {
            Some(commit) => format!(
                "task {} is missing: its commit {} is kept as {}",
                self.task,
                commit.short(),
                self.kept
            ),
            None => format!("task {} is called merged and has no commit", self.task),
        }
    }
}

impl Host<'_> {
    /// Every task that is called merged and whose work is not in `commit`.
    pub(super) fn missing_in(&self, commit: &CommitId) -> Result<Vec<Missing>> {
        let Some(repo) = self.run.repo().filter(|_| self.merges()) else {
            return Ok(Vec::new());
        };
        if !teamster_fs::fail::are_merges_checked() {
            return Ok(Vec::new());
        }
        let tasks = self.run.tasks()?;
        let called: Vec<(&Task, Vec<CommitId>)> = tasks
            .iter()
            .filter(|task| task.is_done() && task.is_merged())
            .map(|task| (task, commits_for(task, &tasks)))
            .collect();
        let all: Vec<CommitId> = called.iter().flat_map(|(_, ids)| ids.clone()).collect();
        let outside = repo.not_in(&all, commit)?;
        Ok(called
            .into_iter()
            .filter(|(_, ids)| ids.iter().all(|id| outside.contains(id)))
            .map(|(task, ids)| Missing {
                task: task.id().clone(),
                commit: ids.into_iter().next(),
                kept: pin_ref(self.run.team(), task.id()),
            })
            .collect())
    }

    /// Notes that work which is missing in `commit` is not merged, so that it is merged again; whether there was any. A
    /// task whose work gets lost again and again stops the run.
    pub(super) fn take_back_missing(&mut self, commit: &CommitId) -> Result<bool> {
        let missing = self.missing_in(commit)?;
        for lost in &missing {
            let times = self.run.state().lost.get(&lost.task).copied().unwrap_or(0);
            if times >= MOST_LOST {
                return Err(RunError::refused(
                    format!(
                        "{}, and it was merged {times} times before; nothing lands without it",
                        lost.words()
                    ),
                    "find out who changes the team's branch or its task files, then resume the run",
                ));
            }
            self.run.say(&format!(
                "{}; it was called merged and is not in {}, so it is merged again",
                lost.words(),
                commit.short()
            ));
            let found = LostMerge {
                commit: lost.commit.as_ref().map(ToString::to_string),
                head: commit.to_string(),
            };
            self.run.store().merge_lost(
                self.run.team(),
                teamster_journal::HOST,
                &lost.task,
                &found,
            )?;
        }
        self.run.read()?;
        Ok(!missing.is_empty())
    }

    /// Goes back to merging where work is missing in what is to be checked, shown or landed; whether it does.
    pub(super) fn merges_missing(&mut self, commit: &str) -> Result<bool> {
        let Ok(commit) = commit.parse() else {
            return Ok(false);
        };
        if !self.take_back_missing(&commit)? {
            return Ok(false);
        }
        self.gate_shown = None;
        self.enter(Stage::Execute, "work that was called merged is missing")?;
        Ok(true)
    }
}

/// The commits any of which proves that the work of a task is in: its own, or those of the tasks that resolved its
/// conflict.
fn commits_for(task: &Task, tasks: &[Task]) -> Vec<CommitId> {
    let root = root(task);
    let own = commit_of(task).and_then(|commit| commit.parse().ok());
    let resolved = tasks
        .iter()
        .filter(|other| other.is_done() && other.is_merged() && other.id() != task.id())
        .filter(|other| resolves(other).as_ref() == Some(&root))
        .filter_map(|other| commit_of(other)?.parse().ok());
    own.into_iter().chain(resolved).collect()
}
