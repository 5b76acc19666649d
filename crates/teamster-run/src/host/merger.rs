//! The merge train: merges the work of tasks, one after the other.

use teamster_isolate::git::{
    CommitId, Integration, MergeOutcome, MergePrediction, Repo, SharedRepo, UNFETCHABLE,
    integration_branch,
};
use teamster_journal::payload::{MergeConflict, MergePredicted, Prediction};
use teamster_journal::{EventActor, EventKind, HOST, NewEvent};
use teamster_store::{PlannedTask, StoreErrorKind, TaskMerge};
use teamster_types::task::{NewTask, SUBJECT_LIMIT, Task, TaskConflict, TaskNotes};
use teamster_types::text::{clip, quoted};
use teamster_types::{TaskId, TeamName};

use super::Result;
use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::task_progress::{Resolutions, root, to_merge, waits_for_merge};

/// The number of attempts to resolve a conflict; after that the task fails.
const MOST_CONFLICTS: usize = 2;
/// The number of files that are listed in a reason.
const MOST_NAMED: usize = 5;

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
        Ok(any || self.ask_again(run, tasks)?)
    }

    /// Handles a resolution that has ended without getting the work merged, whatever is recorded about it: otherwise
    /// the run would wait for it without end. Returns whether there was one.
    fn ask_again(&self, run: &mut RunContext<'_>, tasks: &[Task]) -> Result<bool> {
        let Some(task) = stuck_resolution(tasks) else {
            return Ok(false);
        };
        if let Some(head) = self.guard.head(run)?
            && self.guard.take_back_missing(run, &head)?
        {
            return Ok(true);
        }
        not_resolved(run, task, tasks, "nothing of it is merged")?;
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
            Inspection::NotResolved(why) => return not_resolved(run, task, tasks, &why),
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
                conflict(run, task, tasks, commit, &files)
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
        self.guard.take_back_missing(run, head)?;
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

/// Returns every conflict that has a task to resolve it but no event: the task with the conflict, its details, and the
/// task that resolves it.
fn unrecorded_conflicts<'t>(
    tasks: &'t [Task],
    recorded: &[(TaskId, MergeConflict)],
) -> Vec<(TaskId, TaskConflict, &'t TaskId)> {
    let mut unrecorded: Vec<(TaskId, TaskConflict, &TaskId)> = Vec::new();
    for task in tasks {
        let (Some(root), Some(conflict)) = (task.resolves(), task.conflict()) else {
            continue;
        };
        let before = recorded.iter().filter(|(id, _)| *id == root).count();
        let now = unrecorded.iter().filter(|(id, _, _)| *id == root).count();
        let known = (before + now) as u64;
        if conflict.times > known {
            unrecorded.push((root, conflict, task.id()));
        }
    }
    unrecorded
}

/// Returns the tasks to give up, and why: a task whose conflict could finally not be resolved, and a resolution whose
/// task was given up.
fn unresolvable(tasks: &[Task]) -> Vec<(TaskId, String)> {
    let resolutions = Resolutions::among(tasks);
    let mut given_up = Vec::new();
    for task in tasks {
        let Some(root) = task.resolves() else {
            continue;
        };
        let Some(whole) = tasks.iter().find(|other| *other.id() == root) else {
            continue;
        };
        let is_superseded = resolutions.supersede(task);
        if task.is_failed() && !is_superseded && !whole.is_failed() && whole.is_unmerged() {
            let why = format!("its conflict was not resolved: task {} failed", task.id());
            let why = not_merged(&kept_as(whole, "its commit"), &why);
            given_up.push((whole.id().clone(), why));
        } else if whole.is_failed() && task.is_done() && task.is_unmerged() {
            let why = format!("task {root}, which it was to save, was given up");
            given_up.push((task.id().clone(), why));
        }
    }
    given_up
}

