//! `teamster approve`, `teamster reject`, `teamster revise`: a person's answer at the gate.
//!
//! The decision is the host's. Where one waits at the gate, it is told through the journal and judges the answer; where
//! none does, this process takes the host's seat and goes on from there. It is the same code either way.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use teamster_journal::payload::{GateAnswer, GateDecided, RunSpec};
use teamster_journal::{EventKind, Gate, NewEvent, RunState};
use teamster_run::observer::GateReply;
use teamster_store::Read;
use teamster_types::TeamName;
use teamster_types::flow::Stage;

use super::run;
use crate::cli::TeamArg;
use crate::context::Context;
use crate::error::{CommandError, ErrorKind, Result};
use crate::trust::{self, Unknown};

/// How long a living host may take to judge an answer.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const PAGE: usize = 1_000;

/// Which gate is meant.
#[derive(Args, Debug)]
struct At {
    /// The commit that is decided on; needed without a terminal
    #[arg(long, value_name = "SHA")]
    commit: Option<String>,
    #[command(flatten)]
    team: TeamArg,
}

/// Take the work of a run that waits at the gate: it lands on your branch
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster approve   # in a terminal
  teamster approve --team fix-login --commit 1a2b3c4d   # exits 3")]
pub struct Approve {
    #[command(flatten)]
    at: At,
}

/// Do not take the work of a run that waits at the gate
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster reject \"too slow\"   # in a terminal
  teamster reject --rollback --team fix-login --commit 1a2b3c4d   # exits 3")]
pub struct Reject {
    /// Why not
    #[arg(value_name = "WHY", default_value = "", hide_default_value = true)]
    why: String,
    /// Take the team's branch away; its commits stay under refs/teamster
    #[arg(long)]
    rollback: bool,
    #[command(flatten)]
    at: At,
}

/// Have the work of a run that waits at the gate changed first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster revise \"name it total, not sum\"   # in a terminal
  teamster revise \"add a test\" --team fix-login --commit 1a2b3c4d   # exits 3")]
pub struct Revise {
    /// What to change
    #[arg(value_name = "WHAT")]
    what: String,
    #[command(flatten)]
    at: At,
}

impl Approve {
    pub fn run(self, context: &Context) -> Result {
        answer(context, &self.at, GateAnswer::Approve)
    }
}

impl Reject {
    pub fn run(self, context: &Context) -> Result {
        let answered = GateAnswer::Reject {
            rollback: self.rollback,
            text: self.why.clone(),
        };
        answer(context, &self.at, answered)
    }
}

impl Revise {
    pub fn run(self, context: &Context) -> Result {
        if self.what.trim().is_empty() {
            return Err(CommandError::usage("what is to be changed?"));
        }
        let answered = GateAnswer::Revise {
            text: self.what.clone(),
        };
        answer(context, &self.at, answered)
    }
}

fn answer(context: &Context, at: &At, answered: GateAnswer) -> Result {
    trust::must_be_a_person(context, "deciding at the gate")?;
    let team = context.team(at.team.team.as_deref())?;
    let (story, seen) = read(context.read()?, &team)?;
    let gate = open_gate(&team, &story)?;
    check_commit(context, &gate, at.commit.as_deref())?;
    let order = run::order_of(context, &team)?;
    refuse_rollback_in_place(&order, &answered)?;
    must_be_open(&team, &story, &gate, &answered)?;
    if let GateAnswer::Revise { .. } = &answered {
        run::require_trust(context, &team, &order, Unknown::Ask)?;
    }
    if let Some(seat) = run::seat(context, &team)? {
        // Nobody else decides while the seat is ours, but until it was they could.
        let (story, _) = read(context.read()?, &team)?;
        must_be_open(&team, &story, &gate, &answered)?;
        let said = GateReply {
            answer: answered,
            via: "terminal",
            gate: Some(gate.id),
        };
        return run::host_seated(context, &team, order, seat, Some(said));
    }
    // Somebody hosts it: they are told.
    if story.decision.is_none() {
        tell(context, &team, &gate, &answered, "terminal")?;
    }
    wait(context, &team, story, seen, &answered)
}

