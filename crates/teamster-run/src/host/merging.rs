//! The merge train: what tasks have brought comes together, one after the other.

use std::path::Path;

use serde_json::{Value, json};
use teamster_isolate::git::{
    CommitId, Integration, MergeOutcome, MergePrediction, Repo, UNFETCHABLE,
};
use teamster_journal::payload::{MergeConflict, MergePredicted, Prediction};
use teamster_journal::{EventKind, HOST, NewEvent};
use teamster_store::{Kind, Merge, PlannedTask};
use teamster_types::json::Object;
use teamster_types::quote::quoted;
use teamster_types::task::{NewTask, SUBJECT_LIMIT, Task};
use teamster_types::{TaskId, denied};

use super::task_progress::{self, commit_of, resolves, root, to_merge, waits_for_merge};
use super::{Host, Result};

/// A conflict is resolved at most so often; the next one ends the task.
const MOST_CONFLICTS: usize = 2;
/// Files that a reason names, at most.
const MOST_NAMED: usize = 5;

impl Host<'_> {
    /// Merges everything that is ready; whether there was anything to do.
    pub(super) fn merge(&mut self, tasks: &[Task]) -> Result<bool> {
        let Some(integration) = self.integration.clone() else {
            return Ok(false);
        };
        let mut any = self.tell_conflicts(tasks)?;
        any |= self.give_up_unresolved(tasks)?;
        // One at a time: a conflict makes a task, and then the next must be judged anew.
        if let Some(task) = to_merge(tasks).first() {
            self.merge_one(&integration, task, tasks)?;
            any = true;
        }
        Ok(any || self.ask_again(tasks)?)
    }

    /// Deals with work whose last resolution is over and has brought nothing in, whatever is noted about it: otherwise it
    /// would be waited for without end. Whether there was any.
    fn ask_again(&mut self, tasks: &[Task]) -> Result<bool> {
        let is_stuck = |task: &&Task| {
            resolves(task).is_some_and(|root| {
                let whole = tasks.iter().find(|other| *other.id() == root);
                whole.is_some_and(waits_for_merge)
            }) && task.is_done()
                && !waits_for_merge(task)
                && !task_progress::is_superseded(task, tasks)
        };
        let Some(task) = tasks.iter().find(is_stuck) else {
            return Ok(false);
        };
        if let Some(head) = self.own_head()?
            && self.take_back_missing(&head)?
        {
            return Ok(true);
        }
        self.not_resolved(task, tasks, "nothing of it is merged")?;
        Ok(true)
    }

    fn merge_one(&mut self, integration: &Integration, task: &Task, tasks: &[Task]) -> Result<()> {
        let Some(commit) = commit_of(task) else {
            return self.brought_nothing(task, tasks);
        };
        let Ok(id) = commit.parse::<CommitId>() else {
            let why = format!("its result names {commit:?}, which is no commit");
            return self.give_up(task.id(), &why);
        };
        let noted = self.run.state().head.clone();
        let Some(head) = self.own_head()? else {
            return Ok(());
        };
        let is_in = match self.run.repo() {
            Some(repo) => repo.is_ancestor(&id, &head)?,
            None => false,
        };
        if let Some(repo) = self.run.repo().filter(|_| !is_in) {
            // Its bridge has looked at this; but what lands is for the host to answer for.
            let files = repo.changed_since_fork(&head, &id)?;
            let denied = |file: &&String| denied::pattern(Path::new(file)).is_some();
            if let Some(file) = files.iter().find(denied) {
                let why = format!("it changes what no worker may change: {file}");
                return self.give_up(task.id(), &why);
            }
            let nested = repo.nested_since_fork(&head, &id)?;
            if !nested.is_empty() {
                let why = format!(
                    "it made a repository in the repository, of which nothing but the name would land: {}",
                    nested.join(", ")
                );
                return self.give_up(task.id(), &why);
            }
            let unfetchable = repo.unfetchable_since_fork(&head, &id)?;
            if !unfetchable.is_empty() {
                let why = format!("{UNFETCHABLE}: {}", unfetchable.join(", "));
                return self.give_up(task.id(), &why);
            }
            if files.is_empty() {
                return self.brought_nothing(task, tasks);
            }
            if let Some(why) = no_resolution(repo, task, &head, &id, &files)? {
                return self.not_resolved(task, tasks, &why);
            }
        } else if self.began_behind(task, &id)? {
            return self.brought_nothing(task, tasks);
        }
        let predicted = self
            .run
            .in_background(|_| integration.predict_on(&head, &id))??;
        let told = MergePredicted {
            commit: commit.to_owned(),
            result: Some(prediction(&predicted)),
        };
        self.run
            .record(NewEvent::new(HOST, EventKind::MergePredicted(told)).task(task.id()))?;
        let worker = task.owner().unwrap_or("worker").parse();
        let Ok(worker) = worker else {
            let why = format!("its owner {:?} is no worker", task.owner());
            return self.give_up(task.id(), &why);
        };
        let merged = self
            .run
            .in_background(|_| integration.merge(&head, &id, task.id(), &worker))??;
        match merged {
            // Whoever moved it is dealt with before the next merge.
            MergeOutcome::Moved => Ok(()),
            MergeOutcome::Already => {
                // A host that was killed had merged it and could not say so any more.
                let made =
                    Some(head.to_string()).filter(|_| noted.as_deref() != Some(head.as_str()));
                let merge = Merge {
                    commit: commit.to_owned(),
                    made,
                    ..Merge::default()
                };
                self.note_merged(task, tasks, &merge, &head)
            }
            MergeOutcome::Made(made) => {
                let files = match self.run.repo() {
                    Some(repo) => repo.changed_files(&head, &made)?,
                    None => Vec::new(),
                };
                let merge = Merge {
                    commit: commit.to_owned(),
                    made: Some(made.to_string()),
                    files,
                };
                self.note_merged(task, tasks, &merge, &made)
            }
            MergeOutcome::Conflict { files } => {
                let files: Vec<String> = files
                    .iter()
                    .map(|file| file.to_string_lossy().into_owned())
                    .collect();
                self.conflict(task, tasks, commit, &files)
            }
        }
    }

    /// What is merged brings along those whose conflict it resolved. It comes last: until then the others wait for it.
    fn note_merged(
        &mut self,
        task: &Task,
        tasks: &[Task],
        merge: &Merge,
        head: &CommitId,
    ) -> Result<()> {
        let mut all: Vec<&TaskId> = Vec::new();
        if let Some(root) = resolves(task) {
            let of_it = |other: &&Task| {
                other.id() != task.id()
                    && other.is_done()
                    && waits_for_merge(other)
                    && (*other.id() == root || resolves(other).as_ref() == Some(&root))
            };
            all.extend(tasks.iter().filter(of_it).map(Task::id));
        }
        all.push(task.id());
        for id in all {
            match self.run.store().merged(self.run.team(), HOST, id, merge) {
                // Somebody has deleted the task meanwhile; its work is in all the same.
                Err(error) if error.kind == Kind::NotFound => {}
                noted => drop(noted?),
            }
        }
        self.run.read()?;
        self.take_back_missing(head)?;
        Ok(())
    }

    /// A task that changed nothing is done and not merged. Where it was to resolve a conflict, it has failed to.
    fn brought_nothing(&mut self, task: &Task, tasks: &[Task]) -> Result<()> {
        if resolves(task).is_some() {
            return self.not_resolved(task, tasks, "it changed nothing");
        }
        self.run
            .store()
            .unchanged(self.run.team(), HOST, task.id())?;
        self.run.read()
    }

    /// Whether the commit of a task is older than where the task began: then nothing of it is new.
    fn began_behind(&self, task: &Task, commit: &CommitId) -> Result<bool> {
        let base = task
            .ours("result")
            .and_then(|result| result.get("base")?.as_str());
        let base = base.and_then(|base| base.parse::<CommitId>().ok());
        match (self.run.repo(), base) {
            (Some(repo), Some(base)) => Ok(repo.is_ancestor(commit, &base)?),
            _ => Ok(false),
        }
    }

    /// A resolution that does not bring in what it should: another one is asked for, as long as there may be one more.
    /// The work itself stays where it is, and is called merged by nobody.
    fn not_resolved(&mut self, task: &Task, tasks: &[Task], why: &str) -> Result<()> {
        let (Some(root), Some(conflict)) = (resolves(task), task.ours("conflict").cloned()) else {
            return self.give_up(task.id(), why);
        };
        let commit = conflict["commit"].as_str().unwrap_or_default();
        let files: Vec<String> = conflict["files"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|file| file.as_str().map(str::to_owned))
            .collect();
        let source = tasks.iter().find(|other| commit_of(other) == Some(commit));
        let times = tasks
            .iter()
            .filter(|other| resolves(other).as_ref() == Some(&root))
            .count();
        if times < MOST_CONFLICTS
            && let Some(source) = source
        {
            let mut new = self.resolving(source, &root, commit, &files, times + 1);
            new.description = format!(
                "Task {} was to do this before, and did not: {why}.\n\n{}",
                task.id(),
                new.description
            );
            let planned = [PlannedTask {
                task: new,
                after: Vec::new(),
            }];
            self.run.import_tasks(&planned)?;
            return self.give_up(task.id(), &format!("it resolved no conflict: {why}"));
        }
        self.give_up(task.id(), &format!("it resolved no conflict: {why}"))?;
        let kept = source.map_or_else(|| commit.to_owned(), |source| kept_as(source, commit));
        let why = format!(
            "its conflict in {} was not resolved (task {}: {why})",
            named(&files),
            task.id(),
        );
        self.give_up(&root, &not_merged(&kept, &why))
    }

    /// Both sides have changed the same: whoever brought the later one resolves it, twice at most.
    fn conflict(
        &mut self,
        task: &Task,
        tasks: &[Task],
        commit: &str,
        files: &[String],
    ) -> Result<()> {
        let root = root(task);
        let times = tasks
            .iter()
            .filter(|other| resolves(other).as_ref() == Some(&root))
            .count();
        if times < MOST_CONFLICTS {
            // It carries what there is to tell, so that it is told even if this host is killed before it can.
            let planned = [PlannedTask {
                task: self.resolving(task, &root, commit, files, times + 1),
                after: Vec::new(),
            }];
            self.run.import_tasks(&planned)?;
            return self.run.read();
        }
        let mut known = self.run.state().conflicts.iter();
        if !known.any(|(id, conflict)| *id == root && conflict.is_final) {
            let conflict = json!({ "commit": commit, "files": files, "times": times + 1 });
            self.tell_conflict(&root, &conflict, None)?;
        }
        let why = format!(
            "it conflicts with that of others for the third time, in {}",
            named(files),
        );
        self.give_up(&root, &not_merged(&kept_as(task, commit), &why))
    }

    /// Tells every conflict that somebody is to resolve and nobody has told; whether there was one.
    fn tell_conflicts(&mut self, tasks: &[Task]) -> Result<bool> {
        let mut any = false;
        for task in tasks {
            let (Some(root), Some(conflict)) = (resolves(task), task.ours("conflict")) else {
                continue;
            };
            let told = self.run.state().conflicts.iter();
            let told = told.filter(|(id, _)| *id == root).count() as u64;
            if conflict.get("times").and_then(Value::as_u64) > Some(told) {
                self.tell_conflict(&root, conflict, Some(task.id()))?;
                any = true;
            }
        }
        Ok(any)
    }

    fn tell_conflict(
        &mut self,
        root: &TaskId,
        conflict: &Value,
        fix_task: Option<&TaskId>,
    ) -> Result<()> {
        let files = conflict["files"].as_array().into_iter().flatten();
        let files: Vec<String> = files
            .filter_map(|file| file.as_str().map(str::to_owned))
            .collect();
        let conflict = MergeConflict {
            commit: conflict["commit"].as_str().map(str::to_owned),
            conflicts: files.len(),
            files,
            times: conflict["times"].as_u64().unwrap_or(1),
            is_final: fix_task.is_none(),
            fix_task: fix_task.cloned(),
        };
        self.run
            .record(NewEvent::new(HOST, EventKind::MergeConflict(conflict)).task(root))
    }

    fn resolving(
        &self,
        task: &Task,
        root: &TaskId,
        commit: &str,
        files: &[String],
        times: usize,
    ) -> NewTask {
        let name = format!("refs/teamster/{}/task-{}", self.run.team(), task.id());
        let mut subject = format!("Resolve the conflict of task {root}: {}", task.subject());
        if subject.chars().count() > SUBJECT_LIMIT {
            subject = subject.chars().take(SUBJECT_LIMIT - 1).collect();
            subject.push('…');
        }
        let list: Vec<&str> = files.iter().take(100).map(String::as_str).collect();
        let description = format!(
            "The work of task {} does not fit what the team has merged meanwhile. Your worktree is at the merged state \
             already. Bring the changes of commit {commit} ({name}) into it (`git cherry-pick -n {commit}`, or by hand), \
             so that what both sides wanted holds, and leave no conflict marker. Both sides changed:\n\n{}\n\n\
             The task was:\n\n{}",
            task.id(),
            quoted(&list.join("\n")),
            quoted(&format!(
                "{}\n\n{}",
                task.subject(),
                short(task.description(), 4_000)
            )),
        );
        let mut notes = Object::new();
        notes.insert("merged".into(), json!(false));
        notes.insert("resolves".into(), json!(root));
        let most: Vec<&String> = files.iter().take(100).collect();
        notes.insert(
            "conflict".into(),
            json!({ "commit": commit, "files": most, "times": times }),
        );
        NewTask {
            subject,
            description,
            owner: task.owner().and_then(|owner| owner.parse().ok()),
            paths: task.paths(),
            notes,
            ..NewTask::default()
        }
    }

    /// A conflict whose resolution failed for good will not be resolved; a task that was given up needs no resolution.
    fn give_up_unresolved(&mut self, tasks: &[Task]) -> Result<bool> {
        let mut any = false;
        for task in tasks {
            let Some(root) = resolves(task) else { continue };
            let Some(whole) = tasks.iter().find(|other| *other.id() == root) else {
                continue;
            };
            let is_superseded = task_progress::is_superseded(task, tasks);
            if task.is_failed() && !is_superseded && !whole.is_failed() && whole.is_unmerged() {
                let why = format!("its conflict was not resolved: task {} failed", task.id());
                let why = not_merged(&kept_as(whole, "its commit"), &why);
                self.give_up(whole.id(), &why)?;
                any = true;
            } else if whole.is_failed() && task.is_done() && task.is_unmerged() {
                let why = format!("task {root}, which it was to save, was given up");
                self.give_up(task.id(), &why)?;
                any = true;
            }
        }
        Ok(any)
    }

    pub(super) fn give_up(&mut self, id: &TaskId, why: &str) -> Result<()> {
        self.run.store().give_up(self.run.team(), HOST, id, why)?;
        self.run.read()
    }
}

