//! The observer of a run: a terminal, a stream of JSON lines, or a test.

use std::time::Duration;

pub use teamster_journal::payload::StopLevel;
use teamster_journal::payload::{GateAnswer, PlanAnswer, PlanProposed, QuestionId, RunSpec};
use teamster_journal::{Event, Question, RunState};
use teamster_types::flow::DecisionChannel;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::task::Task;

/// The present state of a run, for display.
#[derive(Clone, Copy, Debug)]
pub struct RunSnapshot<'a> {
    /// The projection of the journal.
    pub state: &'a RunState,
    /// The tasks of the team.
    pub tasks: &'a [Task],
    /// The heartbeats of the team's workers.
    pub beats: &'a [Heartbeat],
    /// How long the run has worked, without the time that it spent waiting for a person.
    pub worked: Duration,
}

/// Observes a run, can ask it to stop, and answers its questions. An observer without a person has no answers about
/// plans and questions.
pub trait RunObserver {
    /// Receives a new event. Each event is passed once, in order.
    fn event(&mut self, event: &Event);

    /// Receives an event from before this host took over. Each is passed once, before all new events.
    fn past_event(&mut self, event: &Event);

    /// Receives the present state, several times a second.
    fn update(&mut self, snapshot: &RunSnapshot<'_>);

    /// Receives a message that is not in the journal.
    fn say(&mut self, text: &str);

    /// Receives lines that a check has printed, redacted and cleaned, each with a line feed.
    fn output(&mut self, lines: &str);

    /// Returns how urgently the run is to stop.
    fn stop_level(&self) -> StopLevel;

    /// Shows a plan that a person has to decide about. Each revision is shown once.
    fn show_plan(&mut self, _plan: &PlanShown<'_>) {}

    /// Returns the person's answer about the plan that was shown last, once.
    fn plan_answer(&mut self) -> Option<PlanAnswer> {
        None
    }

    /// Shows a question of the leader that the run waits for. Each question is shown once.
    fn show_question(&mut self, _question: &Question) {}

    /// Returns the person's reply to the question that was shown last, once.
    fn question_answer(&mut self) -> Option<PersonReply> {
        None
    }

    /// Returns whether a person who can be asked is at this observer.
    fn has_person(&self) -> bool {
        false
    }

    /// Shows what a person at the open gate has to decide about.
    fn open_gate(&mut self, text: &str);

    /// Returns what the person at this observer has decided at the gate, once.
    fn answer(&mut self) -> Option<GateReply>;

    /// Returns whether the host waits for a decision, from this observer or from elsewhere. A command that brought its own
    /// decision does not wait for another one.
    fn waits_for_answer(&self) -> bool;
}

/// A plan that a person has to decide about.
#[derive(Clone, Copy, Debug)]
pub struct PlanShown<'a> {
    /// The plan as it is proposed.
    pub proposed: &'a PlanProposed,
    /// The plan as a person reads it: a table, the dependencies, and the leader's remarks.
    pub text: &'a str,
    /// The specification of the run; an edited plan must suit its team.
    pub spec: &'a RunSpec,
}

/// The reply of a person to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonReply {
    /// The question.
    pub question: QuestionId,
    /// The answer; `None` when the person leaves the decision to the agent that asked.
    pub answer: Option<String>,
}

/// The reply of a person at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateReply {
    /// The decision.
    pub answer: GateAnswer,
    /// The channel of the decision.
    pub via: DecisionChannel,
    /// The gate that the person looked at, where it is not the one that was shown here.
    pub gate: Option<String>,
}
