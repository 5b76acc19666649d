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
//! A plan is accepted unchanged or not at all: its order stays, and every fault is reported with its line. The keys of
//! a plan are the fields of one struct for the plan and one for a task, from which both the parser and the published
//! schema are made: a new key is a new field there. A leader answers with the same document, and a proposed plan is
//! stored as one ([`Plan::draft`]), so that a person can edit it and a resumed run can read it again.

use std::collections::HashMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
pub use teamster_document::Faults;
use teamster_document::{DocumentNode, Fault, Lined, Word, parse_file};
use teamster_journal::payload::{Distribution, Member, PlanDraft, PlanDraftTask, RunSpec};
use teamster_store::PlannedTask;
use teamster_types::WorkerName;
use teamster_types::graph::plan_cycle;
use teamster_types::paths::Glob;
use teamster_types::routing::role_ability;
use teamster_types::task::{NewTask, SUBJECT_LIMIT, TaskNotes};
use teamster_types::transitions::check_texts;

use crate::request::check_word;

mod proposal;
mod schema;

pub use proposal::{EDITED_FILE, check_for_run, edited_document, proposal_text, read_edited};
pub use schema::{SCHEMA_FILE, schema, schema_text};

/// A list of texts, each with its line.
type LinedTexts = Lined<Vec<Lined<Word>>>;

/// The longest analysis, in characters.
const ANALYSIS_LIMIT: usize = 20_000;
/// The most questions. A leader with more has not looked closely enough.
const MOST_QUESTIONS: usize = 10;
/// The most assumptions, and the most risks.
const MOST_REMARKS: usize = 50;
/// The most acceptance criteria of a task.
const MOST_CRITERIA: usize = 20;
/// The longest sentence in one of these lists, in characters.
const SENTENCE_LIMIT: usize = 1_000;

/// A plan as it is written. The comments of its fields are those of the published schema.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanEntry {
    /// What was found out about the work: how things are, and where.
    #[serde(default)]
    #[schemars(schema_with = "schema::analysis")]
    analysis: Lined<String>,
    /// What only a person can decide, one question each. They are answered before the work begins.
    #[serde(default)]
    #[schemars(schema_with = "schema::questions")]
    questions: LinedTexts,
    /// What was taken for granted, one sentence each.
    #[serde(default)]
    #[schemars(schema_with = "schema::remarks")]
    assumptions: LinedTexts,
    /// What could go wrong, one sentence each.
    #[serde(default)]
    #[schemars(schema_with = "schema::remarks")]
    risks: LinedTexts,
    /// The tasks, in the order in which they get their numbers.
    #[schemars(schema_with = "schema::tasks")]
    tasks: Lined<Vec<Lined<TaskEntry>>>,
    /// Shell commands that must succeed when all tasks are merged.
    #[serde(default)]
    #[schemars(schema_with = "schema::texts")]
    verify: LinedTexts,
    /// Checks that are to pass in the end even if they fail now.
    #[serde(default)]
    #[schemars(schema_with = "schema::texts")]
    must_pass: LinedTexts,
}

/// A task as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(rename = "task", rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TaskEntry {
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
    /// Labels of the tasks that must be done before. No task may depend on itself, directly or indirectly.
    #[serde(default)]
    #[schemars(schema_with = "schema::texts")]
    blocked_by: LinedTexts,
    /// The worker who gets it; without one, the best suited worker.
    #[serde(default)]
    #[schemars(schema_with = "schema::worker")]
    owner: Lined<WorkerName>,
    /// The role of the members who may do it, such as tester.
    #[serde(default)]
    #[schemars(schema_with = "schema::role")]
    role: Lined<String>,
    /// What its worker should be good at, such as testing.
    #[serde(default)]
    #[schemars(schema_with = "schema::texts")]
    capabilities: LinedTexts,
    /// Globs of the files it may change; tasks whose globs overlap do not run at the same time.
    #[serde(default)]
    #[schemars(schema_with = "schema::texts")]
    paths: LinedTexts,
    /// Sentences that hold when it is done.
    #[serde(default)]
    #[schemars(schema_with = "schema::criteria")]
    accept: LinedTexts,
    /// Shell commands that must succeed for this task.
    #[serde(default)]
    #[schemars(schema_with = "schema::texts")]
    verify: LinedTexts,
}

