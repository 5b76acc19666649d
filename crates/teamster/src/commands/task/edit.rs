//! Implements the commands that create and change tasks: `teamster task create`, `import`, `update`, `retry`, `answer`
//! and `delete`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Map, json};
use teamster_app::{questions, runs};
use teamster_types::WorkerName;
use teamster_types::json::Object;
use teamster_types::task::NewTask;
use teamster_types::transitions::TaskEdit;
use teamster_view::tasks::{TaskView, judged};

use super::{TaskSelector, answer_task, ids};
use crate::cli::TeamSelector;
use crate::commands::plan::read_plan;
use crate::context::Context;
use crate::error::{AppError, Result};
use crate::shown::plain_line;
use crate::table::TextTable;

/// Create a task and print its id
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task create --subject \"Fix the login form\"
  teamster task create --subject \"Test it\" --blocked-by 3 --capability testing
  id=$(teamster task create --subject \"Write the notes\" --owner worker-2)")]
pub struct TaskCreateArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// The work in one line, at most 500 characters
    #[arg(long)]
    subject: String,
    /// Everything a worker needs to know, at most 10,000 characters
    #[arg(long, default_value = "", hide_default_value = true)]
    description: String,
    /// Text shown while it is in progress [default: the subject]
    #[arg(long, value_name = "TEXT")]
    active_form: Option<String>,
    /// Tasks that must be completed first
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    blocked_by: Vec<String>,
    /// The worker it is assigned to
    #[arg(long, value_name = "WORKER")]
    owner: Option<String>,
    /// A capability its worker must have (repeatable)
    #[arg(long = "capability", value_name = "WORD")]
    capabilities: Vec<String>,
    /// Files it will change (repeatable)
    #[arg(long = "path", value_name = "GLOB")]
    paths: Vec<String>,
}

impl TaskCreateArgs {
    pub fn run(self, context: &Context) -> Result {
        let owner = self.owner.as_deref().map(str::parse::<WorkerName>);
        let new = NewTask {
            blocked_by: ids(&self.blocked_by)?,
            owner: owner.transpose()?,
            subject: self.subject,
            description: self.description,
            active_form: self.active_form,
            capabilities: self.capabilities,
            paths: self.paths,
            verify: Vec::new(),
            notes: teamster_types::task::TaskNotes::default(),
            label: None,
        };
        let team = self.team.find(context)?;
        runs::may_add_tasks(context, &team, 1)?;
        let store = context.store()?;
        let task = store.create_task(&team, &context.actor.recorded_as(), &new)?;
        let view = judged(store, &team, task);
        // Print only the id, so that a script can use it directly.
        context.out.answer(
            || json!({ "task": view }),
            || view.task().id().as_str().to_owned(),
        )
    }
}

/// Create all tasks of a plan, or none
#[derive(Args, Debug)]
#[command(after_help = "\
A plan is TOML, YAML or JSON: a list `tasks`, each with `id`, `subject` and, optionally,
`description`, `blockedBy`, `owner`, `capabilities`, `paths` and `verify`. Its ids are labels;
tasks are numbered in the order of the plan. `teamster plan check` reports mistakes.

Examples:
  teamster task import plan.toml
  teamster task import plan.toml --json")]
pub struct TaskImportArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// The plan; `-` is the standard input
    file: PathBuf,
}

impl TaskImportArgs {
    pub fn run(self, context: &Context) -> Result {
        let mut plan = read_plan(&self.file)?;
        let team = self.team.find(context)?;
        runs::assign_roles(context, &team, &mut plan)?;
        runs::may_add_tasks(context, &team, plan.tasks.len())?;
        let store = context.store()?;
        let made = store.import_tasks(&team, &context.actor.recorded_as(), &plan.tasks)?;
        let views: Vec<TaskView> = made
            .into_iter()
            .map(|task| judged(store, &team, task))
            .collect();
        context.out.answer(
            || {
                let pairs = plan.labels.iter().zip(&views);
                let ids: Object = pairs
                    .map(|(label, view)| (label.clone(), json!(view.task().id())))
                    .collect::<Map<_, _>>();
                json!({ "tasks": views, "ids": ids })
            },
            || {
                let mut table = TextTable::new(["ID", "LABEL", "SUBJECT"]);
                for (label, view) in plan.labels.iter().zip(&views) {
                    table.row([
                        view.task().id().as_str().into(),
                        plain_line(label).into(),
                        plain_line(view.task().subject()).into(),
                    ]);
                }
                table.render(context.out.has_colour())
            },
        )
    }
}

