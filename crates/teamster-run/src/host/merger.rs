//! The merge train: merges the work of tasks, one after the other.

use teamster_isolate::git::{
    CommitId, Integration, MergeOutcome, MergePrediction, Repo, SharedRepo, UNFETCHABLE,
    integration_branch,
};
use teamster_journal::payload::{MergePredicted, Prediction};
use teamster_journal::{EventActor, EventKind, HOST, NewEvent};
use teamster_store::{StoreErrorKind, TaskMerge};
use teamster_types::TaskId;
use teamster_types::task::Task;

use super::Result;
use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::merge_conflicts::{
    give_up, handle_conflict, handle_failed_resolution, record_conflict, resolution_fault,
    start_commit, stuck_resolution, unrecorded_conflicts, unresolvable,
};
use super::task_progress::{to_merge, waits_for_merge};

/// The result of inspecting the commit of a task before it is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Inspection {
    /// The commit can be merged, or is merged already.
    Mergeable,
    /// The commit brings nothing new.
    Nothing,
    /// The commit must not be merged, and why.
    Refused(String),
    /// The commit does not resolve the conflict that its task was created for, and why.
    NotResolved(String),
}

/// Merges the work of tasks into the integration branch.
#[derive(Debug, Default)]
pub(super) struct Merger {
    guard: IntegrationGuard,
}

impl Merger {
    /// Returns the guard of the integration branch, for the parts that check, show and land it.
    pub(super) fn guard(&self) -> &IntegrationGuard {
        &self.guard
    }

    /// Returns the guard of the integration branch, for the parts that create it or roll it back.
    pub(super) fn guard_mut(&mut self) -> &mut IntegrationGuard {
        &mut self.guard
    }

    /// Processes everything that is ready to be merged; returns whether there was anything to do.
    pub(super) fn step(&self, run: &mut RunContext<'_>, tasks: &[Task]) -> Result<bool> {
        let Some(integration) = self.guard.integration() else {
            return Ok(false);
        };
        let unrecorded = unrecorded_conflicts(tasks, &run.state().conflicts);
        let given_up = unresolvable(tasks);
        let mut any = !unrecorded.is_empty() || !given_up.is_empty();
        for (root, conflict, fix_task) in unrecorded {
            record_conflict(run, &root, conflict, Some(fix_task))?;
        }
        for (id, why) in given_up {
            give_up(run, &id, &why)?;
        }
        // One at a time: a conflict creates a task, and then the next merge must be considered again.
        if let Some(task) = to_merge(tasks).first() {
            self.merge_one(run, integration, task, tasks)?;
            any = true;
        }
        Ok(any || self.retry_resolution(run, tasks)?)
    }

    /// Handles a resolution that has ended without getting the work merged, whatever is recorded about it: otherwise
    /// the run would wait for it without end. Returns whether there was one.
    fn retry_resolution(&self, run: &mut RunContext<'_>, tasks: &[Task]) -> Result<bool> {
        let Some(task) = stuck_resolution(tasks) else {
            return Ok(false);
        };
        if let Some(head) = self.guard.head(run)?
            && self.guard.unmark_missing(run, &head)?
        {
            return Ok(true);
        }
        handle_failed_resolution(run, task, tasks, "nothing of it is merged")?;
        Ok(true)
    }

