//! Every key of a plan: the one table from which the reader and the schema are made.

use teamster_types::task::{DESCRIPTION_LIMIT, SUBJECT_LIMIT};

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// What the plan calls a task.
    Label,
    /// A text of at most so many characters.
    Text(Option<usize>),
    /// The name of a worker.
    Worker,
    /// A list of texts.
    Texts,
    /// A list of labels.
    Labels,
    /// The tasks themselves.
    Tasks,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanField {
    pub(super) name: &'static str,
    pub(super) holds: Holds,
    pub(super) is_needed: bool,
    pub(super) about: &'static str,
}

const fn field(
    name: &'static str,
    holds: Holds,
    is_needed: bool,
    about: &'static str,
) -> PlanField {
    PlanField {
        name,
        holds,
        is_needed,
        about,
    }
}

/// The keys of a plan.
pub(super) const PLAN: [PlanField; 2] = [
    field(
        "tasks",
        Holds::Tasks,
        true,
        "The tasks, in the order in which they get their numbers.",
    ),
    field(
        "verify",
        Holds::Texts,
        false,
        "Shell commands that must succeed when all tasks are merged.",
    ),
];

/// The keys of a task.
pub(super) const TASK: [PlanField; 9] = [
    field(
        "id",
        Holds::Label,
        true,
        "A label for this plan only; every task has its own.",
    ),
    field(
        "subject",
        Holds::Text(Some(SUBJECT_LIMIT)),
        true,
        "What is to be done, in one line.",
    ),
    field(
        "description",
        Holds::Text(Some(DESCRIPTION_LIMIT)),
        false,
        "All that the worker needs to know.",
    ),
    field(
        "activeForm",
        Holds::Text(None),
        false,
        "What is shown while it is being done.",
    ),
    field(
        "blockedBy",
        Holds::Labels,
        false,
        "Labels of the tasks that must be done before. No task may wait for itself, by whatever way.",
    ),
    field(
        "owner",
        Holds::Worker,
        false,
        "The worker who gets it; without one, whoever suits.",
    ),
    field(
        "capabilities",
        Holds::Texts,
        false,
        "What its worker should be good at, such as testing.",
    ),
    field(
        "paths",
        Holds::Texts,
        false,
        "Globs of the files it may change; tasks whose globs overlap do not run at the same time.",
    ),
    field(
        "verify",
        Holds::Texts,
        false,
        "Shell commands that must succeed for this task.",
    ),
];

/// The names of such keys.
pub(super) fn names(fields: &[PlanField]) -> Vec<&'static str> {
    fields.iter().map(|field| field.name).collect()
}
