//! `teamster state-file add`

use clap::Args;
use teamster_claude::state::{Model, Op, TeammateRow};

use super::apply;
use super::init::model;
use crate::context::Context;
use crate::error::Result;
use crate::shown::viewed_line;

/// Show a teammate as spawning; one of the same name is replaced
#[derive(Args, Debug)]
#[command(after_help = "\
At most ten are shown. When all ten are taken, the oldest that is completed or failed gives way.
Exit code 6: all ten are active. Exit code 3: this project has no state.

Examples:
  teamster state-file add worker-1 --role developer --model opus
  teamster state-file add worker-2 --task \"Fix the login form\" --task-id 3")]
pub struct Add {
    /// Its name
    name: String,
    /// What it is for
    #[arg(long, value_name = "ROLE", default_value = "agent")]
    role: String,
    /// Its model: opus, sonnet or haiku
    #[arg(long, value_name = "MODEL", default_value = "sonnet", value_parser = model)]
    model: Model,
    /// What it works on
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// The task's id
    #[arg(long, value_name = "ID")]
    task_id: Option<String>,
}

impl Add {
    pub fn run(self, context: &Context) -> Result {
        let name = viewed_line(&self.name);
        let row = TeammateRow {
            name: self.name,
            role: self.role,
            model: self.model,
            task: self.task,
            task_id: self.task_id,
        };
        apply(context, "", Op::Add(row), |_| format!("{name} is spawning"))
    }
}
