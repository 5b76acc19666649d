//! `teamster task show`

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use teamster_types::TaskId;
use teamster_types::failure::Failure;
use teamster_view::tasks::{self, TaskView};

use super::standing;
use crate::cli::TeamArg;
use crate::commands::agent::BridgeClient;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{line, moment, plain};

/// Show one task as it was written
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster task show 3
  teamster task show 3 --json")]
pub struct Show {
    #[command(flatten)]
    team: TeamArg,
    /// The task
    id: String,
}

impl Show {
    pub fn run(self, context: &Context) -> Result {
        if let Some(bridge) = BridgeClient::find() {
            return bridge.show_task(context, &self.id);
        }
        let id: TaskId = self.id.parse()?;
        let team = context.team(self.team.team.as_deref())?;
        let read = context.read()?;
        let view = tasks::task(read, &team, &id)?;
        let failure = read.failure(&team, &id)?;
        context.out.answer(
            || json!({ "task": view, "failure": failure }),
            || text(&view, failure.as_ref()),
        )
    }
}

/// Everything a person asks about one task. Nothing is redacted: whoever works on it needs it as it was written.
pub(super) fn text(view: &TaskView, failure: Option<&Failure>) -> String {
    let task = view.task();
    let list = |ids: &[TaskId]| {
        let ids: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
        ids.join(", ")
    };
    let at = |key: &str| task.moment(key).map_or_else(String::new, moment);
    let failed = failure.map_or_else(String::new, |failure| {
        format!(
            "{} times, last at {}: {}",
            failure.retry_count,
            moment(failure.last_failed_at),
            failure.last_error
        )
    });
    let result = task
        .ours("result")
        .map_or_else(String::new, ToString::to_string);
    let mut text = format!("task {}: {}\n", task.id(), line(task.subject()));
    let rows = [
        ("state", standing(view)),
        ("owner", task.owner().unwrap_or_default().to_owned()),
        ("blocked by", list(task.blocked_by())),
        ("blocks", list(task.blocks())),
        ("needs", task.capabilities().join(", ")),
        ("paths", task.paths().join(", ")),
        ("proof", list_of_texts(task.ours("verify")).join("; ")),
        ("created", at("createdAt")),
        ("completed", at("completedAt")),
        ("failed", failed),
        ("result", result),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(text, "  {name:<10}  {}", line(value));
    }
    if !task.description().is_empty() {
        let _ = writeln!(text, "\n{}", plain(task.description()));
    }
    text
}

fn list_of_texts(value: Option<&Value>) -> Vec<&str> {
    let list = value.and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
