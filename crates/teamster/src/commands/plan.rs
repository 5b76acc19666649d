//! Implements `teamster plan`: checks plan files, and decides about a run's pending plan.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use teamster_app::plans::{self, AnsweredPlan, PlanInput};
use teamster_run::plan::{EDITED_FILE, Faults, Plan, edited_document, proposal_text, read_edited};
use teamster_types::TeamName;

use crate::cli::TeamSelector;
use crate::context::Context;
use crate::editor::PlanEditor;
use crate::error::{AppError, Result};
use crate::input::{confirm, read_named};
use crate::output::Output;
use crate::shown::{display_text, plain_line};
use crate::table::TextTable;

/// The size limit for a plan file.
const PLAN_LIMIT: usize = 8 * 1024 * 1024;

/// Check plan files and decide on a plan that awaits your approval
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan check plan.toml
  teamster plan show --team fix-login   # exits 3
  teamster plan accept --team fix-login --revision 1   # exits 3")]
pub struct PlanArgs {
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    Check(PlanCheckArgs),
    Show(PlanShowArgs),
    Accept(PlanAcceptArgs),
    Edit(PlanEditArgs),
    Revise(PlanReviseArgs),
    Reject(PlanRejectArgs),
}

impl PlanArgs {
    pub fn run(self, out: Output) -> Result {
        match self.command {
            PlanCommand::Check(command) => command.run(out),
            PlanCommand::Show(command) => command.run(&Context::find(out)?),
            PlanCommand::Accept(command) => decide(out, &command.plan, PlanInput::Accept),
            PlanCommand::Edit(command) => command.run(out),
            PlanCommand::Revise(command) => {
                decide(out, &command.plan, PlanInput::Revise(command.what))
            }
            PlanCommand::Reject(command) => {
                decide(out, &command.plan, PlanInput::Reject(command.why))
            }
        }
    }
}

/// Which plan is meant.
#[derive(Args, Debug)]
struct PlanSelector {
    /// The revision to decide on; required without a terminal
    #[arg(long, value_name = "N")]
    revision: Option<u32>,
    #[command(flatten)]
    team: TeamSelector,
}

/// Show the plan that awaits approval: tasks, dependencies and the leader's notes
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan show --team fix-login   # exits 3
  teamster plan show --team fix-login --toml   # exits 3")]
struct PlanShowArgs {
    /// Print the plan as a file for `plan edit`
    #[arg(long)]
    toml: bool,
    #[command(flatten)]
    team: TeamSelector,
}

/// Accept the plan that awaits approval and carry it out
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan accept   # in a terminal
  teamster plan accept --team fix-login --revision 2   # exits 3")]
struct PlanAcceptArgs {
    #[command(flatten)]
    plan: PlanSelector,
}

/// Edit the plan that awaits approval, or replace it with a file, as a new revision
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan edit   # in a terminal
  teamster plan edit my-plan.toml --team fix-login --revision 1   # exits 3")]
struct PlanEditArgs {
    /// The new plan in TOML, YAML or JSON; `-` is the standard input [default: open your editor]
    file: Option<PathBuf>,
    #[command(flatten)]
    plan: PlanSelector,
}

/// Ask the leader to change the plan that awaits approval
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan revise \"leave the manual out\"   # in a terminal
  teamster plan revise \"one task is enough\" --team fix-login --revision 1   # exits 3")]
struct PlanReviseArgs {
    /// What to change
    #[arg(value_name = "WHAT")]
    what: String,
    #[command(flatten)]
    plan: PlanSelector,
}

/// Reject the plan that awaits approval and end the run, which can be resumed
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan reject \"not now\"   # in a terminal
  teamster plan reject --team fix-login --revision 1   # exits 3")]
struct PlanRejectArgs {
    /// The reason
    #[arg(value_name = "WHY", default_value = "", hide_default_value = true)]
    why: String,
    #[command(flatten)]
    plan: PlanSelector,
}