/// The tasks in the order of the plan, with their labels.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The labels, one for each task.
    pub labels: Vec<String>,
    /// The line in which each task begins.
    pub lines: Vec<usize>,
    /// The role of the members who may do each task, if it names one.
    pub roles: Vec<Option<String>>,
    /// The tasks.
    pub tasks: Vec<PlannedTask>,
    /// Commands that verify all tasks together.
    pub verify: Vec<String>,
    /// Checks that are to pass in the end even if they fail now.
    pub must_pass: Vec<String>,
    /// The line of `must_pass`.
    pub must_pass_line: usize,
    /// What was found out about the work.
    pub analysis: String,
    /// What only a person can decide.
    pub questions: Vec<String>,
    /// What was taken for granted.
    pub assumptions: Vec<String>,
    /// What could go wrong.
    pub risks: Vec<String>,
}

/// Whether a plan may have no tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EmptyPlanPolicy {
    /// It may not.
    Refused,
    /// It may, if it has questions instead.
    WithQuestions,
}

impl Plan {
    /// Reads the plan in `file`.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self, Faults> {
        Self::read(file, bytes, EmptyPlanPolicy::Refused)
    }

    /// Reads the answer of a leader: a plan, or questions that have to be answered before there can be one.
    pub(crate) fn parse_answer(file: &Path, bytes: &[u8]) -> Result<Self, Faults> {
        Self::read(file, bytes, EmptyPlanPolicy::WithQuestions)
    }

    fn read(file: &Path, bytes: &[u8], empty_plan: EmptyPlanPolicy) -> Result<Self, Faults> {
        let root = parse_file(file, bytes)?;
        Self::of_document(&root, empty_plan).map_err(|list| Faults::new(file, list))
    }

    /// Returns the plan that was stored as a draft.
    pub fn from_draft(draft: &PlanDraft) -> Result<Self, Faults> {
        let file = Path::new("plan.json");
        let bytes = serde_json::to_vec_pretty(draft)
            .map_err(|error| Faults::new(file, vec![Fault::new(1, error.to_string())]))?;
        Self::read(file, &bytes, EmptyPlanPolicy::WithQuestions)
    }

    /// Returns the plan as it is stored, with the keys of a plan file.
    pub fn draft(&self) -> PlanDraft {
        let label = |place: &usize| self.labels.get(*place).cloned();
        let tasks = self.tasks.iter().zip(&self.labels).zip(&self.roles);
        let tasks = tasks.map(|((planned, id), role)| {
            let task = &planned.task;
            PlanDraftTask {
                id: id.clone(),
                subject: task.subject.clone(),
                description: task.description.clone(),
                active_form: task.active_form.clone(),
                blocked_by: planned.after.iter().filter_map(label).collect(),
                owner: task.owner.as_ref().map(ToString::to_string),
                role: role.clone(),
                capabilities: task.capabilities.clone(),
                paths: task.paths.clone(),
                accept: task.notes.accept.clone(),
                verify: task.verify.clone(),
            }
        });
        PlanDraft {
            analysis: self.analysis.clone(),
            questions: self.questions.clone(),
            assumptions: self.assumptions.clone(),
            risks: self.risks.clone(),
            verify: self.verify.clone(),
            must_pass: self.must_pass.clone(),
            tasks: tasks.collect(),
        }
    }

    /// Assigns each task that names a role: to the only member with that role as its owner, or to the first of several
    /// that is free.
    pub fn assign_roles(&mut self, members: &[Member]) {
        for (planned, role) in self.tasks.iter_mut().zip(&self.roles) {
            let Some(role) = role else { continue };
            let mut of_role = members.iter().filter(|member| member.has_role(role));
            match (&planned.task.owner, of_role.next(), of_role.next()) {
                (None, Some(only), None) => planned.task.owner = Some(only.name.clone()),
                (None, Some(_), Some(_)) => planned.task.capabilities.push(role_ability(role)),
                _ => {}
            }
        }
    }

    /// Returns the plan of a run without a plan file or a leader.
    pub fn unplanned(spec: &RunSpec) -> Result<Self, String> {
        let names = |members: &[&Member]| -> Vec<WorkerName> {
            members.iter().map(|member| member.name.clone()).collect()
        };
        match spec.distribution {
            Distribution::One => Self::from_sentence(&spec.task),
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

    /// Returns the plan for an unsplit sentence: one task, never split at an "and", for any worker.
    pub fn from_sentence(sentence: &str) -> Result<Self, String> {
        Self::of_copies(sentence, &[None])
    }

    /// Returns the plan in which each of these workers does the whole task.
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
                // There is no plan file, so no person knows a label.
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
            roles: vec![None; owners.len()],
            tasks: owners.iter().copied().map(task).collect(),
            ..Self::default()
        })
    }

    fn of_document(root: &DocumentNode, empty_plan: EmptyPlanPolicy) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let Some(plan) = root.read::<PlanEntry>("the plan", &mut faults) else {
            return Err(faults);
        };
        let analysis = plan.analysis.value.unwrap_or_default();
        let length = analysis.chars().count();
        if length > ANALYSIS_LIMIT {
            let why = format!("`analysis` has {length} characters; the limit is {ANALYSIS_LIMIT}");
            faults.push(Fault::new(plan.analysis.line, why));
        }
        for (key, texts, most) in [
            ("questions", &plan.questions, MOST_QUESTIONS),
            ("assumptions", &plan.assumptions, MOST_REMARKS),
            ("risks", &plan.risks, MOST_REMARKS),
        ] {
            faults.extend(check_sentences("the plan", key, texts, most));
        }
        let tasks = plan.tasks.value.unwrap_or_default();
        let is_asking =
            empty_plan == EmptyPlanPolicy::WithQuestions && plan.questions.items().next().is_some();
        if tasks.is_empty() && faults.is_empty() && !is_asking {
            let line = plan.tasks.line.max(root.line);
            faults.push(Fault::new(line, "the plan has no tasks"));
        }
        let read = Self::of_entries(tasks, &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            verify: plan.verify.texts(),
            must_pass_line: plan.must_pass.line,
            must_pass: plan.must_pass.texts(),
            analysis,
            questions: plan.questions.texts(),
            assumptions: plan.assumptions.texts(),
            risks: plan.risks.texts(),
            ..read
        })
    }

    /// Reads a list of tasks that depend on each other. Its faults are added to `faults`; if there are any, the plan
    /// must not be used.
    pub(crate) fn of_entries(tasks: Vec<Lined<TaskEntry>>, faults: &mut Vec<Fault>) -> Self {
        let lines: Vec<usize> = tasks.iter().map(|task| task.line).collect();
        let labels = labels(&tasks, faults);
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
        let roles = tasks.iter().map(|task| role(task, faults)).collect();
        let tasks: Vec<PlannedTask> = tasks
            .into_iter()
            .zip(&labels)
            .filter_map(|(task, label)| planned(task, label, &places, faults))
            .collect();
        // Only in a plan without faults do the indexes refer to the right tasks.
        if faults.is_empty() {
            faults.extend(cycle(&labels, &tasks, &blockers));
        }
        Self {
            labels,
            lines,
            roles,
            tasks,
            ..Self::default()
        }
    }
}

