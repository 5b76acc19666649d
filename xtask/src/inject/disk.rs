//! The files of a team as they lie on the disk, not as the product tells of them. Only what a task is and what a
//! journal rebuilds are the product's own words.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use teamster_types::TaskId;

use crate::product::Place;

/// Everything a check looks at, and everything that must not be.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// Task files.
    pub(super) tasks: BTreeMap<String, Value>,
    /// Failure sidecars.
    pub(super) failures: BTreeMap<String, Value>,
    /// The journal.
    pub(super) events: Vec<Value>,
    /// Names that belong to a change that is being made: `.next`, `.gone`, temp files, claim locks, lock folders.
    pub(super) leftovers: Vec<String>,
    /// What is wrong, whatever the operation was.
    pub(super) problems: Vec<String>,
}

impl Disk {
    pub(super) fn read(place: &Place) -> Result<Self> {
        let mut disk = Self::default();
        disk.read_tasks(&place.tasks())?;
        for folder in ["", "inbox", "outbox", "signals", "inboxes", "blobs"] {
            disk.find_leftovers(&place.team().join(folder))?;
        }
        disk.read_journal(&place.team().join("events.jsonl"))?;
        // A change that was struck between its files is finished by the next writer.
        if disk.leftovers.is_empty() {
            disk.check_mirrors();
        }
        Ok(disk)
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
        for name in names(folder)? {
            let is_ours_to_stay = name == ".teamster.lock" || name == ".teamster.index";
            let is_left = [".next", ".gone", ".tmp", ".lock"]
                .iter()
                .any(|end| name.ends_with(end));
            if is_left && !is_ours_to_stay {
                self.leftovers.push(name);
            }
        }
        Ok(())
    }

    fn read_journal(&mut self, file: &Path) -> Result<()> {
        let text = String::from_utf8(std::fs::read(file)?)?;
        if !text.ends_with('\n') {
            self.problems
                .push("the journal's last line is torn".to_owned());
        }
        for (place, line) in text.lines().enumerate() {
            match serde_json::from_str::<Value>(line) {
                Ok(event) if event["seq"] == place + 1 => self.events.push(event),
                Ok(event) => self.problems.push(format!(
                    "line {} of the journal has seq {}",
                    place + 1,
                    event["seq"]
                )),
                Err(error) => self
                    .problems
                    .push(format!("line {} of the journal: {error}", place + 1)),
            }
        }
        Ok(())
    }

    /// `blocks` is the mirror of `blockedBy` in every file.
    fn check_mirrors(&mut self) {
        let edges = |key: &str| -> Vec<(String, String)> {
            let of_task = |(id, task): (&String, &Value)| -> Vec<(String, String)> {
                let others = task[key].as_array().cloned().unwrap_or_default();
                others
                    .iter()
                    .filter_map(|other| Some((id.clone(), other.as_str()?.to_owned())))
                    .collect()
            };
            self.tasks.iter().flat_map(of_task).collect()
        };
        let mut blocked_by = edges("blockedBy");
        let mut blocks: Vec<(String, String)> =
            edges("blocks").into_iter().map(|(a, b)| (b, a)).collect();
        blocked_by.sort_unstable();
        blocks.sort_unstable();
        if blocked_by != blocks {
            self.problems.push(format!(
                "blockedBy says {blocked_by:?} and blocks says {blocks:?}"
            ));
        }
    }

    /// What must hold as soon as somebody has written after the blow.
    ///
    /// An empty claim lock names nobody, so nobody may take it for stale before its time.
    pub(super) fn check_whole(&mut self) {
        for name in self.leftovers.iter().filter(|name| !is_claim_lock(name)) {
            self.problems
                .push(format!("{name} is left after the next write"));
        }
        if !self.leftovers.is_empty() {
            self.check_mirrors();
        }
        self.check_rebuild();
        // Nobody but the product writes here: what a killed writer left must not be taken for another program's.
        for event in self.events.iter().filter(|e| e["actor"] == "foreign") {
            self.problems.push(format!(
                "event {} says that another program did {}",
                event["seq"], event["type"]
            ));
        }
    }

    /// The journal alone rebuilds the same tasks.
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
                Some((told.take(&id), task.ok()?))
            });
            let is_same = match &parsed {
                Some((Some(rebuilt), task)) => teamster_store::rebuild::same(rebuilt, task),
                _ => false,
            };
            if !is_same {
                self.problems
                    .push(format!("the journal does not rebuild task {id}"));
            }
        }
        for task in told.rest() {
            self.problems
                .push(format!("the journal tells of task {} too", task.id()));
        }
    }

    /// How many events of a type there are, about a task if one is named.
    pub(super) fn count(&self, kind: &str, task: Option<&str>) -> usize {
        self.events
            .iter()
            .filter(|event| event["type"] == kind)
            .filter(|event| task.is_none_or(|id| event["taskId"] == id))
            .count()
    }
}

/// Whether a name is `{id}.lock`.
fn is_claim_lock(name: &str) -> bool {
    name.strip_suffix(".lock")
        .is_some_and(|id| id.chars().all(|c| c.is_ascii_digit()))
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
