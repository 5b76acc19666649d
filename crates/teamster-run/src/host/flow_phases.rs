//! Moves a run through the phases of its flow.
//!
//! ```text
//! next stage ─▶ is everything there that leaving the phase needs? ─▶ `run.stage` ─▶ `flow.phase` for each phase on the way
//! ```
//!
//! A run of the flow `staged` has stages only. In `party`, a phase can be left only with its findings and finished
//! tickets, and where an agent leads, the phase EXECUTING ends with a turn of the leader. In `pdca`, a check that fails
//! leads to `act`, which decides about another round based on the failure, and from there to the next `plan`.
//!
//! Phases are derived from the stage, so if a host was killed between the two, the next host enters the missing phases.

use teamster_journal::payload::{PhaseEntered, RunEnd};
use teamster_journal::{EventKind, RunState};
use teamster_party::Party;
use teamster_types::flow::{Flow, FlowKind, Stage, StateKind, StepError, Unmet};
use teamster_types::phrase::{Phrase, PhraseCode};

use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::projector::{Projector, is_over};
use super::session::phase_key;
use super::task_progress::hopeless;
use super::waker::wake_for_phase;
use super::{HostCommand, Result, RunError};

/// The phase of the flow `party` in which the team works.
const EXECUTING: &str = "EXECUTING";
/// The phase of the flow `pdca` that begins a round.
const PLAN: &str = "plan";
/// The phase of the flow `pdca` that decides about another round.
const ACT: &str = "act";

/// Whether a run may enter its next stage.
pub(super) enum StageGuard {
    /// The stage may be entered.
    Open,
    /// The leader has made a turn, so the next stage has to be determined again.
    Again,
    /// These commands are applied instead.
    Instead(Vec<HostCommand>),
}

/// Decides whether a stage may be entered: whether all conditions of the flow are met.
pub(super) fn guard_stage(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    projector: &mut Projector,
    stage: Stage,
) -> Result<StageGuard> {
    if run.spec().flow_kind() != FlowKind::Party || run.state().stage.is_none() {
        return Ok(StageGuard::Open);
    }
    if stage == Stage::Verify && run.state().phase() == Some(EXECUTING) {
        let about = phase_key(run.state(), EXECUTING);
        if wake_for_phase(run, guard, EXECUTING, &about)? {
            return Ok(StageGuard::Again);
        }
    }
    for (from, to) in steps(run.state(), FlowKind::Party, stage) {
        if let Some(unmet) = unmet(run, projector, &from, &to)? {
            return refuse(run, &to, &unmet).map(StageGuard::Instead);
        }
    }
    Ok(StageGuard::Open)
}

/// Enters the phases that belong to the stage of the run.
pub(super) fn follow(run: &mut RunContext<'_>, projector: &mut Projector) -> Result<()> {
    let kind = run.spec().flow_kind();
    let Some(stage) = run.state().stage.filter(|_| kind != FlowKind::Staged) else {
        return Ok(());
    };
    if is_over(stage) && run.state().phases.is_empty() {
        // An earlier version has ended the run, and journalled stages only.
        return Ok(());
    }
    for (from, to) in steps(run.state(), kind, stage) {
        // The next phase is never entered without the finding of the one before.
        if kind == FlowKind::Party && unmet(run, projector, &from, &to)?.is_some() {
            return Ok(());
        }
        let before = run.state().phases.last();
        let from = before.map(|entered| entered.phase.clone());
        let round = round(run.state(), kind, &to);
        let reason = reason(run.state(), kind, stage, &to);
        let flow = kind.name().to_owned();
        run.journal(EventKind::FlowPhase(PhaseEntered {
            flow,
            from,
            to,
            round,
            reason,
        }))?;
        if kind == FlowKind::Party {
            projector.project(run);
        }
    }
    Ok(())
}

/// Returns what is missing before a phase of the flow `party` may be left. Before the first phase nothing is required.
fn unmet(
    run: &RunContext<'_>,
    projector: &mut Projector,
    from: &str,
    to: &str,
) -> Result<Option<StepError>> {
    let tasks = run.tasks()?;
    let is_begun = !run.state().phases.is_empty();
    if !is_begun {
        return Ok(None);
    }
    projector
        .session()
        .unmet(run, &tasks, from, to)
        .map_err(|error| {
            RunError::refused(
                format!("the session of the flow party cannot be saved: {error}"),
                "fix .party, and go on with `teamster run --resume TEAM`",
            )
        })
}