/// Returns a resolution that has ended without getting the work merged, while the task with the conflict waits.
fn stuck_resolution(tasks: &[Task]) -> Option<&Task> {
    let resolutions = Resolutions::among(tasks);
    tasks.iter().find(|task| {
        task.resolves().is_some_and(|root| {
            let whole = tasks.iter().find(|other| *other.id() == root);
            whole.is_some_and(waits_for_merge)
        }) && task.is_done()
            && !waits_for_merge(task)
            && !resolutions.supersede(task)
    })
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

/// Returns how many tasks were created to resolve the conflict of a task.
fn resolutions(tasks: &[Task], root: &TaskId) -> usize {
    let of_it = |task: &&Task| task.resolves().as_ref() == Some(root);
    tasks.iter().filter(of_it).count()
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
    let why = no_resolution(repo, task, head, id, &files)?;
    Ok(why.map_or(Inspection::Mergeable, Inspection::NotResolved))
}

/// Returns whether the commit of a task is not newer than the commit that the task started from: then it brings nothing
/// new.
fn began_behind(repo: &Repo, task: &Task, commit: &CommitId) -> Result<bool> {
    match begun_at(task) {
        Some(base) => Ok(repo.is_ancestor(commit, &base)?),
        None => Ok(false),
    }
}

/// Records that a task changed nothing: it is done, but not merged. If it should resolve a conflict, it has failed.
fn note_unchanged(run: &mut RunContext<'_>, task: &Task, tasks: &[Task]) -> Result<()> {
    if task.resolves().is_some() {
        return not_resolved(run, task, tasks, "it changed nothing");
    }
    run.store().unchanged(run.team(), HOST, task.id())?;
    run.read()
}

/// Handles a resolution that does not resolve its conflict: another one is created, up to the limit. The work itself
/// stays where it is, and is not marked as merged.
fn not_resolved(run: &mut RunContext<'_>, task: &Task, tasks: &[Task], why: &str) -> Result<()> {
    let (Some(root), Some(conflict)) = (task.resolves(), task.conflict()) else {
        return give_up(run, task.id(), why);
    };
    let (commit, files) = (conflict.commit.as_str(), &conflict.files);
    let source = tasks.iter().find(|other| other.commit() == Some(commit));
    let times = resolutions(tasks, &root);
    if times < MOST_CONFLICTS
        && let Some(source) = source
    {
        let before = format!(
            "Task {} was to do this before, and did not: {why}.",
            task.id()
        );
        let mut new = resolving(run.team(), source, &root, commit, files, times + 1);
        new.description = format!("{before}\n\n{}", new.description);
        if let Some(conflict) = &mut new.notes.conflict {
            conflict.failed_before = Some(before);
        }
        run.import_tasks(&[PlannedTask {
            task: new,
            after: Vec::new(),
        }])?;
        return give_up(
            run,
            task.id(),
            &format!("it did not resolve the conflict: {why}"),
        );
    }
    give_up(
        run,
        task.id(),
        &format!("it did not resolve the conflict: {why}"),
    )?;
    let kept = work_and_resolution(tasks, &root, source, commit);
    let why = format!(
        "its conflict in {} was not resolved (task {}: {why})",
        named(files),
        task.id(),
    );
    give_up(run, &root, &not_merged(&kept, &why))
}

/// Handles a conflict: the worker of the conflicting task resolves it in a new task, up to the limit.
fn conflict(
    run: &mut RunContext<'_>,
    task: &Task,
    tasks: &[Task],
    commit: &str,
    files: &[String],
) -> Result<()> {
    let root = root(task);
    let times = resolutions(tasks, &root);
    let can_be_resolved = times < MOST_CONFLICTS && !run.spec().collects;
    if can_be_resolved {
        // The task contains the details of the conflict, so that they are journalled even if this host is killed
        // before.
        let new = resolving(run.team(), task, &root, commit, files, times + 1);
        run.import_tasks(&[PlannedTask {
            task: new,
            after: Vec::new(),
        }])?;
        return run.read();
    }
    let mut known = run.state().conflicts.iter();
    if !known.any(|(id, conflict)| *id == root && conflict.is_final) {
        let conflict = TaskConflict {
            commit: commit.to_owned(),
            files: files.to_vec(),
            times: times as u64 + 1,
            failed_before: None,
        };
        record_conflict(run, &root, conflict, None)?;
    }
    let why = if run.spec().collects {
        let id = task.id();
        format!(
            "it conflicts with what is merged, in {}; `teamster task retry {id}` redoes it on top of that",
            named(files)
        )
    } else {
        format!(
            "it conflicts with the work of others for the third time, in {}",
            named(files)
        )
    };
    let kept = work_and_resolution(tasks, &root, Some(task), commit);
    give_up(run, &root, &not_merged(&kept, &why))
}

/// Journals a conflict, and which task is to resolve it.
fn record_conflict(
    run: &mut RunContext<'_>,
    root: &TaskId,
    conflict: TaskConflict,
    fix_task: Option<&TaskId>,
) -> Result<()> {
    let conflict = MergeConflict {
        commit: Some(conflict.commit),
        conflicts: conflict.files.len(),
        files: conflict.files,
        times: conflict.times,
        is_final: fix_task.is_none(),
        fix_task: fix_task.cloned(),
    };
    run.record(NewEvent::new(EventActor::Lead, EventKind::MergeConflict(conflict)).task(root))
}

fn give_up(run: &mut RunContext<'_>, id: &TaskId, why: &str) -> Result<()> {
    run.store().give_up(run.team(), HOST, id, why)?;
    run.read()
}

/// Returns the task that resolves a conflict.
fn resolving(
    team: &TeamName,
    task: &Task,
    root: &TaskId,
    commit: &str,
    files: &[String],
    times: usize,
) -> NewTask {
    let name = format!("refs/teamster/{team}/task-{}", task.id());
    let subject = format!("Resolve the conflict of task {root}: {}", task.subject());
    let list: Vec<&str> = files.iter().take(100).map(String::as_str).collect();
    let description = format!(
        "The work of task {} does not fit what the team has merged meanwhile. Bring the changes of commit {commit} ({name}) \
         into the merged state, so that what both sides wanted holds, and leave no conflict marker. Both sides \
         changed:\n\n{}\n\nThe task was:\n\n{}",
        task.id(),
        quoted(&list.join("\n")),
        quoted(&format!(
            "{}\n\n{}",
            task.subject(),
            clip(task.description(), 4_000)
        )),
    );
    let notes = TaskNotes {
        is_to_be_merged: true,
        resolves: Some(root.clone()),
        conflict: Some(TaskConflict {
            commit: commit.to_owned(),
            files: files.iter().take(100).cloned().collect(),
            times: times as u64,
            failed_before: None,
        }),
        ..TaskNotes::default()
    };
    NewTask {
        subject: clip(&subject, SUBJECT_LIMIT - 1),
        description,
        owner: task.owner().and_then(|owner| owner.parse().ok()),
        paths: task.paths(),
        notes,
        ..NewTask::default()
    }
}

/// Returns a sentence that says first that work is missing and where it is: a terminal may cut the rest.
fn not_merged(kept: &str, why: &str) -> String {
    format!("its work is NOT merged and is kept as {kept}: {why}")
}

/// Returns the names of files, at most the first few.
fn named(files: &[String]) -> String {
    if files.len() <= MOST_NAMED {
        return files.join(", ");
    }
    let first = files[..MOST_NAMED].join(", ");
    format!("{first} and {} more", files.len() - MOST_NAMED)
}

/// Returns the reference that keeps the work of a task.
fn kept_as(task: &Task, commit: &str) -> String {
    let kept = task.result().and_then(|result| result.kept_as);
    kept.unwrap_or_else(|| commit.to_owned())
}

/// Returns where the work of a task is kept, and the last attempt to resolve its conflict, if there was one. `last` is
/// the task that `commit` belongs to.
fn work_and_resolution(tasks: &[Task], root: &TaskId, last: Option<&Task>, commit: &str) -> String {
    let kept = last.map_or_else(|| commit.to_owned(), |last| kept_as(last, commit));
    let whole = tasks.iter().find(|task| task.id() == root);
    let own = whole.and_then(|whole| Some(kept_as(whole, whole.commit()?)));
    match own {
        Some(own) if own != kept => format!("{own} (its last resolution as {kept})"),
        _ => kept,
    }
}

/// Returns the commit that the work of a task started from.
fn begun_at(task: &Task) -> Option<CommitId> {
    task.result()?.base?.parse().ok()
}

/// Returns why a commit does not resolve the conflict that its task was created for; `None` when it may resolve it, or
/// when the task resolves no conflict. `files` are those that it changed.
fn no_resolution(
    repo: &Repo,
    task: &Task,
    head: &CommitId,
    commit: &CommitId,
    files: &[String],
) -> Result<Option<String>> {
    let (Some(_), Some(conflict)) = (task.resolves(), task.conflict()) else {
        return Ok(None);
    };
    let Ok(other) = conflict.commit.parse::<CommitId>() else {
        return Ok(None);
    };
    let base = match begun_at(task) {
        Some(base) => base,
        None => repo
            .fork_point(head, commit)?
            .unwrap_or_else(|| head.clone()),
    };
    match repo.left_out(&base, &other, commit)? {
        (clean, _) if !clean.is_empty() => {
            return Ok(Some(format!("it left out {}", named(&clean))));
        }
        (_, Some(conflicting)) => {
            return Ok(Some(format!("it left {} as it was", named(&conflicting))));
        }
        _ => {}
    }
    let marked = repo.with_conflict_markers(head, commit, files)?;
    if !marked.is_empty() {
        return Ok(Some(format!(
            "it left conflict markers in {}",
            named(&marked)
        )));
    }
    Ok(None)
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
    fn conflict_is_recorded_once_for_each_resolution() {
        let none = json!({});
        let tasks = [
            task(1, "completed", &json!({ "merged": false })),
            resolution(2, "completed", 1, &none),
            resolution(3, "pending", 2, &none),
        ];
        let recorded =
            |count: usize| vec![(TaskId::from_number(1), MergeConflict::default()); count];
        for (known, unrecorded) in [(0, vec![2, 3]), (1, vec![3]), (2, vec![])] {
            let found = unrecorded_conflicts(&tasks, &recorded(known));
            let found: Vec<u128> = found.iter().map(|(_, _, by)| by.number()).collect();
            assert_eq!(found, unrecorded, "{known} recorded");
        }
    }

    #[test]
    fn failed_resolution_and_its_task_are_given_up_together() {
        let (none, failed) = (json!({}), json!({ "failed": true }));
        let unmerged = json!({ "merged": false });
        let lost = json!({ "merged": false, "failed": true });
        for (whole, resolutions, given_up) in [
            // The last resolution failed, so the task is not merged.
            (
                &unmerged,
                vec![resolution(2, "completed", 1, &failed)],
                vec![1],
            ),
            // A later resolution has taken over.
            (
                &unmerged,
                vec![
                    resolution(2, "completed", 1, &failed),
                    resolution(3, "pending", 2, &none),
                ],
                vec![],
            ),
            // The task itself was given up, so its resolution is not needed.
            (
                &lost,
                vec![resolution(2, "completed", 1, &unmerged)],
                vec![2],
            ),
            (&unmerged, vec![resolution(2, "pending", 1, &none)], vec![]),
        ] {
            let mut tasks = vec![task(1, "completed", whole)];
            tasks.extend(resolutions);
            let found = unresolvable(&tasks);
            let found: Vec<u128> = found.iter().map(|(id, _)| id.number()).collect();
            assert_eq!(found, given_up, "{tasks:?}");
        }
    }

    #[test]
    fn resolution_that_brought_nothing_in_is_stuck_while_its_task_waits() {
        let whole = task(1, "completed", &json!({ "merged": false }));
        let over = resolution(2, "completed", 1, &json!({ "merged": true }));
        let stuck = |tasks: &[Task]| stuck_resolution(tasks).map(|task| task.id().number());
        assert_eq!(stuck(&[whole.clone(), over.clone()]), Some(2));
        let merged = task(1, "completed", &json!({ "merged": true }));
        assert_eq!(stuck(&[merged, over.clone()]), None);
        let next = resolution(3, "pending", 2, &json!({ "merged": false }));
        assert_eq!(stuck(&[whole, over, next]), None);
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
