//! Whoever sits before a run: is told what happens, and may want something.

use std::time::Duration;

use teamster_journal::payload::GateAnswer;
use teamster_journal::{Event, RunState};
use teamster_store::PlannedTask;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::task::Task;

/// How urgently a run is to stop. Each says more than the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// It goes on.
    #[default]
    GoOn,
    /// Current tasks are finished first.
    Drain,
    /// Current tasks are interrupted; what there is of them is kept.
    Stop,
    /// Everybody is ended at once.
    Kill,
}

/// How things stand.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// What has happened.
    pub story: &'a RunState,
    /// The tasks.
    pub tasks: &'a [Task],
    /// Who lives.
    pub beats: &'a [Heartbeat],
    /// How long the run was at work.
    pub worked: Duration,
}

/// Whoever sits before a run.
pub trait Desk {
    /// Something was journalled; each event once, in order.
    fn event(&mut self, event: &Event);

    /// Something was journalled before this host came; each event once, before all others.
    fn known(&mut self, event: &Event);

    /// How things stand now; called several times a second.
    fn look(&mut self, look: &Look<'_>);

    /// Something is said that is in no journal.
    fn say(&mut self, text: &str);

    /// Lines that a check has printed, redacted and cleaned, each with a line feed.
    fn output(&mut self, lines: &str);

    /// How urgently the run is to stop.
    fn wish(&self) -> Wish;

    /// Whether the plan may be carried out; `None` while nobody has said.
    fn accept_plan(&mut self, tasks: &[PlannedTask]) -> Option<bool>;

    /// The gate is open; this is to be shown.
    fn open_gate(&mut self, text: &str);

    /// What the person at this desk wants.
    fn answer(&mut self) -> Option<Said>;

    /// Whether an answer is waited for, from this desk or from elsewhere. A command that brought its own answer does
    /// not wait for another one.
    fn stays(&self) -> bool;
}

/// What a person wants at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// What.
    pub answer: GateAnswer,
    /// How they said so: `terminal`, `studio`, `flag`.
    pub via: &'static str,
    /// The opening of the gate that they looked at, where it is not the one that is shown here.
    pub gate: Option<String>,
}
