//! The files of a team as they lie on the disk, read without the product's store.
//!
//! Only what a task is and what a journal rebuilds are decided by the product's own code.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use teamster_types::TaskId;

use crate::product::TempProject;

/// Everything a check looks at, and everything that is wrong with it.
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
    /// What is wrong, whatever the operation was.
    pub(super) problems: Vec<String>,
}

impl Files {
    pub(super) fn read(project: &TempProject) -> Result<Self> {
        let mut files = Self::default();
        files.read_tasks(&project.tasks())?;
        for folder in ["", "inbox", "outbox", "signals", "inboxes", "blobs"] {
            files.find_leftovers(&project.team().join(folder))?;
        }
        files.read_journal(&project.team().join("events.jsonl"))?;
        // A change that was interrupted between its files is finished by the next writer.
        if files.leftovers.is_empty() {
            files.check_mirrors();
        }
        Ok(files)
    }

    pub(super) fn first_task(&self) -> Result<&Value> {
        self.tasks.get("1").context("task 1 is gone")
    }

    /// Counts the events of a type that fit.
    pub(super) fn count(&self, kind: &str, fits: impl Fn(&Value) -> bool) -> usize {
        let of_kind = self.events.iter().filter(|event| event["type"] == kind);
        of_kind.filter(|event| fits(event)).count()
    }

    /// Checks what must hold as soon as somebody has written after the fault.
    ///
    /// An empty claim lock names nobody, so nobody may take it for stale before its time.
    pub(super) fn check_whole(&mut self) {
        let is_claim_lock = |name: &str| {
            let id = name.strip_suffix(".lock");
            id.is_some_and(|id| id.chars().all(|c| c.is_ascii_digit()))
        };
        for name in self.leftovers.iter().filter(|name| !is_claim_lock(name)) {
            self.problems
                .push(format!("{name} is left after the next write"));
        }
        if !self.leftovers.is_empty() {
            self.check_mirrors();
        }
        self.check_rebuild();
        // Only the product writes here: what a killed writer left must not be taken for another program's.
        for event in self.events.iter().filter(|e| e["actor"] == "foreign") {
            self.problems.push(format!(
                "event {} says that another program did {}",
                event["seq"], event["type"]
            ));
        }
    }

    fn read_tasks(&mut self, folder: &Path) -> Result<()> {
        self.find_leftovers(folder)?;
        for name in names(folder)? {
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

    fn find_leftovers(&mut self, folder: &Path) -> Result<()> {
        self.leftovers
            .extend(names(folder)?.into_iter().filter(|name| {
                let ends = [".next", ".gone", ".tmp", ".lock"];
                let may_stay = name == ".teamster.lock" || name == ".teamster.index";
                !may_stay && ends.iter().any(|end| name.ends_with(end))
            }));
        Ok(())
    }

    fn read_journal(&mut self, file: &Path) -> Result<()> {
        let text = String::from_utf8(std::fs::read(file)?)?;
        if !text.ends_with('\n') {
            self.problems
                .push("the journal's last line is torn".to_owned());
        }
        for (number, line) in (1..).zip(text.lines()) {
            let problem = match serde_json::from_str::<Value>(line) {
                Ok(event) if event["seq"] == number => {
                    self.events.push(event);
                    continue;
                }
                Ok(event) => format!("has seq {}", event["seq"]),
                Err(error) => error.to_string(),
            };
            self.problems
                .push(format!("line {number} of the journal: {problem}"));
        }
        Ok(())
    }

    /// Checks that `blocks` is the mirror of `blockedBy` in every file.
    fn check_mirrors(&mut self) {
        let edges = |key: &str| -> Vec<(String, String)> {
            let of_task = |(id, task): (&String, &Value)| -> Vec<(String, String)> {
                let others = task[key].as_array().into_iter().flatten();
                others
                    .filter_map(|other| Some((id.clone(), other.as_str()?.to_owned())))
                    .collect()
            };
            self.tasks.iter().flat_map(of_task).collect()
        };
        let mut blocked_by = edges("blockedBy");
        let blocks = edges("blocks").into_iter().map(|(a, b)| (b, a));
        let mut blocks: Vec<(String, String)> = blocks.collect();
        blocked_by.sort_unstable();
        blocks.sort_unstable();
        if blocked_by != blocks {
            self.problems.push(format!(
                "blockedBy says {blocked_by:?} and blocks says {blocks:?}"
            ));
        }
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
            if !parsed.is_some_and(|(told, task)| teamster_store::rebuild::same(&told, &task)) {
                self.problems
                    .push(format!("the journal does not rebuild task {id}"));
            }
        }
        for task in told.rest() {
            self.problems
                .push(format!("the journal tells of task {} too", task.id()));
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
    let mut contents = Vec::new();
    for line in text.lines() {
        match serde_json::from_str::<Value>(line) {
            Ok(message) => contents.push(short(&message)),
            Err(error) => bail!("a line of the inbox of {worker} is torn: {error}"),
        }
    }
    Ok(contents)
}

/// Returns the first word of a message: long ones begin with their name.
pub(super) fn short(message: &Value) -> String {
    let content = message["content"].as_str().unwrap_or_default();
    let word = content.split_whitespace().next().unwrap_or_default();
    word.to_owned()
}

fn names(folder: &Path) -> Result<Vec<String>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}
