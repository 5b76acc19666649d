//! The files of a team on the disk, read without the product's store.
//!
//! The product's own code is used only to parse tasks and to rebuild them from the journal.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use teamster_types::TaskId;

use crate::product::{TempProject, check, list, names, text};

/// Everything that the checks use, and the problems they found.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Task files by id.
    pub(super) tasks: BTreeMap<String, Value>,
    /// Failure records by task id.
    pub(super) failures: BTreeMap<String, Value>,
    /// The journal.
    events: Vec<Value>,
    /// Names that belong to an unfinished change: `.next`, `.gone`, temporary files, claim locks, lock folders.
    pub(super) leftovers: Vec<String>,
    /// Problems that are independent of the operation.
    pub(super) problems: Vec<String>,
}

impl Files {
    pub(super) fn read(project: &TempProject) -> Result<Self> {
        let mut files = Self::default();
        files.read_tasks(&project.tasks())?;
        for folder in ["", "inbox", "outbox", "signals", "inboxes", "blobs"] {
            files.find_leftovers(&project.team().join(folder));
        }
        files.read_journal(&project.team().join("events.jsonl"))?;
        // The next writer finishes a change that was interrupted between its files.
        if files.leftovers.is_empty() {
            files.check_mirrors();
        }
        Ok(files)
    }

    pub(super) fn first_task(&self) -> Result<&Value> {
        self.tasks.get("1").context("task 1 is gone")
    }

    /// Counts the matching events of a type.
    pub(super) fn count(&self, kind: &str, fits: impl Fn(&Value) -> bool) -> usize {
        let of_kind = self.events.iter().filter(|event| event["type"] == kind);
        of_kind.filter(|event| fits(event)).count()
    }

    /// Checks what must hold after the first write that follows the fault.
    ///
    /// An empty claim lock names no process, so it must not be considered stale early.
    pub(super) fn check_whole(&mut self) {
        let is_claim_lock = |name: &str| {
            let id = name.strip_suffix(".lock");
            id.is_some_and(|id| id.chars().all(|c| c.is_ascii_digit()))
        };
        for name in &self.leftovers {
            check!(self.problems, is_claim_lock(name) => "{name} is left after the next write");
        }
        if !self.leftovers.is_empty() {
            self.check_mirrors();
        }
        self.check_rebuild();
        // Only the product writes here: the leftovers of a killed writer must not be attributed to another program.
        for event in &self.events {
            let is_ours = event["actor"] != "foreign";
            check!(self.problems, is_ours => "another program is said to have done {event}");
        }
    }

    fn read_tasks(&mut self, folder: &Path) -> Result<()> {
        self.find_leftovers(folder);
        for name in names(folder) {
            let Some(stem) = name.strip_suffix(".json") else {
                continue;
            };
            let bytes = std::fs::read(folder.join(&name))?;
            match (serde_json::from_slice(&bytes), stem.split_once('.')) {
                (Ok(value), None) => drop(self.tasks.insert(stem.to_owned(), value)),
                (Ok(value), Some((id, _))) => drop(self.failures.insert(id.to_owned(), value)),
                (Err(error), _) => self.problems.push(format!("{name} is torn: {error}")),
            }
        }
        Ok(())
    }

    fn find_leftovers(&mut self, folder: &Path) {
        let ends = [".next", ".gone", ".tmp", ".lock"];
        let left = names(folder)
            .into_iter()
            .filter(|name| name != ".teamster.lock" && ends.iter().any(|end| name.ends_with(end)));
        self.leftovers.extend(left);
    }

    fn read_journal(&mut self, file: &Path) -> Result<()> {
        let text = String::from_utf8(std::fs::read(file)?)?;
        check!(self.problems, text.ends_with('\n') => "the journal's last line is torn");
        for (number, line) in (1..).zip(text.lines()) {
            match serde_json::from_str::<Value>(line) {
                Ok(event) if event["seq"] == number => self.events.push(event),
                other => {
                    let problem = format!("line {number} of the journal: {other:?}");
                    self.problems.push(problem);
                }
            }
        }
        Ok(())
    }

    /// Checks that `blocks` mirrors `blockedBy` in every file.
    fn check_mirrors(&mut self) {
        let (mut blocked_by, mut blocks) = (Vec::new(), Vec::new());
        for (id, task) in &self.tasks {
            blocked_by.extend(list(&task["blockedBy"]).map(|other| (id.as_str(), text(other))));
            blocks.extend(list(&task["blocks"]).map(|other| (text(other), id.as_str())));
        }
        blocked_by.sort_unstable();
        blocks.sort_unstable();
        let is_same = blocked_by == blocks;
        check!(self.problems, is_same => "blockedBy {blocked_by:?}, blocks {blocks:?}");
    }

    /// Checks that the journal alone rebuilds the same tasks.
    fn check_rebuild(&mut self) {
        let mut told = teamster_store::rebuild::Tasks::default();
        for event in &self.events {
            match serde_json::from_value(event.clone()) {
                Ok(event) => told.apply(&event),
                Err(error) => {
                    self.problems
                        .push(format!("event {} is not one: {error}", event["seq"]));
                }
            }
        }
        for (id, file) in &self.tasks {
            let parsed = id.parse::<TaskId>().ok().and_then(|id| {
                let task = teamster_types::task::Task::parse(&id, file.to_string().as_bytes());
                Some((told.take(&id)?, task.ok()?))
            });
            let is_same = parsed
                .is_some_and(|(told, task)| teamster_store::rebuild::is_same_task(&told, &task));
            check!(self.problems, is_same => "the journal does not rebuild task {id}");
        }
        for task in told.remaining() {
            let problem = format!("the journal tells of task {} too", task.id());
            self.problems.push(problem);
        }
    }
}

/// Returns the contents of a worker's inbox, full segments first, each cut to its first word.
pub(super) fn inbox_contents(project: &TempProject, worker: &str) -> Result<Vec<String>> {
    let folder = project.team().join("inbox");
    let read = |name: String| std::fs::read_to_string(folder.join(name)).ok();
    let segments = (1..).map_while(|number: usize| read(format!("{worker}.{number}.jsonl")));
    let mut text: String = segments.collect();
    text.push_str(&read(format!("{worker}.jsonl")).unwrap_or_default());
    let message = |line| serde_json::from_str(line).map(|message| short(&message));
    let contents: Result<_, _> = text.lines().map(message).collect();
    contents.with_context(|| format!("a line of the inbox of {worker} is torn"))
}

/// Returns the first word of a message: long ones begin with their name.
pub(super) fn short(message: &Value) -> String {
    let word = text(&message["content"]).split_whitespace().next();
    word.unwrap_or_default().to_owned()
}