impl PlanShowArgs {
    fn run(self, context: &Context) -> Result {
        let team = self.team.find(context)?;
        let (open, spec) = plans::open_plan(context, &team)?;
        let proposed = &open.proposed;
        if self.toml {
            let text = edited_document(proposed, &spec).map_err(AppError::refused)?;
            return context
                .out
                .answer(|| json!({ "team": team, "toml": text }), || text.clone());
        }
        context.out.answer(
            || {
                json!({
                    "team": team,
                    "revision": proposed.revision,
                    "by": proposed.by,
                    "plan": proposed.plan,
                    "leftOut": proposed.left_out,
                    "problem": proposed.problem,
                })
            },
            || {
                let text = display_text(&proposal_text(proposed, &spec));
                let at = format!("--team {team} --revision {}", proposed.revision);
                format!(
                    "{text}\n`teamster plan accept {at}` carries it out; or `teamster plan edit`, `revise TEXT`, `reject`\n"
                )
            },
        )
    }
}

/// Returns the team whose plan is decided about.
fn team_of(context: &Context, plan: &PlanSelector) -> Result<TeamName> {
    context.must_be_a_person("deciding about a plan")?;
    plan.team.find(context)
}

/// Answers the plan that a run waits with, and reports the consequence.
fn decide(out: Output, plan: &PlanSelector, input: PlanInput) -> Result {
    let context = Context::find(out)?;
    let team = team_of(&context, plan)?;
    let answered = plans::answer_plan(&context, &team, plan.revision, input)?;
    report(out, &team, &answered)
}

/// Reports the consequence of an answer.
fn report(out: Output, team: &TeamName, answered: &AnsweredPlan) -> Result {
    let (revision, word) = (answered.revision, answered.answer.words());
    let hosted = answered.is_hosted;
    out.answer(
        || {
            json!({
                "team": team, "revision": revision, "decision": answered.answer.decision(), "hosted": hosted,
            })
        },
        || {
            let next = if hosted {
                format!("the host of {team} continues")
            } else {
                format!("no process hosts the run; resume: `teamster run --resume {team}`")
            };
            format!("revision {revision} of the plan is {word}; {next}\n")
        },
    )
}

impl PlanEditArgs {
    fn run(self, out: Output) -> Result {
        let context = Context::find(out)?;
        let team = team_of(&context, &self.plan)?;
        let answered = match &self.file {
            Some(file) => {
                let bytes = read_named(file, PLAN_LIMIT)?;
                let text = String::from_utf8(bytes).map_err(|_| {
                    AppError::refused(format!("{} is not valid UTF-8", file.display()))
                })?;
                plans::answer_plan(&context, &team, self.plan.revision, PlanInput::Edit(text))?
            }
            None => edit(&context, &team, self.plan.revision)?,
        };
        report(out, &team, &answered)
    }
}

/// Answers the plan with the version that the user makes in their editor. Only the revision that was opened there is
/// answered; a version that is refused stays in its file.
fn edit(context: &Context, team: &TeamName, revision: Option<u32>) -> Result<AnsweredPlan> {
    let (open, spec) = plans::open_revision(context, team, revision)?;
    if !context.can_ask() {
        return Err(AppError::usage("FILE is required without a terminal")
            .hint("`teamster plan show --toml` prints the plan in that format"));
    }
    let before = edited_document(&open.proposed, &spec).map_err(AppError::refused)?;
    let mut editor = PlanEditor::open(&before).map_err(AppError::refused)?;
    let text = loop {
        let text = editor.wait().map_err(AppError::refused)?;
        if text == before {
            return Err(AppError::refused("nothing was changed"));
        }
        let Err(faults) = read_edited(Path::new(EDITED_FILE), &text, &spec) else {
            break text;
        };
        if !confirm(&line_by_line(&faults), "Edit it again? [y/N] ") {
            return Err(AppError::refused("the edited plan was discarded"));
        }
        editor.reopen().map_err(AppError::refused)?;
    };
    let seen = Some(open.proposed.revision);
    plans::answer_plan(context, team, seen, PlanInput::Edit(text)).map_err(|error| {
        let file = editor.keep();
        error.hint(format!(
            "what you edited is kept in {}; `teamster plan show` shows the current plan",
            file.display()
        ))
    })
}

