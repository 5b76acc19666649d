//! Implements `teamster plan`: checks plan files, and decides about the plan that a run waits with.

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
use crate::input::{read_named, says_yes};
use crate::output::Output;
use crate::shown::{line, viewed};
use crate::table::TextTable;

/// A plan is text; nobody writes, and no agent should write, a longer one.
const PLAN_LIMIT: usize = 8 * 1024 * 1024;

/// Check plan files, and decide about the plan that a run waits with
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
    /// The revision that you looked at; needed without a terminal
    #[arg(long, value_name = "N")]
    revision: Option<u32>,
    #[command(flatten)]
    team: TeamSelector,
}

/// Show the plan that a run waits with: its tasks, who waits for whom, and what the leader says about it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan show --team fix-login   # exits 3
  teamster plan show --team fix-login --toml   # exits 3")]
struct PlanShowArgs {
    /// Print the plan as the file that `plan edit` takes
    #[arg(long)]
    toml: bool,
    #[command(flatten)]
    team: TeamSelector,
}

/// Let the plan that a run waits with be carried out
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan accept   # in a terminal
  teamster plan accept --team fix-login --revision 2   # exits 3")]
struct PlanAcceptArgs {
    #[command(flatten)]
    plan: PlanSelector,
}

/// Change the plan that a run waits with, in your editor or by a file; the new plan is asked about in turn
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan edit   # in a terminal
  teamster plan edit my-plan.toml --team fix-login --revision 1   # exits 3")]
struct PlanEditArgs {
    /// The plan that takes its place, in TOML, YAML or JSON; `-` is the standard input [default: your editor]
    file: Option<PathBuf>,
    #[command(flatten)]
    plan: PlanSelector,
}

/// Have the leader change the plan that a run waits with
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

/// Reject the plan that a run waits with; the run ends, and can be taken up again
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster plan reject \"not now\"   # in a terminal
  teamster plan reject --team fix-login --revision 1   # exits 3")]
struct PlanRejectArgs {
    /// Why not
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
                let text = viewed(&proposal_text(proposed, &spec));
                let at = format!("--team {team} --revision {}", proposed.revision);
                format!(
                    "{text}\n`teamster plan accept {at}` carries it out; or `teamster plan edit`, `revise TEXT`, `reject`\n"
                )
            },
        )
    }
}

/// Returns the team whose plan a person decides about.
fn team_of(context: &Context, plan: &PlanSelector) -> Result<TeamName> {
    context.must_be_a_person("deciding about a plan")?;
    plan.team.find(context)
}

/// Answers the plan that a run waits with, and says what comes of it.
fn decide(out: Output, plan: &PlanSelector, input: PlanInput) -> Result {
    let context = Context::find(out)?;
    let team = team_of(&context, plan)?;
    let answered = plans::answer_plan(&context, &team, plan.revision, input)?;
    report(out, &team, &answered)
}

/// Says what comes of an answer.
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
                format!("the host of {team} goes on with it")
            } else {
                format!("nobody hosts the run: `teamster run --resume {team}` goes on with it")
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
                let text = String::from_utf8(bytes)
                    .map_err(|_| AppError::refused(format!("{} is no UTF-8", file.display())))?;
                plans::answer_plan(&context, &team, self.plan.revision, PlanInput::Edit(text))?
            }
            None => edit(&context, &team, self.plan.revision)?,
        };
        report(out, &team, &answered)
    }
}

/// Answers the plan with what the person makes of it in their editor. The revision that they saw there is answered and no
/// other; what is refused stays in its file.
fn edit(context: &Context, team: &TeamName, revision: Option<u32>) -> Result<AnsweredPlan> {
    let (open, spec) = plans::open_revision(context, team, revision)?;
    if !context.can_ask() {
        return Err(AppError::usage("without a terminal a FILE is needed")
            .hint("`teamster plan show --toml` prints the plan as such a file"));
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
        if !says_yes(&line_by_line(&faults), "Edit it again? [y/N] ") {
            return Err(AppError::refused("the edited plan was given up"));
        }
        editor.reopen().map_err(AppError::refused)?;
    };
    let seen = Some(open.proposed.revision);
    plans::answer_plan(context, team, seen, PlanInput::Edit(text)).map_err(|error| {
        let file = editor.keep();
        error.hint(format!(
            "what you edited is kept in {}; `teamster plan show` shows the present plan",
            file.display()
        ))
    })
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
`description`, `activeForm`, `blockedBy`, `owner`, `role`, `capabilities`, `paths`, `accept`
and `verify`; and for all of them together `verify`, `must_pass`, `analysis`, `assumptions`,
`risks` and `questions`. Exit code 6: something is wrong with it.

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
