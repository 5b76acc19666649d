//! `teamster task import`

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, json};
use teamster_app::runs;
use teamster_types::json::Object;
use teamster_view::tasks::{TaskView, judged};

use crate::cli::TeamArg;
use crate::commands::plan::read_plan;
use crate::context::Context;
use crate::error::Result;
use crate::shown::line;
use crate::table::Table;

/// Make all tasks of a plan, or none
#[derive(Args, Debug)]
#[command(after_help = "\
A plan is TOML, YAML or JSON: a list `tasks`, each with `id`, `subject` and, if wanted,
`description`, `blockedBy`, `owner`, `capabilities`, `paths` and `verify`. Its ids are labels;
tasks get numbers in the order of the plan. `teamster plan check` says what is wrong with one.

Examples:
  teamster task import plan.toml
  teamster task import plan.toml --json")]
pub struct Import {
    #[command(flatten)]
    team: TeamArg,
    /// The plan; `-` is the standard input
    file: PathBuf,
}

impl Import {
    pub fn run(self, context: &Context) -> Result {
        let plan = read_plan(&self.file)?;
        let team = context.team(self.team.team.as_deref())?;
        runs::may_add_tasks(context, &team, plan.tasks.len())?;
        let store = context.store()?;
        let made = store.import_tasks(&team, context.actor.name(), &plan.tasks)?;
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
                let mut table = Table::new(["ID", "LABEL", "SUBJECT"]);
                for (label, view) in plan.labels.iter().zip(&views) {
                    table.row([
                        view.task().id().as_str().into(),
                        line(label).into(),
                        line(view.task().subject()).into(),
                    ]);
                }
                table.render(context.out.has_colour())
            },
        )
    }
}
