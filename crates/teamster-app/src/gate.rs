//! Deciding at the gate: a person approves, rejects or revises the work of a run.
//!
//! The host validates the decision. If one waits at the gate, it receives the answer through the journal. If there is
//! none, [`decide`] takes the host's lock for the caller, which then hosts the run, and [`submit`] starts a host in a
//! separate process. The same code runs either way.

use std::time::{Duration, Instant};

use teamster_journal::payload::{GateAnswer, GateDecided, RunSpec};
use teamster_journal::{EventActor, EventKind, Gate, NewEvent, RunState};
use teamster_run::host::ExclusiveLock;
use teamster_run::observer::GateReply;
use teamster_types::TeamName;

use crate::app::App;
use crate::error::{AppError, ErrorKind, Result};
use crate::runs;
use crate::trust::UntrustedPolicy;

/// How long a running host may take to validate an answer.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const PAGE: usize = 1_000;

/// The result of a decision.
pub enum DecisionOutcome {
    /// The run has no host, so the caller now holds its lock and must host it with this reply.
    Host {
        /// The specification of the run.
        spec: Box<RunSpec>,
        /// The lock of its host.
        lock: Box<ExclusiveLock>,
        /// The reply for the gate.
        reply: GateReply,
    },
    /// The host of the run has validated it.
    Applied(AppliedDecision),
}

/// A decision that the host of a run has carried out, or is carrying out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedDecision {
    /// The commit that was decided about.
    pub commit: Option<String>,
    /// The decision, as text: `approved`, `rejected` or `to be revised`.
    pub word: &'static str,
    /// The outcome of the run; `None` when it continues.
    pub outcome: Option<String>,
}

/// Returns the answer that requests a revision, or refuses one without a description of the changes.
pub fn revise(text: &str) -> Result<GateAnswer> {
    if text.trim().is_empty() {
        return Err(AppError::usage(
            "a revision needs a text that says what to change",
        ));
    }
    Ok(GateAnswer::Revise {
        text: text.to_owned(),
    })
}

/// Decides at the gate that a team waits at. A caller that can be asked may accept the current commit; any other caller
/// must name the commit. Waits for the host's validation if there is a host.
pub fn decide(
    app: &App,
    team: &TeamName,
    commit: Option<&str>,
    answer: GateAnswer,
) -> Result<DecisionOutcome> {
    app.must_be_a_person("deciding at the gate")?;
    let (state, seen) = runs::state_of(app.read()?, team)?;
    let gate = present_gate(team, &state)?;
    check_commit(app, &gate.commit, commit)?;
    let spec = runs::spec_of(app, team)?;
    refuse_rollback_in_place(&spec, &answer)?;
    must_be_open(team, &state, &gate, &answer)?;
    if let GateAnswer::Revise { .. } = &answer {
        runs::require_trust(app, team, &spec, UntrustedPolicy::Ask)?;
    }
    if let Some(lock) = runs::lock(app, team)? {
        // The lock excludes other decisions from now on, but not those made before it was taken.
        let (state, _) = runs::state_of(app.read()?, team)?;
        must_be_open(team, &state, &gate, &answer)?;
        let reply = GateReply {
            answer,
            via: app.actor.via(),
            gate: Some(gate.id),
        };
        return Ok(DecisionOutcome::Host {
            spec: Box::new(spec),
            lock: Box::new(lock),
            reply,
        });
    }
    if !runs::is_hosted(app, team)? {
        // Another run works in the project, so no host would validate the answer.
        return Err(runs::busy());
    }
    // The run has a host, which receives the answer.
    if state.decision.is_none() {
        record_answer(app, team, &gate, &answer)?;
    }
    wait(app, team, state, seen, &answer).map(DecisionOutcome::Applied)
}

/// Submits a decision to the run without waiting for the result, and returns its position in the journal. `seen` is the
/// opening of the gate and the commit that the caller was shown. If no host waits, one is started to validate the
/// answer.
pub fn submit(app: &App, team: &TeamName, seen: (&str, &str), answer: &GateAnswer) -> Result<u64> {
    app.must_be_a_person("deciding at the gate")?;
    let (mut state, seen_up_to) = runs::state_of(app.read()?, team)?;
    let gate = present_gate(team, &state)?;
    if (gate.id.as_str(), gate.commit.as_str()) != seen || state.decision.is_some() {
        return Err(gate_has_changed());
    }
    let spec = runs::spec_of(app, team)?;
    refuse_rollback_in_place(&spec, answer)?;
    if let GateAnswer::Revise { .. } = answer {
        runs::require_trust(app, team, &spec, UntrustedPolicy::Refuse)?;
    }
    must_be_first(&state, &gate, answer)?;
    let place = record_answer(app, team, &gate, answer)?;
    // Of two concurrent answers the host accepts the first in the journal; the other caller must not be told that its
    // answer was accepted.
    for event in app.read()?.events(team, seen_up_to + 1, PAGE)?.events {
        if event.seq < place {
            state.apply(&event);
        }
    }
    must_be_first(&state, &gate, answer)?;
    if runs::lock(app, team)?.is_some() {
        runs::begin_detached(app, team, &[])?;
    }
    Ok(place)
}

/// Checks that the run still waits at the gate that was shown, and that it has no different answer.
fn must_be_open(team: &TeamName, state: &RunState, seen: &Gate, answered: &GateAnswer) -> Result {
    if present_gate(team, state)?.id != seen.id {
        return Err(gate_has_changed());
    }
    must_be_first(state, seen, answered)
}

