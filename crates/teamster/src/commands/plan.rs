//! Implements `teamster plan check`, and reads plans for other commands.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use teamster_run::plan::Faults;
use teamster_run::plan::Plan;

use crate::error::{AppError, Result};
use crate::input::read_named;
use crate::output::Output;
use crate::shown::line;
use crate::table::TextTable;

/// A plan is text; nobody writes, and no agent should write, a longer one.
const PLAN_LIMIT: usize = 8 * 1024 * 1024;

/// Look at plans: files with tasks that wait for each other
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan check plan.toml")]
pub struct PlanArgs {
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    Check(PlanCheckArgs),
}

impl PlanArgs {
    pub fn run(self, out: Output) -> Result {
        match self.command {
            PlanCommand::Check(command) => command.run(out),
        }
    }
}

/// Reads a plan for a command that wants all of it or nothing.
pub fn read_plan(file: &Path) -> Result<Plan> {
    let bytes = read_named(file, PLAN_LIMIT)?;
    Plan::parse(file, &bytes).map_err(|faults| {
        let first = faults.list.first().map_or_else(String::new, |fault| {
            format!("{}:{}: {}", faults.file, fault.line, fault.message)
        });
        let more = match faults.list.len() {
            0 | 1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        AppError::refused(format!("{first}{more}")).hint(format!(
            "nothing was made; `teamster plan check {}` shows all that is wrong",
            faults.file
        ))
    })
}

/// Say what is wrong with a plan, all of it, by line; start and change nothing
#[derive(Args, Debug)]
#[command(after_help = "\
A plan is TOML, YAML or JSON: a list `tasks`, each with `id`, `subject` and, if wanted,
`description`, `activeForm`, `blockedBy`, `owner`, `capabilities`, `paths` and `verify`; and
`verify` for all of them together. Exit code 6: something is wrong with it.

Examples:
  teamster plan check plan.toml
  teamster plan check plan.toml --json")]
pub struct PlanCheckArgs {
    /// The plan; `-` is the standard input
    file: PathBuf,
}

impl PlanCheckArgs {
    pub fn run(self, out: Output) -> Result {
        let bytes = read_named(&self.file, PLAN_LIMIT)?;
        let file = self.file.display().to_string();
        match Plan::parse(&self.file, &bytes) {
            Ok(plan) => out.answer(|| good(&file, &plan), || shown(&plan, out.has_colour())),
            Err(faults) => {
                out.answer(|| bad(&faults), || format!("{}\n", line_by_line(&faults)))?;
                let count = faults.list.len();
                let mistakes = if count == 1 { "mistake" } else { "mistakes" };
                Err(
                    AppError::refused(format!("{} has {count} {mistakes}", faults.file))
                        .hint("`teamster plan check --help` says what may stand in a plan"),
                )
            }
        }
    }
}

fn good(file: &str, plan: &Plan) -> Value {
    let label = |place: &usize| plan.labels.get(*place);
    let tasks: Vec<Value> = plan
        .tasks
        .iter()
        .zip(&plan.labels)
        .zip(&plan.lines)
        .map(|((planned, id), at)| {
            let task = &planned.task;
            json!({
                "id": id,
                "line": at,
                "subject": task.subject,
                "description": task.description,
                "activeForm": task.active_form,
                "blockedBy": planned.after.iter().filter_map(label).collect::<Vec<_>>(),
                "owner": task.owner,
                "capabilities": task.capabilities,
                "paths": task.paths,
                "verify": task.verify,
            })
        })
        .collect();
    json!({ "file": file, "ok": true, "tasks": tasks, "verify": plan.verify, "faults": [] })
}

fn bad(faults: &Faults) -> Value {
    let list: Vec<Value> = faults
        .list
        .iter()
        .map(|fault| json!({ "line": fault.line, "message": fault.message }))
        .collect();
    json!({ "file": faults.file, "ok": false, "faults": list })
}

/// A plan may say anything, so what it says cannot be let through to a terminal as it is.
fn line_by_line(faults: &Faults) -> String {
    let lines: Vec<String> = faults
        .list
        .iter()
        .map(|fault| {
            let file = line(&faults.file);
            format!("{file}:{}: {}", fault.line, line(&fault.message))
        })
        .collect();
    lines.join("\n")
}

fn shown(plan: &Plan, colour: bool) -> String {
    let mut table = TextTable::new(["LABEL", "WAITS FOR", "OWNER", "SUBJECT"]);
    for (label, planned) in plan.labels.iter().zip(&plan.tasks) {
        let after: Vec<&str> = planned
            .after
            .iter()
            .filter_map(|place| plan.labels.get(*place))
            .map(String::as_str)
            .collect();
        let owner = planned.task.owner.as_ref();
        table.row([
            line(label).into(),
            line(&after.join(", ")).into(),
            owner.map_or("", |owner| owner.as_str()).into(),
            line(&planned.task.subject).into(),
        ]);
    }
    let mut text = table.render(colour);
    let tasks = if plan.tasks.len() == 1 {
        "task"
    } else {
        "tasks"
    };
    let _ = writeln!(text, "\n{} {tasks}, nothing wrong", plan.tasks.len());
    text
}