/// Returns the commands when a phase cannot be entered: the run ends if its failed tasks are the reason; otherwise a
/// person has to solve the problem.
fn refuse(run: &RunContext<'_>, to: &str, unmet: &StepError) -> Result<Vec<HostCommand>> {
    let tasks = run.tasks()?;
    let hopeless = hopeless(&tasks);
    let open: Vec<&String> = unmet
        .unmet()
        .iter()
        .filter_map(|unmet| match unmet {
            Unmet::Tickets { open } => Some(open),
            _ => None,
        })
        .flatten()
        .collect();
    let tickets = Party::find_for(run.env().project, run.team())
        .and_then(|party| party.map_or_else(|| Ok(Vec::new()), |party| party.tickets()))
        .unwrap_or_default();
    let failed: Vec<String> = tickets
        .iter()
        .filter(|ticket| open.contains(&&ticket.id))
        .filter_map(|ticket| {
            let task = ticket.task()?;
            let is_hopeless = hopeless.iter().any(|id| id.as_str() == task);
            is_hopeless.then(|| format!("{} (task {task})", ticket.id))
        })
        .collect();
    let team = run.team();
    if failed.is_empty() {
        return Err(RunError::refused(
            unmet.to_string(),
            format!("fix it, and go on with `teamster run --resume {team}`"),
        ));
    }
    let open: [(&str, &dyn std::fmt::Display); 3] = [
        ("phase", &to),
        ("tickets", &failed.join(", ")),
        ("team", team),
    ];
    let why = Phrase::new(PhraseCode::TicketsNotDone, open);
    Ok(vec![
        HostCommand::StopWorkers("a ticket of the flow is not done"),
        HostCommand::finish(RunEnd::TasksFailed, why),
    ])
}

/// Returns the phases that belong to a stage, in order; the run stays in the last one.
fn phases_of(run: &RunState, kind: FlowKind, stage: Stage) -> Vec<&'static str> {
    match (kind, stage) {
        (FlowKind::Staged, _) => Vec::new(),
        // The analysis ends when there is a plan, and the planning ends when the plan is carried out.
        (FlowKind::Party, Stage::Plan) if !is_planned(run) => vec!["ANALYZING"],
        (FlowKind::Party, Stage::Plan | Stage::Requirements) => vec!["ANALYZING", "PLANNING"],
        (FlowKind::Party, stage) => stage.party().to_vec(),
        (FlowKind::Pdca, Stage::Plan) if !is_planned(run) => vec![PLAN],
        (FlowKind::Pdca, Stage::Plan | Stage::Requirements) => vec!["design"],
        (FlowKind::Pdca, Stage::Execute) => vec!["do"],
        (FlowKind::Pdca, Stage::Verify | Stage::Approval) => vec!["check"],
        (FlowKind::Pdca, Stage::Fix | Stage::Revise) => vec![ACT, PLAN, "design", "do"],
        (FlowKind::Pdca, Stage::End(_)) => vec![ACT, "end"],
    }
}

/// Returns whether there is a plan, even if it is only proposed.
fn is_planned(run: &RunState) -> bool {
    run.plan.is_some() || run.planning.last().is_some()
}

/// Returns the steps from the present phase to those that belong to a stage.
fn steps(run: &RunState, kind: FlowKind, stage: Stage) -> Vec<(String, String)> {
    let Some(flow) = Flow::builtin(kind.name()) else {
        return Vec::new();
    };
    let mut wanted = phases_of(run, kind, stage);
    let entered = run.phases.last().map(|entered| entered.phase.as_str());
    let Some(last) = wanted.last().copied().filter(|last| Some(*last) != entered) else {
        return Vec::new();
    };
    // A host may have been killed between two phases.
    if let Some(place) = wanted.iter().position(|phase| Some(*phase) == entered) {
        wanted.drain(..=place);
    }
    let mut path: Vec<String> = Vec::new();
    let mut at = match entered.map(|entered| (entered, flow.kind(entered))) {
        // A run that is resumed after its end starts its flow again, and quickly returns to the phase where it was.
        Some((_, None | Some(StateKind::Final))) | None => {
            if flow.kind(&flow.initial) != Some(StateKind::Idle) {
                path.push(flow.initial.clone());
            }
            if entered.is_some() {
                wanted = vec![last];
            }
            flow.initial.clone()
        }
        Some((entered, Some(StateKind::Cancelled))) => {
            wanted = vec![last];
            entered.to_owned()
        }
        Some((entered, _)) => entered.to_owned(),
    };
    // From most phases a round can only be ended.
    if kind == FlowKind::Pdca && matches!(stage, Stage::End(_)) && at != "check" {
        wanted.retain(|phase| *phase != ACT);
    }
    for next in wanted {
        if at == next {
            continue;
        }
        match flow.path(&at, next) {
            Some(way) => path.extend(way),
            // The flow has no step to that phase, such as FAILED: the run was given up.
            None => path.push(next.to_owned()),
        }
        next.clone_into(&mut at);
    }
    let first = entered.unwrap_or(&flow.initial).to_owned();
    let before = std::iter::once(first).chain(path.iter().cloned());
    let steps: Vec<(String, String)> = before.zip(path.iter().cloned()).collect();
    steps
}

/// Returns the number of the round that a phase belongs to.
fn round(run: &RunState, kind: FlowKind, phase: &str) -> u32 {
    let begins = match kind {
        FlowKind::Party => EXECUTING,
        FlowKind::Staged | FlowKind::Pdca => PLAN,
    };
    let entered = run.phases.iter().map(|entered| entered.phase.as_str());
    let begun = entered.chain([phase]).filter(|phase| *phase == begins);
    u32::try_from(begun.count()).unwrap_or(u32::MAX).max(1)
}

