//! Changes in memory as they happen.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use teamster_types::heartbeat::Heartbeat;
use teamster_types::{TeamName, WorkerName};

use super::{Shared, Team, no_team};
use crate::error::Result;
use crate::watch::{Change, Watch};

pub(super) struct MemWatch {
    shared: Arc<Shared>,
    team: TeamName,
    seen: u64,
    beats: BTreeMap<WorkerName, Heartbeat>,
}

impl MemWatch {
    pub(super) fn new(
        shared: Arc<Shared>,
        team: TeamName,
        seen: u64,
        beats: BTreeMap<WorkerName, Heartbeat>,
    ) -> Self {
        Self {
            shared,
            team,
            seen,
            beats,
        }
    }

    fn look(&mut self, team: &Team) -> Vec<Change> {
        let new = team.events.iter().filter(|event| event.seq > self.seen);
        let mut changes: Vec<Change> = new
            .map(|event| Change::Event(Box::new(event.clone())))
            .collect();
        self.seen = team.events.last().map_or(self.seen, |event| event.seq);
        let beating = team
            .beats
            .iter()
            .filter(|(worker, beat)| self.beats.get(*worker) != Some(*beat))
            .map(|(worker, _)| worker);
        let gone = self
            .beats
            .keys()
            .filter(|worker| !team.beats.contains_key(*worker));
        changes.extend(beating.chain(gone).cloned().map(Change::Beat));
        self.beats.clone_from(&team.beats);
        changes
    }
}

impl Watch for MemWatch {
    fn wait(&mut self, patience: Duration) -> Result<Vec<Change>> {
        let shared = Arc::clone(&self.shared);
        let deadline = std::time::Instant::now() + patience;
        let mut teams = shared.teams.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let team = teams.get(&self.team).ok_or_else(|| no_team(&self.team))?;
            let changes = self.look(team);
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if !changes.is_empty() || left.is_zero() {
                return Ok(changes);
            }
            teams = shared
                .changed
                .wait_timeout(teams, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}