/// An answer that is not given at a terminal. Whoever gives it has seen this opening of the gate and this commit. Where
/// no host waits, one is begun that judges the answer. Its place in the journal.
pub fn from_elsewhere(
    context: &Context,
    team: &TeamName,
    seen: (&str, &str),
    answered: &GateAnswer,
    via: &str,
) -> Result<u64> {
    trust::must_be_a_person(context, "deciding at the gate")?;
    let (mut story, seen_up_to) = read(context.read()?, team)?;
    let gate = open_gate(team, &story)?;
    if (gate.id.as_str(), gate.commit.as_str()) != seen || story.decision.is_some() {
        return Err(not_what_was_seen());
    }
    let order = run::order_of(context, team)?;
    refuse_rollback_in_place(&order, answered)?;
    if let GateAnswer::Revise { .. } = answered {
        run::require_trust(context, team, &order, Unknown::Refuse)?;
    }
    must_be_first(&story, &gate, answered)?;
    let place = tell(context, team, &gate, answered, via)?;
    // Of two that came at once the host takes the one that is first in the journal; the other one must not hear that
    // it was taken.
    for event in context.read()?.events(team, seen_up_to + 1, PAGE)?.events {
        if event.seq < place {
            story.apply(&event);
        }
    }
    must_be_first(&story, &gate, answered)?;
    if run::seat(context, team)?.is_some() {
        run::begin_detached(context, team, &[])?;
    }
    Ok(place)
}

/// Checks that the run still waits at the gate that was seen, and that nobody has given another answer there.
fn must_be_open(team: &TeamName, story: &RunState, seen: &Gate, answered: &GateAnswer) -> Result {
    if open_gate(team, story)?.id != seen.id {
        return Err(not_what_was_seen());
    }
    must_be_first(story, seen, answered)
}

fn not_what_was_seen() -> CommandError {
    CommandError::new(
        ErrorKind::Conflict,
        "the gate is not what it was when you looked",
    )
    .hint("look at it again before you decide")
}

/// An answer counts only if nobody has given another one.
fn must_be_first(story: &RunState, gate: &Gate, answered: &GateAnswer) -> Result {
    let given = story.decision.iter().chain(&story.answers);
    let mut given = given.filter(|given| given.gate == gate.id && given.commit == gate.commit);
    match given.next() {
        Some(first) if first.answer != *answered => Err(was_slower(&first.answer)),
        _ => Ok(()),
    }
}

fn was_slower(first: &GateAnswer) -> CommandError {
    let how = match first {
        GateAnswer::Reject { rollback: true, .. } => ", with its work rolled back",
        _ => "",
    };
    CommandError::new(
        ErrorKind::Conflict,
        format!("somebody else was faster: it is {}{how}", word(first)),
    )
    .hint("`teamster status` shows what came of it; `teamster run --resume` carries it out, if nobody does")
}

/// Where everybody works in the project's own folder, nothing is there to go back to.
fn refuse_rollback_in_place(order: &RunSpec, answered: &GateAnswer) -> Result {
    if order.in_place && matches!(answered, GateAnswer::Reject { rollback: true, .. }) {
        return Err(CommandError::refused(
            "the team works in your own folder, so nothing can be rolled back",
        )
        .hint("`teamster reject` without --rollback; what was changed is for you to undo"));
    }
    Ok(())
}

/// Whether a run that is taken up goes on working. At the gate it waits for a person or does what they decided, and that
/// must be possible without trust when it is to reject the work.
pub fn goes_on(context: &Context, team: &TeamName) -> Result<bool> {
    let (story, _) = read(context.read()?, team)?;
    let is_over = story
        .finished
        .as_ref()
        .is_some_and(|end| !end.is_resumable());
    Ok(!is_over && story.stage != Some(Stage::Approval))
}

