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
//! stand in it is one struct for the plan and one for a task, from which both the reader and the published schema are
//! made: a new key is a new field there.

use std::collections::HashMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
pub use teamster_document::Faults;
use teamster_document::{DocumentNode, Fault, Lined, Word, parse_file};
use teamster_journal::payload::{Distribution, Member, RunSpec};
use teamster_store::PlannedTask;
use teamster_types::WorkerName;
use teamster_types::graph::plan_cycle;
use teamster_types::paths::Glob;
use teamster_types::task::{NewTask, SUBJECT_LIMIT, TaskNotes};
use teamster_types::transitions::check_texts;

mod schema;

pub use schema::{SCHEMA_FILE, schema, schema_text};

/// A list of texts, each with its line.
type Texts = Lined<Vec<Lined<Word>>>;

/// A plan as it is written. Its comments are those of the published schema.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanEntry {
    /// The tasks, in the order in which they get their numbers.
    #[schemars(schema_with = "schema::tasks")]
    tasks: Lined<Vec<Lined<TaskEntry>>>,
    /// Shell commands that must succeed when all tasks are merged.
    #[serde(default)]
    #[schemars(schema_with = "schema::texts")]
    verify: Texts,
}

/// A task as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(rename = "task", rename_all = "camelCase", deny_unknown_fields)]
struct TaskEntry {
    /// A label for this plan only; every task has its own.
    #[schemars(schema_with = "schema::label")]
    id: Lined<Word>,
    /// What is to be done, in one line.
    #[schemars(schema_with = "schema::subject")]
    subject: Lined<String>,
    /// All that the worker needs to know.
    #[serde(default)]
    #[schemars(schema_with = "schema::description")]
    description: Lined<String>,
    /// What is shown while it is being done.
    #[serde(default)]
    #[schemars(schema_with = "schema::text")]
    active_form: Lined<String>,
    /// Labels of the tasks that must be done before. No task may wait for itself, by whatever way.
    #[serde(default)]
    #[schemars(schema_with = "schema::texts")]
    blocked_by: Texts,
    /// The worker who gets it; without one, whoever suits.
    #[serde(default)]
    #[schemars(schema_with = "schema::worker")]
    owner: Lined<WorkerName>,
    /// What its worker should be good at, such as testing.
    #[serde(default)]
    #[schemars(schema_with = "schema::texts")]
    capabilities: Texts,
    /// Globs of the files it may change; tasks whose globs overlap do not run at the same time.
    #[serde(default)]
    #[schemars(schema_with = "schema::texts")]
    paths: Texts,
    /// Shell commands that must succeed for this task.
    #[serde(default)]
    #[schemars(schema_with = "schema::texts")]
    verify: Texts,
}

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
        let root = parse_file(file, bytes)?;
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
            Distribution::BestOf => {
                let mut plan = Self::for_each(&spec.task, &names(&spec.working_members()))?;
                for planned in &mut plan.tasks {
                    planned.task.notes.is_candidate = true;
                }
                Ok(plan)
            }
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
        let task = |owner: Option<&WorkerName>| PlannedTask {
            task: NewTask {
                subject: subject.clone(),
                description: sentence.to_owned(),
                owner: owner.cloned(),
                // Nobody wrote a plan, so nobody can know a label.
                ..NewTask::default()
            },
            after: Vec::new(),
        };
        let label = |owner: Option<&WorkerName>| {
            owner.map_or_else(|| "task".to_owned(), ToString::to_string)
        };
        Ok(Self {
            labels: owners.iter().copied().map(label).collect(),
            lines: vec![1; owners.len()],
            tasks: owners.iter().copied().map(task).collect(),
            verify: Vec::new(),
        })
    }

    fn of_document(root: &DocumentNode) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let Some(plan) = root.read::<PlanEntry>("the plan", &mut faults) else {
            return Err(faults);
        };
        let tasks = plan.tasks.value.unwrap_or_default();
        if tasks.is_empty() && faults.is_empty() {
            let line = plan.tasks.line.max(root.line);
            faults.push(Fault::new(line, "the plan has no tasks"));
        }
        let lines: Vec<usize> = tasks.iter().map(|task| task.line).collect();
        let labels = labels(&tasks, &mut faults);
        let places: HashMap<&str, usize> = labels
            .iter()
            .enumerate()
            .rev()
            .map(|(place, label)| (label.as_str(), place))
            .collect();
        let blockers: Vec<usize> = tasks
            .iter()
            .map(|task| {
                let entry = task.value.as_ref();
                entry.map_or(task.line, |entry| entry.blocked_by.line.max(task.line))
            })
            .collect();
        let tasks: Vec<PlannedTask> = tasks
            .into_iter()
            .zip(&labels)
            .filter_map(|(task, label)| planned(task, label, &places, &mut faults))
            .collect();
        // Only a plan of which every task was understood has places that mean something.
        if faults.is_empty() {
            faults.extend(cycle(&labels, &tasks, &blockers));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            lines,
            verify: plan.verify.texts(),
            labels,
            tasks,
        })
    }
}

