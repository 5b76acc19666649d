//! `teamster task create`

use clap::Args;
use serde_json::json;
use teamster_app::runs;
use teamster_types::WorkerName;
use teamster_types::task::NewTask;
use teamster_view::tasks::judged;

use super::ids;
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::Result;

/// Make a task; prints its id
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task create --subject \"Fix the login form\"
  teamster task create --subject \"Test it\" --blocked-by 3 --capability testing
  id=$(teamster task create --subject \"Write the notes\" --owner worker-2)")]
pub struct Create {
    #[command(flatten)]
    team: TeamArg,
    /// What to do, in one line of at most 500 characters
    #[arg(long)]
    subject: String,
    /// Everything a worker needs to know, at most 10,000 characters
    #[arg(long, default_value = "", hide_default_value = true)]
    description: String,
    /// How it reads while it is being done [default: the subject]
    #[arg(long, value_name = "TEXT")]
    active_form: Option<String>,
    /// Tasks that must be completed first
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    blocked_by: Vec<String>,
    /// The worker it is assigned to
    #[arg(long, value_name = "WORKER")]
    owner: Option<String>,
    /// Something its worker must be able to do (repeatable)
    #[arg(long = "capability", value_name = "WORD")]
    capabilities: Vec<String>,
    /// Files it will change (repeatable)
    #[arg(long = "path", value_name = "GLOB")]
    paths: Vec<String>,
}

impl Create {
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
        let team = context.team(self.team.team.as_deref())?;
        runs::may_add_tasks(context, &team, 1)?;
        let store = context.store()?;
        let task = store.create_task(&team, context.actor.name(), &new)?;
        let view = judged(store, &team, task);
        // Only the id, so that a script can take it as it is.
        context.out.answer(
            || json!({ "task": view }),
            || view.task().id().as_str().to_owned(),
        )
    }
}