/// Returns why a phase is entered.
fn reason(run: &RunState, kind: FlowKind, stage: Stage, phase: &str) -> String {
    let why = run.stages.last().map_or("", |entered| &entered.reason);
    let most = run.spec.as_ref().map_or(0, |spec| spec.max_fix);
    let is_again = matches!(stage, Stage::Fix | Stage::Revise);
    match (kind, phase, stage) {
        (FlowKind::Pdca, ACT, Stage::Fix) => {
            format!("another round, {} of {most} for fixing: {why}", run.round)
        }
        (FlowKind::Pdca, ACT, Stage::Revise) => format!("another round, as a person asks: {why}"),
        (FlowKind::Pdca, ACT, _) => format!("no other round: {why}"),
        (FlowKind::Pdca, PLAN, _) if is_again => "the tasks of the round are made".to_owned(),
        (FlowKind::Pdca, "design", _) if is_again => "they say what is to change".to_owned(),
        _ => why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use teamster_journal::payload::{PhaseEntered, RunSpec};
    use teamster_journal::{EventActor, NewEvent};
    use teamster_types::Time;
    use teamster_types::flow::Outcome;

    use super::*;

    /// Returns a run of a flow that was in these phases.
    fn after(kind: FlowKind, phases: &str) -> RunState {
        let mut state = RunState::default();
        state.spec = Some(RunSpec {
            flow: kind.name().to_owned(),
            ..RunSpec::default()
        });
        for (seq, phase) in (1..).zip(phases.split_whitespace()) {
            let entered = EventKind::FlowPhase(PhaseEntered {
                to: phase.to_owned(),
                ..PhaseEntered::default()
            });
            let event = NewEvent::new(EventActor::Lead, entered);
            let at = Time::from_millis(0);
            state.apply(&event.placed(seq, String::new(), at, "t".into()));
        }
        state
    }

    fn way(kind: FlowKind, phases: &str, stage: Stage) -> String {
        let steps = steps(&after(kind, phases), kind, stage);
        let names: Vec<&str> = steps.iter().map(|(_, to)| to.as_str()).collect();
        names.join(" ")
    }

    #[test]
    fn each_stage_leads_to_its_phases_from_wherever_the_run_is() {
        use FlowKind::{Party, Pdca, Staged};
        use Stage::{Approval, End, Execute, Fix, Plan, Requirements, Revise, Verify};
        for (kind, before, stage, expected) in [
            (Staged, "", Execute, ""),
            (Party, "", Plan, "ANALYZING"),
            (Party, "ANALYZING", Plan, ""),
            (Party, "ANALYZING", Requirements, "PLANNING"),
            (Party, "ANALYZING", Execute, "PLANNING EXECUTING"),
            (Party, "EXECUTING", Verify, "REVIEWING"),
            (Party, "REVIEWING", Fix, "EXECUTING"),
            (Party, "EXECUTING", Fix, ""),
            (Party, "REVIEWING", Approval, "AWAITING_APPROVAL"),
            (Party, "AWAITING_APPROVAL", Revise, "REVISION EXECUTING"),
            (Party, "REVISION", Revise, "EXECUTING"),
            (
                Party,
                "AWAITING_APPROVAL",
                End(Outcome::Complete),
                "APPROVED DONE",
            ),
            (Party, "APPROVED", End(Outcome::Complete), "DONE"),
            (Party, "EXECUTING", End(Outcome::Failed), "FAILED"),
            (Party, "EXECUTING", End(Outcome::Cancelled), "CANCELLED"),
            (Party, "CANCELLED", Execute, "IDLE PLANNING EXECUTING"),
            (Party, "FAILED", Execute, "PLANNING EXECUTING"),
            (Pdca, "", Plan, "plan"),
            (Pdca, "plan", Execute, "design do"),
            (Pdca, "do", Verify, "check"),
            (Pdca, "check", Approval, ""),
            (Pdca, "check", Execute, "do"),
            (Pdca, "check", Fix, "act plan design do"),
            (Pdca, "act plan", Fix, "design do"),
            (Pdca, "act plan design do", Fix, ""),
            (Pdca, "check", Revise, "act plan design do"),
            (Pdca, "check", End(Outcome::Complete), "act end"),
            (Pdca, "do", End(Outcome::Cancelled), "end"),
            (Pdca, "end", Fix, "plan design do"),
        ] {
            assert_eq!(way(kind, before, stage), expected, "{before} to {stage}");
        }
    }

    #[test]
    fn rounds_are_counted_from_one() {
        let state = after(FlowKind::Pdca, "plan design do check act");
        assert_eq!(round(&state, FlowKind::Pdca, "end"), 1);
        assert_eq!(round(&state, FlowKind::Pdca, "plan"), 2);
        let state = after(FlowKind::Party, "ANALYZING PLANNING");
        assert_eq!(round(&state, FlowKind::Party, "EXECUTING"), 1);
        assert_eq!(round(&state, FlowKind::Party, "PLANNING"), 1);
    }
}