/// Says that work is missing and where it is, before anything that may be long: a screen cuts the end.
fn not_merged(kept: &str, why: &str) -> String {
    format!("its work is NOT merged and is kept as {kept}: {why}")
}

/// Names files, the first few of many.
fn named(files: &[String]) -> String {
    if files.len() <= MOST_NAMED {
        return files.join(", ");
    }
    let first = files[..MOST_NAMED].join(", ");
    format!("{first} and {} more", files.len() - MOST_NAMED)
}

/// The reference that keeps the work of a task.
fn kept_as(task: &Task, commit: &str) -> String {
    task.ours("result")
        .and_then(|result| result.get("ref"))
        .and_then(Value::as_str)
        .unwrap_or(commit)
        .to_owned()
}

/// Why a commit does not resolve the conflict that its task was made for; `None` when it may, and when the task is about
/// something else. `files` are those that it changed.
fn no_resolution(
    repo: &Repo,
    task: &Task,
    head: &CommitId,
    commit: &CommitId,
    files: &[String],
) -> Result<Option<String>> {
    let (Some(_), Some(conflict)) = (resolves(task), task.ours("conflict")) else {
        return Ok(None);
    };
    let Some(Ok(other)) = conflict["commit"].as_str().map(str::parse::<CommitId>) else {
        return Ok(None);
    };
    let base = task
        .ours("result")
        .and_then(|result| result.get("base")?.as_str()?.parse().ok());
    let base = match base {
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

pub(super) fn short(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(limit).collect();
    cut.push('…');
    cut
}
