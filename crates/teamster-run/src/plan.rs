//! A plan: tasks that name each other by labels, in TOML, YAML or JSON.
//!
//! ```toml
//! verify = ["cargo test"]
//!
//! [[tasks]]
//! id = "form"
//! subject = "Fix the login form"
//!
//! [[tasks]]
//! id = "test"
//! subject = "Test the login form"
//! blockedBy = ["form"]
//! ```
//!
//! A plan is taken as it is or not at all: its order stays, and everything that is wrong is named by line. What may
//! stand in it is one table ([`fields`]), from which both the reader and the published schema are made.

use std::collections::HashMap;
use std::path::Path;

use teamster_journal::payload::{Distribution, Member, RunSpec};
use teamster_store::PlannedTask;
use teamster_types::WorkerName;
use teamster_types::graph::plan_cycle;
use teamster_types::paths::Glob;
use teamster_types::task::{NewTask, SUBJECT_LIMIT, TaskNotes};
use teamster_types::transitions::check_texts;

use crate::document::form::Form;
use crate::document::{Fault, Faults, Node, Value, read};

mod fields;
mod schema;

pub use schema::{SCHEMA_FILE, schema, schema_text};

/// Tasks in the order of the plan, and what the plan calls them.
#[derive(Debug)]
pub struct Plan {
    /// The labels, one for each task.
    pub labels: Vec<String>,
    /// The line in which each task begins.
    pub lines: Vec<usize>,
    /// The tasks.
    pub tasks: Vec<PlannedTask>,
    /// Commands that verify all of it together.
    pub verify: Vec<String>,
}

impl Plan {
    /// Reads a plan that lies in `file`.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self, Faults> {
        let root = read(file, bytes)?;
        Self::of_document(&root).map_err(|list| Faults::new(file, list))
    }

    /// Returns the plan of a run that nobody plans.
    pub fn unplanned(spec: &RunSpec) -> Result<Self, String> {
        let names = |members: &[&Member]| -> Vec<WorkerName> {
            members.iter().map(|member| member.name.clone()).collect()
        };
        match spec.distribution {
            Distribution::One => Self::of_sentence(&spec.task),
            Distribution::Each => {
                Self::for_each(&spec.task, &names(&spec.members.iter().collect::<Vec<_>>()))
            }
            Distribution::BestOf => Self::for_each(&spec.task, &names(&spec.working_members())),
        }
    }

    /// Returns the plan for a sentence that nobody splits: one task, never cut at an "and", for whoever takes it.
    pub fn of_sentence(sentence: &str) -> Result<Self, String> {
        Self::of_copies(sentence, &[None])
    }

    /// Returns the plan in which each of these workers does the whole of a sentence.
    pub fn for_each(sentence: &str, workers: &[WorkerName]) -> Result<Self, String> {
        if workers.is_empty() {
            return Err("there is no worker to give the task to".to_owned());
        }
        let owners: Vec<Option<&WorkerName>> = workers.iter().map(Some).collect();
        Self::of_copies(sentence, &owners)
    }

    fn of_copies(sentence: &str, owners: &[Option<&WorkerName>]) -> Result<Self, String> {
        let sentence = sentence.trim();
        let first = sentence.lines().next().unwrap_or_default();
        let mut subject: String = first.chars().take(SUBJECT_LIMIT).collect();
        if first.chars().count() > SUBJECT_LIMIT {
            subject.pop();
            subject.push('…');
        }
        check_texts(Some(&subject), Some(sentence)).map_err(|refusal| refusal.to_string())?;
        let task = |owner: &Option<&WorkerName>| PlannedTask {
            task: NewTask {
                subject: subject.clone(),
                description: sentence.to_owned(),
                owner: owner.cloned(),
                // Nobody wrote a plan, so nobody can know a label.
                ..NewTask::default()
            },
            after: Vec::new(),
        };
        let label = |owner: &Option<&WorkerName>| {
            owner.map_or_else(|| "task".to_owned(), ToString::to_string)
        };
        Ok(Self {
            labels: owners.iter().map(label).collect(),
            lines: vec![1; owners.len()],
            tasks: owners.iter().map(task).collect(),
            verify: Vec::new(),
        })
    }

    fn of_document(root: &Node) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let Some(form) = Form::new(root, "the plan", &mut faults) else {
            return Err(faults);
        };
        form.known(&fields::names(&fields::PLAN), &mut faults);
        let verify = form.texts("verify", &mut faults);
        let list = form.list("tasks", &mut faults).unwrap_or_default();
        if list.is_empty() && faults.is_empty() {
            faults.push(Fault::new(form.line_of("tasks"), "the plan has no tasks"));
        }
        let labels = labels(list, &mut faults);
        let places: HashMap<&str, usize> = labels
            .iter()
            .enumerate()
            .rev()
            .map(|(place, label)| (label.as_str(), place))
            .collect();
        let tasks: Vec<PlannedTask> = list
            .iter()
            .zip(&labels)
            .filter_map(|(task, label)| planned(task, label, &places, &mut faults))
            .collect();
        // Only a plan of which every task was understood has places that mean something.
        if faults.is_empty() {
            faults.extend(cycle(&labels, &tasks, list));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            lines: list.iter().map(|task| task.line).collect(),
            verify: verify.into_iter().map(|command| command.text).collect(),
            labels,
            tasks,
        })
    }
}

