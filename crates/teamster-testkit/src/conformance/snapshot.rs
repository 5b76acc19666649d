//! Everything a store holds about a team, for comparisons.

use teamster_journal::Event;
use teamster_store::{Result, Signal, Store, StoredMessage};
use teamster_types::TeamName;
use teamster_types::failure::Failure;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::json::Object;
use teamster_types::task::Task;

/// A snapshot of a team.
#[derive(Debug, PartialEq)]
pub(super) struct TeamSnapshot {
    config: Object,
    tasks: Vec<Task>,
    failures: Vec<Option<Failure>>,
    messages: Vec<StoredMessage>,
    beats: Vec<Heartbeat>,
    signals: Vec<Signal>,
    events: Vec<Event>,
}

impl TeamSnapshot {
    pub(super) fn of(store: &dyn Store, team: &TeamName) -> Result<Self> {
        let config = store.team(team)?;
        let tasks = store.tasks(team)?.tasks;
        let failures = tasks
            .iter()
            .map(|task| store.failure(team, task.id()))
            .collect::<Result<_>>()?;
        let mut signals = Vec::new();
        for member in config.members() {
            if let Ok(worker) = member.name.parse() {
                signals.extend(store.signals(team, &worker)?);
            }
        }
        Ok(Self {
            config: config.as_object().clone(),
            tasks,
            failures,
            messages: store.messages(team)?,
            beats: store.heartbeats(team)?.0,
            signals,
            events: store.events(team, 1, usize::MAX)?.events,
        })
    }

    /// Returns the names of the parts that differ.
    pub(super) fn differences(&self, other: &Self) -> Vec<&'static str> {
        [
            ("the registry", self.config == other.config),
            ("the tasks", self.tasks == other.tasks),
            ("the failures", self.failures == other.failures),
            ("the messages", self.messages == other.messages),
            ("the heartbeats", self.beats == other.beats),
            ("the signals", self.signals == other.signals),
            ("the journal", self.events == other.events),
        ]
        .into_iter()
        .filter_map(|(what, same)| (!same).then_some(what))
        .collect()
    }
}