/// Returns the faults of a list of sentences.
fn check_sentences(who: &str, key: &str, texts: &LinedTexts, most: usize) -> Vec<Fault> {
    let mut faults = Vec::new();
    let count = texts.items().count();
    if count > most {
        let why = format!("{who} has {count} texts in `{key}`; the limit is {most}");
        faults.push(Fault::new(texts.line, why));
    }
    for (line, Word(text)) in texts.items() {
        let length = text.chars().count();
        if length > SENTENCE_LIMIT {
            let why = format!(
                "{who} has a text of {length} characters in `{key}`; the limit is {SENTENCE_LIMIT}"
            );
            faults.push(Fault::new(line, why));
        }
    }
    faults
}

/// Returns the role that a task names, if it is valid.
fn role(task: &Lined<TaskEntry>, faults: &mut Vec<Fault>) -> Option<String> {
    let role = &task.value.as_ref()?.role;
    let word = role.value.as_deref()?;
    if let Err(why) = check_word(word, "role") {
        faults.push(Fault::new(role.line, why));
    }
    Some(word.to_owned())
}

/// Returns the labels of the tasks. A task without one gets a placeholder that no plan can refer to, so that reading
/// goes on.
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

/// Returns a task with the indexes of its dependencies, if it is complete.
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
    for fault in check_sentences(&who, "accept", &entry.accept, MOST_CRITERIA) {
        wrong(fault.line, fault.message);
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
            notes: TaskNotes {
                accept: entry.accept.texts(),
                ..TaskNotes::default()
            },
            verify: entry.verify.texts(),
            label: Some(label.to_owned()),
        },
        after,
    })
}

/// Returns a fault for a cycle of dependencies. The store refuses cycles too, but knows neither labels nor lines.
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