/// What each task is called. One without a name gets a place-holder that nobody can name, so that reading goes on.
fn labels(list: &[Node], faults: &mut Vec<Fault>) -> Vec<String> {
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut labels = Vec::with_capacity(list.len());
    for (place, task) in list.iter().enumerate() {
        let label = match task.get("id").map(|id| &id.value) {
            Some(Value::Text(id)) if !id.trim().is_empty() => id.clone(),
            // Some planners number their tasks.
            Some(Value::Number(id)) => id.clone(),
            _ => {
                if matches!(task.value, Value::Map(_)) {
                    let message = format!("task {} of the list has no `id`", place + 1);
                    faults.push(Fault::new(task.line, message));
                }
                labels.push(format!("\u{0}{}", place + 1));
                continue;
            }
        };
        if let Some(line) = first.get(&label) {
            let message = format!("two tasks have the id {label:?}; the first is in line {line}");
            faults.push(Fault::new(task.line, message));
        }
        first.entry(label.clone()).or_insert(task.line);
        labels.push(label);
    }
    labels
}

fn planned(
    task: &Node,
    label: &str,
    places: &HashMap<&str, usize>,
    faults: &mut Vec<Fault>,
) -> Option<PlannedTask> {
    let who = match label.strip_prefix('\u{0}') {
        Some(place) => format!("task {place} of the list"),
        None => format!("task {label:?}"),
    };
    let form = Form::new(task, who.clone(), faults)?;
    form.known(&fields::names(&fields::TASK), faults);
    let subject = form.needed("subject", faults);
    let description = form.text("description", faults);
    for (subject, description) in [(&subject, &None), (&None, &description)] {
        let (subject, line) = (subject.as_ref(), subject.as_ref().or(description.as_ref()));
        let description = description.as_ref();
        if let (Err(refusal), Some(at)) = (
            check_texts(
                subject.map(|found| found.text.as_str()),
                description.map(|found| found.text.as_str()),
            ),
            line,
        ) {
            faults.push(Fault::new(at.line, format!("{who}: {refusal}")));
        }
    }
    let owner = form.text("owner", faults).and_then(|owner| {
        let parsed = owner.text.parse();
        parsed
            .map_err(|error| {
                let message = format!("{who} has a bad `owner`: {error}");
                faults.push(Fault::new(owner.line, message));
            })
            .ok()
    });
    let paths = form.texts("paths", faults);
    for path in &paths {
        if let Err(error) = Glob::new(&path.text) {
            faults.push(Fault::new(path.line, format!("{who}: {error}")));
        }
    }
    let mut after = Vec::new();
    for blocker in form.texts("blockedBy", faults) {
        match places.get(blocker.text.as_str()) {
            Some(place) if after.contains(place) => {}
            Some(place) => after.push(*place),
            None => {
                let message = format!(
                    "{who} is blocked by {:?}, which is not in the plan",
                    blocker.text
                );
                faults.push(Fault::new(blocker.line, message));
            }
        }
    }
    let mut texts = |key| {
        let found = form.texts(key, faults);
        found.into_iter().map(|line| line.text).collect()
    };
    let (capabilities, verify) = (texts("capabilities"), texts("verify"));
    let active_form = form.text("activeForm", faults).map(|found| found.text);
    Some(PlannedTask {
        task: NewTask {
            subject: subject?.text,
            description: description.map(|found| found.text).unwrap_or_default(),
            active_form,
            owner,
            blocked_by: Vec::new(),
            capabilities,
            paths: paths.into_iter().map(|path| path.text).collect(),
            notes: TaskNotes::default(),
            verify,
            label: Some(label.to_owned()),
        },
        after,
    })
}

/// The store refuses a cycle too, but knows neither labels nor lines.
fn cycle(labels: &[String], tasks: &[PlannedTask], list: &[Node]) -> Option<Fault> {
    let after: Vec<&[usize]> = tasks.iter().map(|task| task.after.as_slice()).collect();
    let cycle = plan_cycle(&after)?;
    let names: Vec<&str> = cycle.iter().map(|place| labels[*place].as_str()).collect();
    let first = list.get(*cycle.first()?)?;
    let line = first.get("blockedBy").map_or(first.line, |node| node.line);
    Some(Fault::new(
        line,
        format!("the plan has a cycle: {}", names.join(" waits for ")),
    ))
}

#[cfg(test)]
mod tests;
