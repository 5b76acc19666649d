//! Makes tasks of what the run is to do.

use std::path::Path;

use teamster_fs::Dir;
use teamster_journal::EventKind;
use teamster_journal::payload::{self, Check, PlanMade, PlanSource, RunEnd, RunSpec};
use teamster_store::PlannedTask;
use teamster_types::flow::Stage;
use teamster_types::task::Task;

use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::leader_turn::{self, TurnError};
use super::projector::Projector;
use super::verifier::Verifier;
use super::{HostCommand, Result};
use crate::cast::nobody_can;
use crate::plan::Plan;

/// Plans the run: from a file, by a leader, or from the sentence alone.
#[derive(Default)]
pub(super) struct Planner {
    /// The plan that a person is asked about: what they accept is what they were shown.
    proposed: Option<Plan>,
}

impl Planner {
    /// Makes the plan and its tasks, after the checks were run where the work begins.
    pub(super) fn step(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        verifier: &mut Verifier,
        projector: &mut Projector,
    ) -> Result<Vec<HostCommand>> {
        if run.state().stage == Some(Stage::Plan) && run.spec().requirements {
            // What is wanted is written into the findings on the way; the engine has nothing to ask.
            let next = HostCommand::enter(Stage::Requirements, "they were asked for");
            return Ok(vec![next]);
        }
        if !verifier.check_base(run, guard, projector)? {
            return Ok(vec![HostCommand::Wait]);
        }
        let known = run.tasks()?;
        if known.is_empty() {
            let made = self
                .proposed
                .take()
                .map_or_else(|| make_plan(run, guard), Ok);
            let plan = match made {
                Ok(made) => made,
                Err(PlanError::Leader(TurnError::Host(error))) => return Err(error),
                Err(_) if run.must_stop() => return Ok(vec![HostCommand::Wait]),
                Err(why) => {
                    return Ok(vec![HostCommand::finish(RunEnd::Failed, why.to_string())]);
                }
            };
            if let Some(why) = nobody_can(run.spec(), &plan) {
                return Ok(vec![HostCommand::finish(RunEnd::Failed, why)]);
            }
            if run.spec().approve_plan {
                match run.observer().accept_plan(&plan.tasks) {
                    None => {
                        // Whoever reads the plan uses none of the team's time.
                        run.set_waiting(true);
                        self.proposed = Some(plan);
                        return Ok(vec![HostCommand::Wait]);
                    }
                    Some(true) => run.set_waiting(false),
                    Some(false) => {
                        let why = "the plan was not accepted";
                        return Ok(vec![HostCommand::finish(RunEnd::Cancelled, why)]);
                    }
                }
            }
            if run.add_checks(checks_of(&plan))? {
                verifier.check_base(run, guard, projector)?;
            }
            let made = run.import_tasks(&with_merge_note(guard, plan.tasks))?;
            record_plan(run, &made)?;
            if let Some(note) = not_split(run.spec()) {
                run.say(&note);
            }
        } else if run.state().plan.is_none() {
            // A host was killed after it had made them and before it could say so.
            record_plan(run, &known)?;
        }
        Ok(vec![HostCommand::enter(Stage::Execute, "the plan is made")])
    }
}

/// Returns that a sentence is one task although there are several workers, and how to get more tasks.
fn not_split(spec: &RunSpec) -> Option<String> {
    let workers = spec.working_members().len();
    let is_sentence = spec.plan_source() == PlanSource::Sentence;
    let is_one = is_sentence && spec.distribution.is_one() && workers > 1;
    is_one.then(|| {
        format!(
            "one task for {workers} workers, because nobody plans: `--leader AGENT` has it split, `--plan FILE` takes \
             your plan, `--each` gives it to every worker, `--best-of` takes the best of their results"
        )
    })
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
enum PlanError {
    /// The plan that a person gave cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// The leader made none.
    #[error(transparent)]
    Leader(#[from] TurnError),
}

fn make_plan(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
) -> std::result::Result<Plan, PlanError> {
    let spec = run.spec();
    match spec.plan_source() {
        PlanSource::File(file) => read_plan(Path::new(file)).map_err(PlanError::Unusable),
        PlanSource::Leader(_) => Ok(leader_turn::plan(run, guard)?),
        PlanSource::Sentence => Plan::unplanned(spec).map_err(PlanError::Unusable),
    }
}

/// Returns the checks that the plan itself and its single tasks ask for: they are run in the end and on the base.
fn checks_of(plan: &Plan) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for command in &plan.verify {
        checks.push(Check::new(command, "the plan"));
    }
    for (label, planned) in plan.labels.iter().zip(&plan.tasks) {
        for command in &planned.task.verify {
            checks.push(Check::new(command, format!("task {label} of the plan")));
        }
    }
    checks
}

/// Returns tasks with the note that their work is to be merged, where it is.
pub(super) fn with_merge_note(
    guard: &IntegrationGuard,
    mut tasks: Vec<PlannedTask>,
) -> Vec<PlannedTask> {
    if guard.is_active() {
        for planned in &mut tasks {
            planned.task.notes.is_to_be_merged = !planned.task.notes.is_candidate;
        }
    }
    tasks
}

fn record_plan(run: &mut RunContext<'_>, tasks: &[Task]) -> Result<()> {
    let tasks = tasks.iter().map(|task| payload::PlannedTaskEntry {
        id: Some(task.id().clone()),
        label: task.label().unwrap_or_default().to_owned(),
        subject: task.subject().to_owned(),
        owner: task.owner().map(str::to_owned),
        blocked_by: task.blocked_by().iter().map(ToString::to_string).collect(),
    });
    run.journal(EventKind::RunPlan(PlanMade {
        source: run.spec().plan_source().word().to_owned(),
        path: run.spec().plan.clone(),
        tasks: tasks.collect(),
    }))
}

/// Reads the plan's file. Links on the way to a file that the user named are the user's own.
fn read_plan(file: &Path) -> std::result::Result<Plan, String> {
    let missing = || format!("the plan {} is not there any more", file.display());
    let real = file.canonicalize().map_err(|_| missing())?;
    let (Some(folder), Some(name)) = (
        real.parent(),
        real.file_name().and_then(|name| name.to_str()),
    ) else {
        return Err(missing());
    };
    let found = Dir::open_root(folder)
        .and_then(|dir| match dir {
            Some(dir) => dir.read(name),
            None => Ok(None),
        })
        .map_err(|error| error.to_string())?;
    let (bytes, _) = found.ok_or_else(missing)?;
    Plan::parse(file, &bytes).map_err(|faults| faults.to_string())
}