    fn merge_one(
        &self,
        run: &mut RunContext<'_>,
        integration: &Integration,
        task: &Task,
        tasks: &[Task],
    ) -> Result<()> {
        let Some(commit) = task.commit() else {
            return note_unchanged(run, task, tasks);
        };
        let Ok(id) = commit.parse::<CommitId>() else {
            let why = format!("its result names {commit:?}, which is not a commit");
            return give_up(run, task.id(), &why);
        };
        fetch_if_missing(run, &id)?;
        let noted = run.state().head.clone();
        let Some(head) = self.guard.head(run)? else {
            return Ok(());
        };
        let inspection = match run.repo() {
            Some(repo) => inspect(repo, task, &head, &id)?,
            None => Inspection::Mergeable,
        };
        match inspection {
            Inspection::Mergeable => {}
            Inspection::Nothing => return note_unchanged(run, task, tasks),
            Inspection::Refused(why) => return give_up(run, task.id(), &why),
            Inspection::NotResolved(why) => {
                return handle_failed_resolution(run, task, tasks, &why);
            }
        }
        let predicted = run.in_background(|_| integration.predict_on(&head, &id))??;
        let payload = MergePredicted {
            commit: commit.to_owned(),
            result: Some(prediction(&predicted)),
        };
        run.record(
            NewEvent::new(EventActor::Lead, EventKind::MergePredicted(payload)).task(task.id()),
        )?;
        let worker = task.owner().unwrap_or("worker").parse();
        let Ok(worker) = worker else {
            let why = format!("its owner {:?} is not a worker", task.owner());
            return give_up(run, task.id(), &why);
        };
        let merged = run.in_background(|_| integration.merge(&head, &id, task.id(), &worker))??;
        match merged {
            // The next merge handles the move of the branch.
            MergeOutcome::Moved => Ok(()),
            MergeOutcome::Already => {
                // A host that was killed had made the merge, but could not journal it.
                let made =
                    Some(head.to_string()).filter(|_| noted.as_deref() != Some(head.as_str()));
                let merge = TaskMerge {
                    commit: commit.to_owned(),
                    made,
                    ..TaskMerge::default()
                };
                self.note_merged(run, task, tasks, &merge, &head)
            }
            MergeOutcome::Made(made) => {
                let files = match run.repo() {
                    Some(repo) => repo.changed_files(&head, &made)?,
                    None => Vec::new(),
                };
                let merge = TaskMerge {
                    commit: commit.to_owned(),
                    made: Some(made.to_string()),
                    files,
                };
                self.note_merged(run, task, tasks, &merge, &made)
            }
            MergeOutcome::Conflict { files } => {
                let files: Vec<String> = files
                    .iter()
                    .map(|file| file.to_string_lossy().into_owned())
                    .collect();
                handle_conflict(run, task, tasks, commit, &files)
            }
        }
    }

    /// Records that a task is merged, together with those whose conflict it resolved. The task itself comes last: until
    /// then the others wait for it.
    fn note_merged(
        &self,
        run: &mut RunContext<'_>,
        task: &Task,
        tasks: &[Task],
        merge: &TaskMerge,
        head: &CommitId,
    ) -> Result<()> {
        for id in merged_together(task, tasks) {
            match run.store().merged(run.team(), HOST, id, merge) {
                // The task was deleted meanwhile; its work is merged all the same.
                Err(error) if error.kind == StoreErrorKind::NotFound => {}
                noted => drop(noted?),
            }
        }
        run.read()?;
        self.guard.unmark_missing(run, head)?;
        share_integration(run)
    }
}

/// Fetches a commit that this repository lacks from the repository that the team shares.
fn fetch_if_missing(run: &mut RunContext<'_>, commit: &CommitId) -> Result<()> {
    let (Some(shared), Some(repo)) = (shared_repo(run)?, run.repo()) else {
        return Ok(());
    };
    if repo.resolve(commit.as_str())?.is_some() {
        return Ok(());
    }
    let team = run.team().clone();
    let fetched = run.in_background(|_| repo.fetch_team(&shared, &team))?;
    if let Err(error) = fetched {
        run.say(&format!(
            "the work of other machines cannot be fetched from {shared}: {}",
            error.message
        ));
    }
    Ok(())
}

/// Pushes the merged work to the repository that the team shares. If that fails, the next merge pushes it; no task
/// needs it, because the workers push the work that other tasks depend on.
pub(super) fn share_integration(run: &mut RunContext<'_>) -> Result<()> {
    let (Some(shared), Some(repo)) = (shared_repo(run)?, run.repo()) else {
        return Ok(());
    };
    let team = run.team().clone();
    let pushed = run.in_background(|_| repo.push_integration(&shared, &team))?;
    if let Err(error) = pushed {
        run.say(&format!(
            "the merged work could not be pushed to {shared}: {}",
            error.message
        ));
    }
    Ok(())
}

/// Fetches the merged work of a host on another machine, if this machine has none of it yet.
pub(super) fn take_over_integration(run: &mut RunContext<'_>) -> Result<()> {
    let (Some(shared), Some(repo)) = (shared_repo(run)?, run.repo()) else {
        return Ok(());
    };
    let team = run.team().clone();
    let is_new = repo.branch_tip(&integration_branch(&team))?.is_none();
    if is_new && run.state().begun.is_some() {
        run.in_background(|_| {
            repo.fetch_team(&shared, &team)?;
            repo.follow_integration(&team)
        })??;
    }
    Ok(())
}

