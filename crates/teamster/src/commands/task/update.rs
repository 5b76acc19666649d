//! `teamster task update`

use clap::{Args, ValueEnum};
use teamster_types::transitions::Edit;
use teamster_types::{TaskId, WorkerName};

use super::{answer_task, ids};
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::{AppError, Result};

/// Change a task
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task update 3 --owner worker-2
  teamster task update 5 --blocked-by 1,2 --subject \"Test the login form\"
  teamster task update 5 --clear blocked-by")]
pub struct Update {
    #[command(flatten)]
    team: TeamArg,
    /// The task
    id: String,
    /// A new subject
    #[arg(long)]
    subject: Option<String>,
    /// A new description
    #[arg(long)]
    description: Option<String>,
    /// The worker it is assigned to from now on
    #[arg(long, value_name = "WORKER")]
    owner: Option<String>,
    /// The tasks that must be completed first, instead of the present ones
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    blocked_by: Option<Vec<String>>,
    /// What its worker must be able to do, instead of the present list (repeatable)
    #[arg(long = "capability", value_name = "WORD")]
    capabilities: Option<Vec<String>>,
    /// The files it will change, instead of the present list (repeatable)
    #[arg(long = "path", value_name = "GLOB")]
    paths: Option<Vec<String>>,
    /// Leave this empty from now on (repeatable)
    #[arg(long, value_name = "FIELD")]
    clear: Vec<Field>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Field {
    Owner,
    BlockedBy,
    Capability,
    Path,
}

impl Update {
    pub fn run(self, context: &Context) -> Result {
        let id: TaskId = self.id.parse()?;
        let edit = self.edit()?;
        if edit == Edit::default() {
            return Err(AppError::usage(format!("nothing to change in task {id}"))
                .hint("`teamster task update --help` lists what can be changed"));
        }
        let team = context.team(self.team.team.as_deref())?;
        let store = context.store()?;
        let task = store.update_task(&team, context.actor.name(), &id, &edit)?;
        answer_task(context, &team, task, "changed")
    }

    fn edit(&self) -> Result<Edit> {
        let owner = self.owner.as_deref().map(str::parse::<WorkerName>);
        let mut edit = Edit {
            subject: self.subject.clone(),
            description: self.description.clone(),
            owner: owner.transpose()?.map(Some),
            blocked_by: self.blocked_by.as_deref().map(ids).transpose()?,
            capabilities: self.capabilities.clone(),
            paths: self.paths.clone(),
        };
        for field in &self.clear {
            let both = match field {
                Field::Owner => edit
                    .owner
                    .replace(None)
                    .is_some_and(|owner| owner.is_some()),
                Field::BlockedBy => is_new(edit.blocked_by.replace(Vec::new())),
                Field::Capability => is_new(edit.capabilities.replace(Vec::new())),
                Field::Path => is_new(edit.paths.replace(Vec::new())),
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