fn gate_has_changed() -> AppError {
    AppError::new(
        ErrorKind::Conflict,
        "the work at the gate has changed since you looked",
    )
    .hint("look at it again before you decide")
}

/// Checks that no different answer has been given.
fn must_be_first(state: &RunState, gate: &Gate, answered: &GateAnswer) -> Result {
    let answers = state.answers.iter().map(|(_, answer)| answer);
    let given = state.decision.iter().chain(answers);
    let mut given = given.filter(|given| given.gate == gate.id && given.commit == gate.commit);
    match given.next() {
        Some(first) if first.answer != *answered => Err(already_answered(&first.answer)),
        _ => Ok(()),
    }
}

fn already_answered(first: &GateAnswer) -> AppError {
    let how = match first {
        GateAnswer::Reject { rollback: true, .. } => ", with its work rolled back",
        _ => "",
    };
    AppError::new(
        ErrorKind::Conflict,
        format!("another decision came first: it is {}{how}", word(first)),
    )
    .hint("`teamster status` shows the result; `teamster run --resume` carries it out if no process does")
}

/// Refuses a rollback if all workers work in the project's own folder: there is no earlier state to return to.
fn refuse_rollback_in_place(spec: &RunSpec, answered: &GateAnswer) -> Result {
    if spec.in_place && matches!(answered, GateAnswer::Reject { rollback: true, .. }) {
        return Err(AppError::refused(
            "the team works in your own folder, so nothing can be rolled back",
        )
        .hint("use `teamster reject` without --rollback, and undo the changes yourself"));
    }
    Ok(())
}

/// Returns the gate of a run, whether it waits there (`RunState::open_gate`) or was just decided, so that repeating the
/// same decision succeeds.
fn present_gate(team: &TeamName, state: &RunState) -> Result<Gate> {
    let none = |why: &str| {
        AppError::new(
            ErrorKind::Conflict,
            format!("team {team} is not waiting at the gate: {why}"),
        )
        .hint("`teamster status` shows where it is")
    };
    if state.spec.is_none() {
        return Err(none("it has no run"));
    }
    if let Some(finished) = &state.finished {
        return Err(none(&format!("its run ended, {}", finished.end.words())));
    }
    match &state.gate {
        Some(gate) => Ok(gate.clone()),
        None => Err(none(&format!(
            "it is at {}",
            state.stage.map_or("its beginning", |stage| stage.as_str())
        ))),
    }
}

/// Checks that the decision is about the commit that was seen: a person at a terminal may accept the current one; any
/// other caller must name it.
pub(crate) fn check_commit(app: &App, commit: &str, named: Option<&str>) -> Result {
    match named {
        Some(named) if named.len() >= 7 && commit.starts_with(named) => Ok(()),
        Some(named) => Err(AppError::new(
            ErrorKind::Conflict,
            format!("the gate is open for {commit}, not for {named}"),
        )
        .hint("look at that commit before you decide")),
        None if app.can_ask() || commit.is_empty() => Ok(()),
        None => Err(AppError::usage("without a terminal --commit SHA is needed")
            .hint(format!("the gate is open for --commit {commit}"))),
    }
}

fn record_answer(app: &App, team: &TeamName, gate: &Gate, answered: &GateAnswer) -> Result<u64> {
    let via = app.actor.via();
    let answer = GateDecided::new(&gate.id, &gate.commit, via, None, answered);
    let event = NewEvent::new(EventActor::Person, EventKind::ApprovalAnswered(answer));
    Ok(app.store()?.record(team, event)?)
}

/// Waits for the host to validate the answer, and for the result.
fn wait(
    app: &App,
    team: &TeamName,
    mut state: RunState,
    mut seen: u64,
    mine: &GateAnswer,
) -> Result<AppliedDecision> {
    let start = Instant::now();
    let word = word(mine);
    let commit = state.gate.as_ref().map(|gate| gate.commit.clone());
    let mut is_decided = state.decision.is_some();
    while start.elapsed() < PATIENCE {
        for event in app.read()?.events(team, seen + 1, PAGE)?.events {
            seen = event.seq;
            // How the run continues, or how it ended.
            let (is_over, outcome, why) = match event.payload() {
                EventKind::RunFinished(finished) => (true, Some(finished.outcome), finished.reason),
                EventKind::RunStage(entered) => (true, None, entered.reason),
                EventKind::ApprovalRequested(opened) => {
                    (true, None, opened.refused.unwrap_or_default())
                }
                _ => (false, None, String::new()),
            };
            if is_over && !is_decided {
                return Err(gate_has_changed());
            }
            state.apply(&event);
            if let Some(decision) = state.decision.as_ref().filter(|_| !is_decided) {
                if decision.answer != *mine {
                    return Err(already_answered(&decision.answer));
                }
                is_decided = true;
            }
            if !is_over {
                continue;
            }
            if *mine == GateAnswer::Approve && outcome.is_none() {
                return Err(AppError::new(
                    ErrorKind::Conflict,
                    format!("it has not landed: {why}"),
                )
                .hint(format!(
                    "team {team} asks again; `teamster status` shows where it is"
                )));
            }
            return Ok(AppliedDecision {
                commit,
                word,
                outcome,
            });
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Err(
        AppError::new(ErrorKind::Failed, "the host of the run does not answer")
            .hint("your decision is in the journal and the host will process it; `teamster status` shows the run"),
    )
}

/// Returns the decision as text.
pub(crate) fn word(answer: &GateAnswer) -> &'static str {
    match answer {
        GateAnswer::Approve => "approved",
        GateAnswer::Reject { .. } => "rejected",
        GateAnswer::Revise { .. } => "to be revised",
    }
}
