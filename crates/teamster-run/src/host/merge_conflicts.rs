//! Conflicts of a task's work with what the team has merged: each becomes a task that resolves it, up to a limit.
//!
//! ```text
//! conflict ─▶ resolution task ─┬─▶ resolved ──────────────────▶ merged together with the task
//!                              ├─▶ conflicts again, or brings
//!                              │   nothing: another resolution
//!                              └─▶ no resolution left ────────▶ the task is given up, and its work is kept
//! ```
//!
//! The journal records a conflict after its task exists, so a killed host may leave a task without an event:
//! [`unrecorded_conflicts`] finds it.

use teamster_isolate::git::{CommitId, Repo};
use teamster_journal::payload::MergeConflict;
use teamster_journal::{EventActor, EventKind, HOST, NewEvent};
use teamster_store::PlannedTask;
use teamster_types::task::{NewTask, SUBJECT_LIMIT, Task, TaskConflict, TaskNotes};
use teamster_types::text::{clip, quoted};
use teamster_types::{TaskId, TeamName};

use super::Result;
use super::context::RunContext;
use super::task_progress::{Resolutions, root, waits_for_merge};

/// The number of attempts to resolve a conflict; after that the task fails.
const MOST_CONFLICTS: usize = 2;
/// The number of files that are listed in a reason.
const MOST_NAMED: usize = 5;

/// Returns every conflict that has a task to resolve it but no event: the task with the conflict, its details, and the
/// task that resolves it.
pub(super) fn unrecorded_conflicts<'t>(
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
pub(super) fn unresolvable(tasks: &[Task]) -> Vec<(TaskId, String)> {
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
pub(super) fn stuck_resolution(tasks: &[Task]) -> Option<&Task> {
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

/// Returns how many tasks were created to resolve the conflict of a task.
fn resolutions(tasks: &[Task], root: &TaskId) -> usize {
    let of_it = |task: &&Task| task.resolves().as_ref() == Some(root);
    tasks.iter().filter(of_it).count()
}

/// Handles a conflict: the worker of the conflicting task resolves it in a new task, up to the limit.
pub(super) fn handle_conflict(
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
        let new = resolution_task(run.team(), task, &root, commit, files, times + 1);
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
            listed_files(files)
        )
    } else {
        format!(
            "it conflicts with the work of others for the third time, in {}",
            listed_files(files)
        )
    };
    let kept = work_and_resolution(tasks, &root, Some(task), commit);
    give_up(run, &root, &not_merged(&kept, &why))
}

/// Handles a resolution that does not resolve its conflict: another one is created, up to the limit. The work itself
/// stays where it is, and is not marked as merged.
pub(super) fn handle_failed_resolution(
    run: &mut RunContext<'_>,
    task: &Task,
    tasks: &[Task],
    why: &str,
) -> Result<()> {
    let (Some(root), Some(conflict)) = (task.resolves(), task.conflict()) else {
        return give_up(run, task.id(), why);
    };
    let (commit, files) = (conflict.commit.as_str(), &conflict.files);
    let source = tasks.iter().find(|other| other.commit() == Some(commit));
    let times = resolutions(tasks, &root);
    if times < MOST_CONFLICTS
        && let Some(source) = source
    {
        let before = format!("Task {} tried this before and failed: {why}.", task.id());
        let mut new = resolution_task(run.team(), source, &root, commit, files, times + 1);
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
        listed_files(files),
        task.id(),
    );
    give_up(run, &root, &not_merged(&kept, &why))
}

/// Journals a conflict, and which task is to resolve it.
pub(super) fn record_conflict(
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

pub(super) fn give_up(run: &mut RunContext<'_>, id: &TaskId, why: &str) -> Result<()> {
    run.store().give_up(run.team(), HOST, id, why)?;
    run.read()
}

/// Returns the task that resolves a conflict.
fn resolution_task(
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

/// Returns why a commit does not resolve the conflict that its task was created for; `None` when it may resolve it, or
/// when the task resolves no conflict. `files` are those that it changed.
pub(super) fn resolution_fault(
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
    let base = match start_commit(task) {
        Some(base) => base,
        None => repo
            .fork_point(head, commit)?
            .unwrap_or_else(|| head.clone()),
    };
    match repo.left_out(&base, &other, commit)? {
        (clean, _) if !clean.is_empty() => {
            return Ok(Some(format!("it left out {}", listed_files(&clean))));
        }
        (_, Some(conflicting)) => {
            return Ok(Some(format!(
                "it left {} as it was",
                listed_files(&conflicting)
            )));
        }
        _ => {}
    }
    let marked = repo.with_conflict_markers(head, commit, files)?;
    if !marked.is_empty() {
        return Ok(Some(format!(
            "it left conflict markers in {}",
            listed_files(&marked)
        )));
    }
    Ok(None)
}

/// Returns the commit that the work of a task started from.
pub(super) fn start_commit(task: &Task) -> Option<CommitId> {
    task.result()?.base?.parse().ok()
}

/// Returns a sentence that says first that work is missing and where it is: a terminal may cut the rest.
fn not_merged(kept: &str, why: &str) -> String {
    format!("its work is NOT merged and is kept as {kept}: {why}")
}

/// Returns the names of files, at most the first few.
fn listed_files(files: &[String]) -> String {
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
}
