//! Deciding about the plan of a run before it is carried out.
//!
//! The proposed plan and the answer are in the journal, so the host follows the first answer, wherever it is given: at
//! the run's own terminal, by a command, or on the page.

use std::path::Path;

use teamster_journal::payload::{PlanAnswer, PlanAnswered, RunSpec};
use teamster_journal::{EventActor, EventKind, NewEvent, PlanProposal, RunState};
use teamster_run::plan::read_edited;
use teamster_types::TeamName;
use teamster_types::text::shown_line;

use crate::actor::Actor;
use crate::app::App;
use crate::error::{AppError, ErrorKind, Result};
use crate::runs;

/// The maximum length of a revision request, in characters.
const LONGEST: usize = 10_000;
/// The maximum length of quoted text in a message, in characters.
const SHOWN: usize = 200;

/// A person's answer to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanInput {
    /// The plan is carried out.
    Accept,
    /// The run ends without work, for this reason if there is one.
    Reject(String),
    /// The leader makes another plan; the text says what to change.
    Revise(String),
    /// This text replaces the plan: a plan file in TOML, YAML or JSON. It needs approval in turn.
    Edit(String),
}

/// An answer that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredPlan {
    /// The revision that was answered.
    pub revision: u32,
    /// The answer.
    pub answer: PlanAnswer,
    /// The position of its event.
    pub seq: u64,
    /// Whether a host continues with it. Without one the answer waits until the run is resumed.
    pub is_hosted: bool,
}

/// Returns the plan that the run of a team waits with, and the run's specification; or an error that says where the run
/// is.
pub fn open_plan(app: &App, team: &TeamName) -> Result<(PlanProposal, RunSpec)> {
    let spec = runs::spec_of(app, team)?;
    let (state, _) = runs::state_of(app.read()?, team)?;
    Ok((must_be_open(team, &state)?.clone(), spec))
}

/// Returns the plan that the run of a team waits with, like [`open_plan`], if it is the given revision. A caller that
/// can be asked need not give one.
pub fn open_revision(
    app: &App,
    team: &TeamName,
    revision: Option<u32>,
) -> Result<(PlanProposal, RunSpec)> {
    let (open, spec) = open_plan(app, team)?;
    let present = open.proposed.revision;
    match revision {
        Some(named) if named == present => Ok((open, spec)),
        Some(named) => Err(is_replaced(named, present)),
        None if app.can_ask() => Ok((open, spec)),
        None => Err(AppError::usage("without a terminal --revision N is needed")
            .hint(format!("the plan that waits is --revision {present}"))),
    }
}

/// Answers the plan that a run waits with, for a person. A caller that can be asked may accept the current revision;
/// any other caller must name it. Only the first answer to a revision counts; a late caller gets an error.
pub fn answer_plan(
    app: &App,
    team: &TeamName,
    revision: Option<u32>,
    input: PlanInput,
) -> Result<AnsweredPlan> {
    app.must_be_a_person("deciding about a plan")?;
    let (open, spec) = open_revision(app, team, revision)?;
    let present = open.proposed.revision;
    let answer = answer_of(input, &spec)?;
    let answered = PlanAnswered::new(present, app.actor.via(), answer.clone());
    let event = NewEvent::new(EventActor::Person, EventKind::PlanAnswered(answered));
    let seq = app.store()?.record(team, event)?;
    let (state, _) = runs::state_of(app.read()?, team)?;
    must_count(&state, present, seq)?;
    let is_hosted = match runs::lock(app, team)? {
        // Another run of the project may hold the lock.
        None => runs::is_hosted(app, team)?,
        Some(lock) if app.actor == Actor::Page => {
            // The lock is released for the process that continues the run.
            drop(lock);
            runs::begin_detached(app, team, &[])?;
            true
        }
        Some(_) => false,
    };
    Ok(AnsweredPlan {
        revision: present,
        answer,
        seq,
        is_hosted,
    })
}

/// Returns the answer to record, or refuses one that cannot be carried out.
fn answer_of(input: PlanInput, spec: &RunSpec) -> Result<PlanAnswer> {
    Ok(match input {
        PlanInput::Accept => PlanAnswer::Accept,
        PlanInput::Reject(why) => PlanAnswer::Reject {
            why: check_length(why)?,
        },
        PlanInput::Revise(words) if words.trim().is_empty() => {
            return Err(AppError::usage(
                "a revision needs a text that says what to change",
            ));
        }
        PlanInput::Revise(_) if spec.leading_agent().is_none() => {
            return Err(AppError::refused(
                "no agent leads this run, so no agent can change the plan",
            )
            .hint("edit it yourself: `teamster plan edit`"));
        }
        PlanInput::Revise(words) => PlanAnswer::Revise {
            words: check_length(words)?,
        },
        PlanInput::Edit(text) => {
            // The name has no extension, so the format is detected from the text.
            let plan = read_edited(Path::new("plan"), &text, spec).map_err(|faults| {
                AppError::refused(faults.to_string())
                    .hint("nothing was changed; correct these lines")
            })?;
            PlanAnswer::Edit {
                plan: Box::new(plan),
            }
        }
    })
}

fn check_length(text: String) -> Result<String> {
    let length = text.chars().count();
    if length > LONGEST {
        return Err(AppError::refused(format!(
            "the answer has {length} characters; the limit is {LONGEST}"
        ))
        .hint("put it into a file of the project, and name the file"));
    }
    Ok(text)
}

fn must_be_open<'a>(team: &TeamName, state: &'a RunState) -> Result<&'a PlanProposal> {
    state.open_plan().ok_or_else(|| {
        let why = if state.spec.is_none() {
            "it has no run".to_owned()
        } else if let Some(finished) = &state.finished {
            format!("its run ended, {}", finished.end.words())
        } else if state.plan_questions().next().is_some() {
            "the leader waits for answers to its questions".to_owned()
        } else {
            let at = state.stage.map_or("its beginning", |stage| stage.as_str());
            format!("it is at {at}")
        };
        AppError::new(
            ErrorKind::Conflict,
            format!("team {team} has no plan that waits for a decision: {why}"),
        )
        .hint("`teamster status` shows where it is")
    })
}

fn is_replaced(named: u32, present: u32) -> AppError {
    AppError::new(
        ErrorKind::Conflict,
        format!("revision {named} of the plan is not the current one, which is {present}"),
    )
    .hint("look at it again before you decide: `teamster plan show`")
}

/// Checks that the answer at this position is the one that counts.
fn must_count(state: &RunState, revision: u32, seq: u64) -> Result {
    match state.planning.reply_to(revision) {
        Some(first) if first.seq == seq => Ok(()),
        Some(first) => Err(AppError::new(
            ErrorKind::Conflict,
            format!(
                "another decision came first: the plan is {}{}",
                first.answer.words(),
                match &first.answer {
                    PlanAnswer::Revise { words } => format!(" ({})", shown_line(words, SHOWN)),
                    _ => String::new(),
                }
            ),
        )
        .hint("`teamster status` shows what came of it")),
        None => Err(AppError::new(
            ErrorKind::Conflict,
            "the plan was replaced or carried out meanwhile",
        )
        .hint("`teamster status` shows where it is")),
    }
}
