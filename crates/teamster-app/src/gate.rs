//! Deciding at the gate: a person approves, rejects or revises the work of a run.
//!
//! The decision is the host's. Where one waits at the gate, it is told through the journal and judges the answer. Where
//! none does, [`decide`] takes the host's lock for the caller, who goes on from there, and [`submit`] begins a host in a
//! process of its own. It is the same code either way.

use std::time::{Duration, Instant};

use teamster_journal::payload::{GateAnswer, GateDecided, RunSpec};
use teamster_journal::{EventActor, EventKind, Gate, NewEvent, RunState};
use teamster_run::host::ExclusiveLock;
use teamster_run::observer::GateReply;
use teamster_types::TeamName;

use crate::app::App;
use crate::error::{AppError, ErrorKind, Result};
use crate::runs;
use crate::trust::Unknown;

/// How long a living host may take to judge an answer.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const PAGE: usize = 1_000;

/// What came of a decision.
pub enum DecisionOutcome {
    /// Nobody hosts the run, and its lock is the caller's now, who hosts it with this reply.
    Host {
        /// What the run is to do.
        spec: Box<RunSpec>,
        /// The lock of its host.
        lock: Box<ExclusiveLock>,
        /// The reply for the gate.
        reply: GateReply,
    },
    /// The host of the run has judged it.
    Judged(Judged),
}

/// A decision that the host of a run has carried out, or goes on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The commit that was decided on.
    pub commit: Option<String>,
    /// The word for the decision: `approved`, `rejected` or `to be revised`.
    pub word: &'static str,
    /// The word for the end of the run; `None` when it goes on.
    pub outcome: Option<String>,
}

/// Returns the answer that asks for a change, or refuses one that does not say what to change.
pub fn revise(text: &str) -> Result<GateAnswer> {
    if text.trim().is_empty() {
        return Err(AppError::usage("what is to be changed?"));
    }
    Ok(GateAnswer::Revise {
        text: text.to_owned(),
    })
}

/// Decides at the gate that a team waits at. Whoever can be asked may take what is there; everybody else must name the
/// commit. Waits for the host's judgement where there is a host.
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
        runs::require_trust(app, team, &spec, Unknown::Ask)?;
    }
    if let Some(lock) = runs::lock(app, team)? {
        // Nobody else decides while the lock is ours, but until it was they could.
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
        // Another run works in the project, so nobody would judge the answer.
        return Err(runs::busy());
    }
    // Somebody hosts it: they are told.
    if state.decision.is_none() {
        tell(app, team, &gate, &answer)?;
    }
    wait(app, team, state, seen, &answer).map(DecisionOutcome::Judged)
}