/// Reads a plan for a command that needs it without faults.
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
            "nothing was created; `teamster plan check {}` shows all mistakes",
            faults.file
        ))
    })
}

/// Report every mistake in a plan by line, without starting or changing anything
#[derive(Args, Debug)]
#[command(after_help = "\
A plan is TOML, YAML or JSON: a list `tasks`, each with `id`, `subject` and, optionally,
`description`, `activeForm`, `blockedBy`, `owner`, `role`, `capabilities`, `paths`, `accept`
and `verify`; and for the plan as a whole `verify`, `must_pass`, `analysis`, `assumptions`,
`risks` and `questions`. Exit code 6: the plan has mistakes.

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
            Ok(plan) => out.answer(
                || plan_json(&file, &plan),
                || plan_text(&plan, out.has_colour()),
            ),
            Err(faults) => {
                out.answer(
                    || faults_json(&faults),
                    || format!("{}\n", line_by_line(&faults)),
                )?;
                let count = faults.list.len();
                let mistakes = if count == 1 { "mistake" } else { "mistakes" };
                Err(
                    AppError::refused(format!("{} has {count} {mistakes}", faults.file))
                        .hint("`teamster plan check --help` describes the format of a plan"),
                )
            }
        }
    }
}

fn plan_json(file: &str, plan: &Plan) -> Value {
    let label = |place: &usize| plan.labels.get(*place);
    let tasks: Vec<Value> = plan
        .tasks
        .iter()
        .zip(&plan.labels)
        .zip(&plan.lines)
        .zip(&plan.roles)
        .map(|(((planned, id), at), role)| {
            let task = &planned.task;
            json!({
                "id": id,
                "line": at,
                "subject": task.subject,
                "description": task.description,
                "activeForm": task.active_form,
                "blockedBy": planned.after.iter().filter_map(label).collect::<Vec<_>>(),
                "owner": task.owner,
                "role": role,
                "capabilities": task.capabilities,
                "paths": task.paths,
                "accept": task.notes.accept,
                "verify": task.verify,
            })
        })
        .collect();
    json!({
        "file": file,
        "ok": true,
        "tasks": tasks,
        "verify": plan.verify,
        "mustPass": plan.must_pass,
        "analysis": plan.analysis,
        "assumptions": plan.assumptions,
        "risks": plan.risks,
        "questions": plan.questions,
        "faults": [],
    })
}

fn faults_json(faults: &Faults) -> Value {
    let list: Vec<Value> = faults
        .list
        .iter()
        .map(|fault| json!({ "line": fault.line, "message": fault.message }))
        .collect();
    json!({ "file": faults.file, "ok": false, "faults": list })
}

/// Formats the faults one per line. A plan may contain anything, so its texts are cleaned for the terminal.
fn line_by_line(faults: &Faults) -> String {
    let lines: Vec<String> = faults
        .list
        .iter()
        .map(|fault| {
            let file = plain_line(&faults.file);
            format!("{file}:{}: {}", fault.line, plain_line(&fault.message))
        })
        .collect();
    lines.join("\n")
}

fn plan_text(plan: &Plan, colour: bool) -> String {
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
            plain_line(label).into(),
            plain_line(&after.join(", ")).into(),
            owner.map_or("", |owner| owner.as_str()).into(),
            plain_line(&planned.task.subject).into(),
        ]);
    }
    let mut text = table.render(colour);
    let tasks = if plan.tasks.len() == 1 {
        "task"
    } else {
        "tasks"
    };
    let _ = writeln!(text, "\n{} {tasks}, no mistakes", plan.tasks.len());
    text
}
