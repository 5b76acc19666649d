//! The state of a run, without reading the whole journal.

use serde::Serialize;
use teamster_journal::payload::RunFinished;
use teamster_journal::{Event, EventKind, EventType, RunState, family};
use teamster_store::{ReadStore, Result};
use teamster_types::TeamName;

/// A phase of the flow that a run follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseNow {
    /// The flow: `party` or `pdca`.
    pub flow: String,
    /// The phase, as the flow calls it.
    pub phase: String,
    /// The round, counted from 1.
    pub round: u32,
}

/// The current state of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunNow {
    /// Its current stage; `None` if there is no run.
    pub stage: Option<String>,
    /// The phase of its flow; `None` when the flow has only stages.
    pub phase: Option<PhaseNow>,
    /// Whether the run waits for a person's decision.
    pub awaits_approval: bool,
    /// How it ended; `None` until it has finished.
    pub finished: Option<RunFinished>,
}

impl RunNow {
    /// Returns whether the run has finished.
    pub fn is_finished(&self) -> bool {
        self.finished.is_some()
    }
}

/// How far back a journal is searched for the state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalReach {
    /// To its beginning, which takes time in a long journal.
    Whole,
    /// Only the most recent events.
    Recent,
}

impl JournalReach {
    /// Returns the state of a team's run.
    pub fn run(self, read: &dyn ReadStore, team: &TeamName) -> Result<RunNow> {
        match self {
            Self::Whole => run_now(read, team),
            Self::Recent => run_lately(read, team),
        }
    }
}

/// The number of recent events in which a fast lookup searches for a run.
const LATELY: usize = 200;
/// The kinds of events that determine the state of a run: its last event, its last stage and phase, the last opening of
/// its gate, and the last event at the gate.
const ASKED: [&[&str]; 5] = [
    &[family::RUN],
    &[EventType::RunStarted.name(), EventType::RunStage.name()],
    &[EventType::RunStarted.name(), EventType::FlowPhase.name()],
    &[
        EventType::ApprovalRequested.name(),
        EventType::RunStarted.name(),
    ],
    &[
        family::APPROVAL,
        EventType::RunStarted.name(),
        EventType::RunFinished.name(),
    ],
];

/// Returns the state of a team's run, reading the journal from its end. The result equals that of a projection of the
/// whole journal. A run without recent events is searched for far back, which takes time in a long journal.
pub fn run_now(read: &dyn ReadStore, team: &TeamName) -> Result<RunNow> {
    let found = read.last_of_each(team, &ASKED)?;
    Ok(run_now_from(found.into_iter().flatten().collect()))
}

/// Returns the state of a team's run from the most recent events alone, which is fast. Earlier events are not
/// considered.
pub fn run_lately(read: &dyn ReadStore, team: &TeamName) -> Result<RunNow> {
    let events = read.last_events(team, LATELY)?.events;
    let last = |kinds: &[&str]| {
        let fits = |event: &&Event| kinds.iter().any(|kind| event.kind.starts_with(kind));
        events.iter().rfind(fits).cloned()
    };
    Ok(run_now_from(
        ASKED.map(last).into_iter().flatten().collect(),
    ))
}

/// Derives the state from the relevant events.
fn run_now_from(mut events: Vec<Event>) -> RunNow {
    events.sort_by_key(|event| event.seq);
    events.dedup_by_key(|event| event.seq);
    let mut run = RunState::default();
    for event in &events {
        run.apply(event);
    }
    let last = events
        .iter()
        .rfind(|event| event.kind.starts_with(family::RUN));
    let entered = events.iter().rev().find_map(|event| match event.payload() {
        EventKind::FlowPhase(entered) => Some(entered),
        _ => None,
    });
    RunNow {
        phase: entered.map(|entered| PhaseNow {
            flow: entered.flow,
            phase: entered.to,
            round: entered.round,
        }),
        stage: run.last_stage().map(|stage| stage.as_str().to_owned()),
        awaits_approval: run.open_gate().is_some(),
        finished: last.and_then(|event| match event.payload() {
            EventKind::RunFinished(finished) => Some(finished),
            _ => None,
        }),
    }
}