/// Hands a decision to the run without waiting for what comes of it, and returns its place in the journal. Whoever decides
/// has seen this opening of the gate and this commit. Where no host waits, one is begun that judges the answer.
pub fn submit(app: &App, team: &TeamName, seen: (&str, &str), answer: &GateAnswer) -> Result<u64> {
    app.must_be_a_person("deciding at the gate")?;
    let (mut state, seen_up_to) = runs::state_of(app.read()?, team)?;
    let gate = present_gate(team, &state)?;
    if (gate.id.as_str(), gate.commit.as_str()) != seen || state.decision.is_some() {
        return Err(not_what_was_seen());
    }
    let spec = runs::spec_of(app, team)?;
    refuse_rollback_in_place(&spec, answer)?;
    if let GateAnswer::Revise { .. } = answer {
        runs::require_trust(app, team, &spec, Unknown::Refuse)?;
    }
    must_be_first(&state, &gate, answer)?;
    let place = tell(app, team, &gate, answer)?;
    // Of two that came at once the host takes the one that is first in the journal; the other one must not hear that
    // it was taken.
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

/// Checks that the run still waits at the gate that was seen, and that nobody has given another answer there.
fn must_be_open(team: &TeamName, state: &RunState, seen: &Gate, answered: &GateAnswer) -> Result {
    if present_gate(team, state)?.id != seen.id {
        return Err(not_what_was_seen());
    }
    must_be_first(state, seen, answered)
}

fn not_what_was_seen() -> AppError {
    AppError::new(
        ErrorKind::Conflict,
        "the gate is not what it was when you looked",
    )
    .hint("look at it again before you decide")
}

/// An answer counts only if nobody has given another one.
fn must_be_first(state: &RunState, gate: &Gate, answered: &GateAnswer) -> Result {
    let given = state.decision.iter().chain(&state.answers);
    let mut given = given.filter(|given| given.gate == gate.id && given.commit == gate.commit);
    match given.next() {
        Some(first) if first.answer != *answered => Err(was_slower(&first.answer)),
        _ => Ok(()),
    }
}

fn was_slower(first: &GateAnswer) -> AppError {
    let how = match first {
        GateAnswer::Reject { rollback: true, .. } => ", with its work rolled back",
        _ => "",
    };
    AppError::new(
        ErrorKind::Conflict,
        format!("somebody else was faster: it is {}{how}", word(first)),
    )
    .hint("`teamster status` shows what came of it; `teamster run --resume` carries it out, if nobody does")
}

/// Where everybody works in the project's own folder, nothing is there to go back to.
fn refuse_rollback_in_place(spec: &RunSpec, answered: &GateAnswer) -> Result {
    if spec.in_place && matches!(answered, GateAnswer::Reject { rollback: true, .. }) {
        return Err(AppError::refused(
            "the team works in your own folder, so nothing can be rolled back",
        )
        .hint("`teamster reject` without --rollback; what was changed is for you to undo"));
    }
    Ok(())
}

/// Returns the gate that a run is at, whether it waits there (`RunState::open_gate`) or somebody has just decided: the same
/// decision twice is one.
fn present_gate(team: &TeamName, state: &RunState) -> Result<Gate> {
    let none = |why: &str| {
        AppError::new(
            ErrorKind::Conflict,
            format!("team {team} does not wait at the gate: {why}"),
        )
        .hint("`teamster status` shows where it is")
    };
    if state.spec.is_none() {
        return Err(none("it has no run"));
    }
    if let Some(finished) = &state.finished {
        return Err(none(&format!(
            "its run ended, {}",
            finished.end.word().replace('_', " ")
        )));
    }
    match &state.gate {
        Some(gate) => Ok(gate.clone()),
        None => Err(none(&format!(
            "it is at {}",
            state.stage.map_or("its beginning", |stage| stage.as_str())
        ))),
    }
}

/// What is decided on is what was seen: whoever sits at a terminal may take what is there, everybody else must name it.
pub(crate) fn check_commit(app: &App, commit: &str, named: Option<&str>) -> Result {
    match named {
        Some(named) if named.len() >= 7 && commit.starts_with(named) => Ok(()),
        Some(named) => Err(AppError::new(
            ErrorKind::Conflict,
            format!("the gate is open for {commit}, not for {named}"),
        )
        .hint("look at what it is now before you decide")),
        None if app.can_ask() || commit.is_empty() => Ok(()),
        None => Err(AppError::usage("without a terminal --commit SHA is needed")
            .hint(format!("the gate is open for --commit {commit}"))),
    }
}

fn tell(app: &App, team: &TeamName, gate: &Gate, answered: &GateAnswer) -> Result<u64> {
    let via = app.actor.via();
    let answer = GateDecided::new(&gate.id, &gate.commit, via, None, answered);
    let event = NewEvent::new(EventActor::Person, EventKind::ApprovalAnswered(answer));
    Ok(app.store()?.record(team, event)?)
}

/// Waits for the host to judge the answer, and for what comes of it.
fn wait(
    app: &App,
    team: &TeamName,
    mut state: RunState,
    mut seen: u64,
    mine: &GateAnswer,
) -> Result<Judged> {
    let start = Instant::now();
    let word = word(mine);
    let commit = state.gate.as_ref().map(|gate| gate.commit.clone());
    let mut is_decided = state.decision.is_some();
    while start.elapsed() < PATIENCE {
        for event in app.read()?.events(team, seen + 1, PAGE)?.events {
            seen = event.seq;
            // What the run goes on with, or how it ended.
            let (is_over, outcome, why) = match event.payload() {
                EventKind::RunFinished(finished) => (true, Some(finished.outcome), finished.reason),
                EventKind::RunStage(entered) => (true, None, entered.reason),
                EventKind::ApprovalRequested(opened) => {
                    (true, None, opened.refused.unwrap_or_default())
                }
                _ => (false, None, String::new()),
            };
            if is_over && !is_decided {
                return Err(not_what_was_seen());
            }
            state.apply(&event);
            if let Some(decision) = state.decision.as_ref().filter(|_| !is_decided) {
                if decision.answer != *mine {
                    return Err(was_slower(&decision.answer));
                }
                is_decided = true;
            }
            if !is_over {
                continue;
            }
            if word == "approved" && outcome.is_none() {
                return Err(AppError::new(
                    ErrorKind::Conflict,
                    format!("it has not landed: {why}"),
                )
                .hint(format!(
                    "team {team} asks again; `teamster status` shows where it is"
                )));
            }
            return Ok(Judged {
                commit,
                word,
                outcome,
            });
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Err(
        AppError::new(ErrorKind::Failed, "the host of the run does not answer")
            .hint("`teamster status` shows it; what was said is in the journal and will be judged"),
    )
}

/// Returns the word for a decision.
pub(crate) fn word(answer: &GateAnswer) -> &'static str {
    match answer {
        GateAnswer::Approve => "approved",
        GateAnswer::Reject { .. } => "rejected",
        GateAnswer::Revise { .. } => "to be revised",
    }
}