/// Change a task
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task update 3 --owner worker-2
  teamster task update 5 --blocked-by 1,2 --subject \"Test the login form\"
  teamster task update 5 --clear blocked-by")]
pub struct TaskUpdateArgs {
    #[command(flatten)]
    task: TaskSelector,
    /// A new subject
    #[arg(long)]
    subject: Option<String>,
    /// A new description
    #[arg(long)]
    description: Option<String>,
    /// The worker to assign it to
    #[arg(long, value_name = "WORKER")]
    owner: Option<String>,
    /// Replace the tasks that must be completed first
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    blocked_by: Option<Vec<String>>,
    /// Replace the capabilities its worker must have (repeatable)
    #[arg(long = "capability", value_name = "WORD")]
    capabilities: Option<Vec<String>>,
    /// Replace the files it will change (repeatable)
    #[arg(long = "path", value_name = "GLOB")]
    paths: Option<Vec<String>>,
    /// Clear this field (repeatable)
    #[arg(long, value_name = "FIELD")]
    clear: Vec<ClearableField>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClearableField {
    Owner,
    BlockedBy,
    Capability,
    Path,
}

impl TaskUpdateArgs {
    pub fn run(self, context: &Context) -> Result {
        let (team, id) = self.task.find(context)?;
        let edit = self.edit()?;
        if edit == TaskEdit::default() {
            return Err(AppError::usage(format!("nothing to change in task {id}"))
                .hint("`teamster task update --help` lists what can be changed"));
        }
        runs::may_change_task(context, &team, &id, &edit)?;
        let actor = &context.actor.recorded_as();
        let task = context.store()?.update_task(&team, actor, &id, &edit)?;
        answer_task(context, &team, task, "changed")
    }

    fn edit(&self) -> Result<TaskEdit> {
        let owner = self.owner.as_deref().map(str::parse::<WorkerName>);
        let mut edit = TaskEdit {
            subject: self.subject.clone(),
            description: self.description.clone(),
            owner: owner.transpose()?.map(Some),
            blocked_by: self.blocked_by.as_deref().map(ids).transpose()?,
            capabilities: self.capabilities.clone(),
            paths: self.paths.clone(),
        };
        for field in &self.clear {
            let both = match field {
                ClearableField::Owner => edit
                    .owner
                    .replace(None)
                    .is_some_and(|owner| owner.is_some()),
                ClearableField::BlockedBy => is_new(edit.blocked_by.replace(Vec::new())),
                ClearableField::Capability => is_new(edit.capabilities.replace(Vec::new())),
                ClearableField::Path => is_new(edit.paths.replace(Vec::new())),
            };
            if both {
                return Err(AppError::usage("the same field is set and cleared")
                    .hint("leave one of the two out"));
            }
        }
        Ok(edit)
    }
}

fn is_new<T>(list: Option<Vec<T>>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}

/// Reset a failed task so that it can be claimed again
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task retry 4")]
pub struct TaskRetryArgs {
    #[command(flatten)]
    task: TaskSelector,
}

impl TaskRetryArgs {
    pub fn run(self, context: &Context) -> Result {
        let (team, id) = self.task.find(context)?;
        runs::may_add_tasks(context, &team, 1)?;
        let task = context
            .store()?
            .retry(&team, &context.actor.recorded_as(), &id)?;
        answer_task(context, &team, task, "reset")
    }
}

/// Answer a task that is waiting for your input
#[derive(Args, Debug)]
#[command(after_help = "\
The task can be claimed again, and the worker that claims it receives your answer.

Examples:
  teamster task answer 2 \"Use port 8080\"   # exits 4")]
pub struct TaskAnswerArgs {
    #[command(flatten)]
    task: TaskSelector,
    /// Your answer
    text: String,
}

impl TaskAnswerArgs {
    pub fn run(self, context: &Context) -> Result {
        let (team, id) = self.task.find(context)?;
        let task = questions::answer_block(context, &team, &id, &self.text)?;
        answer_task(context, &team, task, "answered")
    }
}

/// Delete an unclaimed task and drop it from the dependencies of others
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task delete 5
  teamster task delete 2   # exits 4")]
pub struct TaskDeleteArgs {
    #[command(flatten)]
    task: TaskSelector,
}

impl TaskDeleteArgs {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("removing a task")?;
        let (team, id) = self.task.find(context)?;
        let actor = &context.actor.recorded_as();
        let task = context.store()?.delete_task(&team, actor, &id)?;
        answer_task(context, &team, task, "removed")
    }
}