/// Returns what each task is called. One without a name gets a place-holder that nobody can name, so that reading goes on.
fn labels(tasks: &[Lined<TaskEntry>], faults: &mut Vec<Fault>) -> Vec<String> {
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut labels = Vec::with_capacity(tasks.len());
    for (place, task) in tasks.iter().enumerate() {
        let id = task.value.as_ref().map(|entry| &entry.id);
        let Some(Word(label)) = id.and_then(|id| id.value.as_ref()) else {
            if id.is_some_and(Lined::is_missing) {
                let message = format!("task {} of the list has no `id`", place + 1);
                faults.push(Fault::new(task.line, message));
            }
            labels.push(format!("\u{0}{}", place + 1));
            continue;
        };
        if let Some(line) = first.get(label.as_str()) {
            let message = format!("two tasks have the id {label:?}; the first is in line {line}");
            faults.push(Fault::new(task.line, message));
        }
        first.entry(label).or_insert(task.line);
        labels.push(label.clone());
    }
    labels
}

/// Returns a task with the places of those that it waits for, if it has all that it needs.
fn planned(
    task: Lined<TaskEntry>,
    label: &str,
    places: &HashMap<&str, usize>,
    faults: &mut Vec<Fault>,
) -> Option<PlannedTask> {
    let entry = task.value?;
    let who = match label.strip_prefix('\u{0}') {
        Some(place) => format!("task {place} of the list"),
        None => format!("task {label:?}"),
    };
    let mut wrong = |line: usize, why: String| faults.push(Fault::new(line, why));
    if entry.subject.is_missing() {
        wrong(task.line, format!("{who} has no `subject`"));
    }
    let (subject, description) = (entry.subject.value, entry.description.value);
    for (line, refused) in [
        (entry.subject.line, check_texts(subject.as_deref(), None)),
        (
            entry.description.line,
            check_texts(None, description.as_deref()),
        ),
    ] {
        if let Err(refusal) = refused {
            wrong(line, format!("{who}: {refusal}"));
        }
    }
    for (line, Word(path)) in entry.paths.items() {
        if let Err(error) = Glob::new(path) {
            wrong(line, format!("{who}: {error}"));
        }
    }
    let mut after = Vec::new();
    for (line, Word(blocker)) in entry.blocked_by.items() {
        match places.get(blocker.as_str()) {
            Some(place) if after.contains(place) => {}
            Some(place) => after.push(*place),
            None => wrong(
                line,
                format!("{who} is blocked by {blocker:?}, which is not in the plan"),
            ),
        }
    }
    Some(PlannedTask {
        task: NewTask {
            subject: subject?,
            description: description.unwrap_or_default(),
            active_form: entry.active_form.value,
            owner: entry.owner.value,
            blocked_by: Vec::new(),
            capabilities: entry.capabilities.texts(),
            paths: entry.paths.texts(),
            notes: TaskNotes::default(),
            verify: entry.verify.texts(),
            label: Some(label.to_owned()),
        },
        after,
    })
}

/// Returns a cycle of tasks that wait for each other. The store refuses one too, but knows neither labels nor lines.
fn cycle(labels: &[String], tasks: &[PlannedTask], lines: &[usize]) -> Option<Fault> {
    let after: Vec<&[usize]> = tasks.iter().map(|task| task.after.as_slice()).collect();
    let cycle = plan_cycle(&after)?;
    let names: Vec<&str> = cycle.iter().map(|place| labels[*place].as_str()).collect();
    let line = *lines.get(*cycle.first()?)?;
    Some(Fault::new(
        line,
        format!("the plan has a cycle: {}", names.join(" waits for ")),
    ))
}

#[cfg(test)]
mod tests;
