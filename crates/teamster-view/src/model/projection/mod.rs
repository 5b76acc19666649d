//! The projection of a team's journal, up to one position, from which views are built.
//!
//! A projection only moves forward. To show an earlier moment, an earlier projection is cloned and advanced, so a
//! projection is cheap to clone.

mod money;
mod runs;
mod view;

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;
use teamster_journal::payload::{MessageSent, RunFinished};
use teamster_journal::{Event, EventKind, RunHistory, TeamState, family};
use teamster_store::{ReadStore, Result, rebuild};
use teamster_types::flow::Stage;
use teamster_types::task::{Status, Task};
use teamster_types::{TaskId, TeamName, Time};

use super::graph::repaired;
use super::rows::MessageView;
use super::team::{StageSpan, Tick};
use money::CostCurve;

/// The maximum number of messages that are kept; the others are in the journal.
pub const MOST_MESSAGES: usize = 50;
/// Events are read from the journal in pages of this size, so that memory use does not depend on its length.
pub const PAGE: usize = 1_000;
/// The number of ticks of a timeline.
const MOST_TICKS: usize = 512;

/// The projection of a journal up to one position.
#[derive(Clone, Debug, Default)]
pub struct TeamProjection {
    team: String,
    seq: u64,
    first: Option<Time>,
    state: TeamState,
    tasks: rebuild::Tasks,
    times: BTreeMap<TaskId, TaskTimes>,
    messages: VecDeque<MessageView>,
    message_count: u64,
    curve: CostCurve,
    ticks: TickSampler,
}

/// When a task was started and ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskTimes {
    pub(super) started: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) fixes: Option<TaskId>,
}

impl TeamProjection {
    /// Returns the projection of a team before its first event.
    pub fn of(team: &str) -> Self {
        Self {
            team: team.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the projection of a team up to and including the position `seq`.
    pub fn at(read: &dyn ReadStore, team: &TeamName, seq: u64) -> Result<Self> {
        let mut projection = Self::of(team.as_str());
        projection.advance_to(read, team, seq)?;
        Ok(projection)
    }

    /// Advances the projection up to and including the position `seq`.
    pub fn advance_to(&mut self, read: &dyn ReadStore, team: &TeamName, seq: u64) -> Result<()> {
        while self.seq < seq {
            let wanted = usize::try_from(seq - self.seq).unwrap_or(PAGE).min(PAGE);
            let before = self.seq;
            for event in read.events(team, self.seq + 1, wanted)?.events {
                if event.seq <= seq {
                    self.apply(&event);
                }
            }
            if self.seq == before {
                break;
            }
        }
        Ok(())
    }

    /// Returns the position of the last applied event.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns one task, according to the journal.
    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.tasks.get(id)
    }

    /// Returns every task, according to the journal.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter()
    }

    /// Returns the stage that its run is in, or was in when it ended.
    pub fn stage(&self) -> Option<Stage> {
        self.state.run.last_stage()
    }

    /// Returns how its run ended; `None` until the run has finished.
    pub fn finished(&self) -> Option<&RunFinished> {
        let finished = self.state.run.history.finished.as_ref();
        finished.map(|(_, finished)| finished)
    }

    /// Returns the time of the last event.
    pub fn last(&self) -> Option<Time> {
        self.state.last
    }

    /// Applies one event. An event that was applied before has no effect.
    pub fn apply(&mut self, event: &Event) {
        if event.seq <= self.seq {
            return;
        }
        self.seq = event.seq;
        if self.team.is_empty() {
            self.team.clone_from(&event.team);
        }
        self.first.get_or_insert(event.ts);
        self.ticks.put(event.seq, event.ts);
        self.tasks.apply(event);
        let what = event.payload();
        self.state.apply(event, &what);
        if event.kind.starts_with(family::TASK) {
            self.task_changed(event, &what);
        }
        match &what {
            EventKind::MessageSent(sent) => self.message(event, sent),
            EventKind::Usage(_) => self.curve.add(event, &self.state.run.spent),
            _ => {}
        }
    }

    fn task_changed(&mut self, event: &Event, what: &EventKind) {
        let Some(id) = &event.task_id else { return };
        let Some(task) = self.tasks.get(id) else {
            self.times.remove(id);
            return;
        };
        let times = self.times.entry(id.clone()).or_default();
        if matches!(what, EventKind::TaskClaimed(_)) {
            times.started = Some(event.ts);
        }
        let is_over = task.status() == Status::Completed;
        times.ended = match times.ended {
            Some(ended) if is_over => Some(ended),
            _ => is_over.then_some(event.ts),
        };
        if matches!(what, EventKind::TaskCreated(_)) {
            times.fixes = repaired(task);
        }
    }

    fn message(&mut self, event: &Event, sent: &MessageSent) {
        self.message_count += 1;
        if self.messages.len() == MOST_MESSAGES {
            self.messages.pop_front();
        }
        self.messages.push_back(message(event, sent));
    }
}

/// Returns the message of an event, or `None` when it is about something else.
pub fn message_of(event: &Event) -> Option<MessageView> {
    match event.payload() {
        EventKind::MessageSent(sent) => Some(message(event, &sent)),
        _ => None,
    }
}

fn message(event: &Event, sent: &MessageSent) -> MessageView {
    let about = sent.extra.get("taskId").and_then(Value::as_str);
    MessageView {
        seq: event.seq,
        id: sent.message_id.clone().unwrap_or_default(),
        kind: match sent.message_type.as_str() {
            "" => "message".to_owned(),
            kind => kind.to_owned(),
        },
        from: event.actor.to_string(),
        to: sent.to.clone().unwrap_or_default(),
        content: sent.content.clone(),
        sent_at: Some(event.ts),
        task_id: about
            .and_then(|id| id.parse().ok())
            .or_else(|| event.task_id.clone()),
    }
}

/// Evenly spread positions: at most twice [`MOST_TICKS`] are kept; beyond that, every other one is dropped.
#[derive(Clone, Debug, Default)]
struct TickSampler {
    kept: Vec<Tick>,
    last: Option<Tick>,
    every: u64,
}

impl TickSampler {
    fn put(&mut self, seq: u64, at: Time) {
        self.last = Some(Tick { seq, at });
        let every = self.every.max(1);
        if self.kept.is_empty() || seq.is_multiple_of(every) {
            self.kept.push(Tick { seq, at });
        }
        if self.kept.len() >= MOST_TICKS {
            self.every = every * 2;
            let every = self.every;
            let first = self.kept.first().map(|tick| tick.seq);
            self.kept
                .retain(|tick| Some(tick.seq) == first || tick.seq.is_multiple_of(every));
        }
    }

    fn all(&self) -> Vec<Tick> {
        let mut all = self.kept.clone();
        if let Some(last) = self.last
            && all.last().is_none_or(|tick| tick.seq < last.seq)
        {
            all.push(last);
        }
        all
    }
}

/// Returns the stages with their start and end times.
fn stage_spans(history: &RunHistory) -> Vec<StageSpan> {
    history
        .stage_spans()
        .map(|(stage, to)| StageSpan {
            stage: stage.entered.to.clone(),
            seq: stage.seq,
            from: stage.at,
            to,
        })
        .collect()
}