/// Where the run is, by its journal.
pub(super) fn read(from: &dyn Read, team: &TeamName) -> Result<(RunState, u64)> {
    let mut told = RunState::default();
    let mut seen = 0;
    loop {
        let page = from.events(team, seen + 1, PAGE)?;
        for event in &page.events {
            seen = event.seq;
            told.apply(event);
        }
        if page.events.len() < PAGE {
            return Ok((told, seen));
        }
    }
}

/// The gate that a run waits at.
fn open_gate(team: &TeamName, story: &RunState) -> Result<Gate> {
    let none = |why: &str| {
        CommandError::new(
            ErrorKind::Conflict,
            format!("team {team} does not wait at the gate: {why}"),
        )
        .hint("`teamster status` shows where it is")
    };
    if story.spec.is_none() {
        return Err(none("it has no run"));
    }
    if let Some(finished) = &story.finished {
        return Err(none(&format!(
            "its run ended, {}",
            finished.end.word().replace('_', " ")
        )));
    }
    match &story.gate {
        Some(gate) => Ok(gate.clone()),
        None => Err(none(&format!(
            "it is at {}",
            story.stage.map_or("its beginning", |stage| stage.as_str())
        ))),
    }
}

/// What is decided on is what was seen: whoever sits at a terminal may take what is there, everybody else must name it.
fn check_commit(context: &Context, gate: &Gate, named: Option<&str>) -> Result {
    match named {
        Some(named) if named.len() >= 7 && gate.commit.starts_with(named) => Ok(()),
        Some(named) => Err(CommandError::new(
            ErrorKind::Conflict,
            format!("the gate is open for {}, not for {named}", gate.commit),
        )
        .hint("look at what it is now before you decide")),
        None if trust::is_terminal(context) || gate.commit.is_empty() => Ok(()),
        None => Err(
            CommandError::usage("without a terminal --commit SHA is needed")
                .hint(format!("the gate is open for --commit {}", gate.commit)),
        ),
    }
}

fn tell(
    context: &Context,
    team: &TeamName,
    gate: &Gate,
    answered: &GateAnswer,
    via: &str,
) -> Result<u64> {
    let answer = GateDecided::new(&gate.id, &gate.commit, via, None, answered);
    let event = NewEvent::new("user", EventKind::ApprovalAnswered(answer));
    Ok(context.store()?.record(team, event)?)
}

/// Waits for the host to judge the answer, and for what comes of it.
fn wait(
    context: &Context,
    team: &TeamName,
    mut story: RunState,
    mut seen: u64,
    mine: &GateAnswer,
) -> Result {
    let start = Instant::now();
    let word = word(mine);
    let commit = story.gate.as_ref().map(|gate| gate.commit.clone());
    let mut is_decided = story.decision.is_some();
    while start.elapsed() < PATIENCE {
        for event in context.read()?.events(team, seen + 1, PAGE)?.events {
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
            story.apply(&event);
            if let Some(decision) = story.decision.as_ref().filter(|_| !is_decided) {
                if decision.answer != *mine {
                    return Err(was_slower(&decision.answer));
                }
                is_decided = true;
            }
            if !is_over {
                continue;
            }
            if word == "approved" && outcome.is_none() {
                return Err(CommandError::new(
                    ErrorKind::Conflict,
                    format!("it has not landed: {why}"),
                )
                .hint(format!(
                    "team {team} asks again; `teamster status` shows where it is"
                )));
            }
            return context.out.answer(
                || json!({ "team": team, "commit": commit, "decision": word, "outcome": outcome }),
                || match &outcome {
                    Some(outcome) => format!("{word}: {}\n", outcome.replace('_', " ")),
                    None => format!("{word}; the host of {team} goes on with it\n"),
                },
            );
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Err(
        CommandError::new(ErrorKind::Failed, "the host of the run does not answer")
            .hint("`teamster status` shows it; what was said is in the journal and will be judged"),
    )
}

fn word(answer: &GateAnswer) -> &'static str {
    match answer {
        GateAnswer::Approve => "approved",
        GateAnswer::Reject { .. } => "rejected",
        GateAnswer::Revise { .. } => "to be revised",
    }
}