fn shared_repo(run: &RunContext<'_>) -> Result<Option<SharedRepo>> {
    let url = run.spec().repo.as_deref();
    Ok(url.map(SharedRepo::new).transpose()?)
}

/// Returns the tasks whose work is merged together with a task: those whose conflict it resolved, and itself as the
/// last.
fn merged_together<'t>(task: &'t Task, tasks: &'t [Task]) -> Vec<&'t TaskId> {
    let mut all: Vec<&TaskId> = Vec::new();
    if let Some(root) = task.resolves() {
        let of_it = |other: &&Task| {
            other.id() != task.id()
                && other.is_done()
                && waits_for_merge(other)
                && (*other.id() == root || other.resolves().as_ref() == Some(&root))
        };
        all.extend(tasks.iter().filter(of_it).map(Task::id));
    }
    all.push(task.id());
    all
}

/// Inspects the commit of a task. Its worker has done so before, but the host is responsible for what lands.
fn inspect(repo: &Repo, task: &Task, head: &CommitId, id: &CommitId) -> Result<Inspection> {
    if repo.is_ancestor(id, head)? {
        return Ok(if began_behind(repo, task, id)? {
            Inspection::Nothing
        } else {
            Inspection::Mergeable
        });
    }
    let files = repo.changed_since_fork(head, id)?;
    if let Some(secret) = repo.secrets_since_fork(head, id)?.first() {
        let why = format!("it changes what no worker may commit: {secret}");
        return Ok(Inspection::Refused(why));
    }
    let nested = repo.nested_since_fork(head, id)?;
    if !nested.is_empty() {
        return Ok(Inspection::Refused(format!(
            "it added a nested repository that is not registered as a submodule; only its name would land: {}",
            nested.join(", ")
        )));
    }
    let unfetchable = repo.unfetchable_since_fork(head, id)?;
    if !unfetchable.is_empty() {
        let why = format!("{UNFETCHABLE}: {}", unfetchable.join(", "));
        return Ok(Inspection::Refused(why));
    }
    if files.is_empty() {
        return Ok(Inspection::Nothing);
    }
    let why = resolution_fault(repo, task, head, id, &files)?;
    Ok(why.map_or(Inspection::Mergeable, Inspection::NotResolved))
}

/// Returns whether the commit of a task is not newer than the commit that the task started from: then it brings nothing
/// new.
fn began_behind(repo: &Repo, task: &Task, commit: &CommitId) -> Result<bool> {
    match start_commit(task) {
        Some(base) => Ok(repo.is_ancestor(commit, &base)?),
        None => Ok(false),
    }
}

/// Records that a task changed nothing: it is done, but not merged. If it should resolve a conflict, it has failed.
fn note_unchanged(run: &mut RunContext<'_>, task: &Task, tasks: &[Task]) -> Result<()> {
    if task.resolves().is_some() {
        return handle_failed_resolution(run, task, tasks, "it changed nothing");
    }
    run.store().unchanged(run.team(), HOST, task.id())?;
    run.read()
}

fn prediction(predicted: &MergePrediction) -> Prediction {
    match predicted {
        MergePrediction::Already => Prediction::Already,
        MergePrediction::Clean { .. } => Prediction::Clean,
        MergePrediction::Conflict { .. } => Prediction::Conflict,
        MergePrediction::Unrelated => Prediction::Unrelated,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn task(number: u64, status: &str, notes: &Value) -> Task {
        crate::host::task_progress::example(number, &[], status, notes)
    }

    fn resolution(number: u64, status: &str, times: u64, more: &Value) -> Task {
        let mut notes = json!({ "resolves": "1", "conflict": { "times": times } });
        for (key, value) in more.as_object().unwrap() {
            notes[key] = value.clone();
        }
        task(number, status, &notes)
    }

    #[test]
    fn merged_resolution_brings_its_task_along_and_comes_last() {
        let unmerged = json!({ "merged": false });
        let tasks = [
            task(1, "completed", &unmerged),
            resolution(2, "completed", 1, &unmerged),
            resolution(3, "completed", 2, &unmerged),
            task(4, "completed", &unmerged),
        ];
        let all = |task: &Task| -> Vec<u128> {
            let all = merged_together(task, &tasks);
            all.iter().map(|id| id.number()).collect()
        };
        assert_eq!(all(&tasks[2]), [1, 2, 3]);
        assert_eq!(all(&tasks[3]), [4]);
    }
}
