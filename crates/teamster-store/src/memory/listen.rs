//! Listening in memory.

use std::sync::{Arc, PoisonError};

use teamster_types::task::Task;
use teamster_types::{TeamName, WorkerName};

use super::{Shared, Team, no_team};
use crate::error::Result;
use crate::listen::{Heard, Listen, Pulse};
use crate::store::Signal;

pub(super) struct MemListener {
    shared: Arc<Shared>,
    team: TeamName,
    worker: WorkerName,
}

impl MemListener {
    pub(super) fn new(shared: Arc<Shared>, team: TeamName, worker: WorkerName) -> Self {
        Self {
            shared,
            team,
            worker,
        }
    }
}

impl Listen for MemListener {
    fn hear(&mut self) -> Result<Heard> {
        let teams = self.shared.teams.lock();
        let teams = teams.unwrap_or_else(PoisonError::into_inner);
        let team = teams.get(&self.team).ok_or_else(|| no_team(&self.team))?;
        Ok(Heard {
            pulse: Pulse {
                journal: team.events.last().map_or(0, |event| event.seq),
                tasks: team.tasks.values().map(Task::version).sum(),
            },
            signals: team.signals_for(&self.worker),
        })
    }
}

impl Team {
    /// The stop signals that wait for a worker.
    pub(super) fn signals_for(&self, worker: &WorkerName) -> Vec<Signal> {
        [false, true]
            .iter()
            .filter_map(|drain| self.signals.get(&(worker.clone(), *drain)).cloned())
            .collect()
    }
}
