//! Whether the session of a state is alive, judged by its processes.
//!
//! | session | evidence |
//! |---|---|
//! | `run-TEAM` | the lock of the run's host |
//! | the client's | its record in `sessions/`, the lead's process in the registry, the process that called a hook |
//! | a script's | none: its age decides |
//!
//! A lead that is gone may have left teammates in panes behind that still work: they keep the state alive.

use std::cell::OnceCell;
use std::path::Path;

use teamster_fs::proc::{self, Machine};
use teamster_fs::{Dir, Lock, layout};
use teamster_types::TeamName;
use teamster_types::process::{Life, ProcessId};
use teamster_types::session::life_in_pane;
use teamster_types::team::TeamConfig;

use super::memory::SessionMemory;
use crate::native::NativeRegistry;

/// The prefix of a run's session id, before the name of its team.
const RUN: &str = "run-";
/// The argument with which the client passes the lead's session to a teammate in a pane.
const PARENT: &str = "--parent-session-id";

/// Judges sessions, and caches what it has read.
pub(super) struct SessionLife<'a> {
    claude: &'a Path,
    machine: OnceCell<Machine>,
    registry: OnceCell<Option<NativeRegistry>>,
}

impl<'a> SessionLife<'a> {
    pub(super) fn new(claude: &'a Path) -> Self {
        Self {
            claude,
            machine: OnceCell::new(),
            registry: OnceCell::new(),
        }
    }

    /// Returns whether a session is alive; it is gone only when all its members are proven gone.
    pub(super) fn of(&self, session: &str, memory: Option<&SessionMemory>) -> Life {
        if let Some(team) = session.strip_prefix(RUN) {
            return self.host(team).unwrap_or(Life::Unknown);
        }
        match self.lead(session, memory) {
            Life::Gone => self.orphans(session, memory),
            other => other,
        }
    }

    /// Returns the machine, read once.
    pub(super) fn machine(&self) -> &Machine {
        self.machine.get_or_init(Machine::read)
    }

    fn registry(&self) -> Option<&NativeRegistry> {
        self.registry
            .get_or_init(|| NativeRegistry::open(self.claude))
            .as_ref()
    }

    /// Returns whether the host of a run is alive: it holds a lock as long as it runs.
    fn host(&self, team: &str) -> Option<Life> {
        let team: TeamName = team.parse().ok()?;
        let folder = Dir::open_at(self.claude, &[layout::TEAMS, team.as_str()]).ok()??;
        folder.stamp(layout::HOST_LOCK).ok()??;
        Some(match Lock::is_held(&folder, layout::HOST_LOCK) {
            Ok(true) => Life::Alive,
            Ok(false) => Life::Gone,
            Err(_) => Life::Unknown,
        })
    }

    /// Returns whether the session's own process is alive, by all records of it.
    fn lead(&self, session: &str, memory: Option<&SessionMemory>) -> Life {
        let mut lives: Vec<Life> = Vec::new();
        if let Some(process) = memory.and_then(|memory| memory.lead.as_ref()) {
            lives.push(self.machine().life(process));
        }
        if let Some(registry) = self.registry() {
            lives.extend(registry.recorded_lives(session, self.machine()));
            let config = registry
                .led_by(session)
                .and_then(|team| registry.config(&team));
            let process = config.as_ref().and_then(TeamConfig::lead_process);
            lives.extend(process.map(|process| self.machine().life(&process)));
        }
        if lives.contains(&Life::Alive) {
            Life::Alive
        } else if lives.is_empty() || lives.contains(&Life::Unknown) {
            Life::Unknown
        } else {
            Life::Gone
        }
    }

    /// Returns the pid of a teammate in a pane whose recorded sessions are all gone.
    pub(super) fn gone_in_pane(&self, session: &str, teammate: &str) -> Option<u32> {
        let registry = self.registry()?;
        let team = registry.led_by(session)?;
        let pane = &team.teammate(teammate)?.pane;
        if !pane.starts_with('%') {
            return None;
        }
        let life = |process: &ProcessId| self.machine().life(process);
        match life_in_pane(&registry.sessions(), pane, life) {
            Some((Life::Gone, pid)) => Some(pid),
            _ => None,
        }
    }

    /// Returns whether teammates that a lead left behind are alive.
    fn orphans(&self, session: &str, memory: Option<&SessionMemory>) -> Life {
        let recorded = memory
            .into_iter()
            .flat_map(|memory| memory.teammates.values());
        let lives: Vec<Life> = recorded
            .map(|process| self.machine().life(process))
            .collect();
        if lives.contains(&Life::Alive) {
            return Life::Alive;
        }
        let joined = format!("{PARENT}={session}");
        let apart = proc::started_with(&[PARENT, session]);
        match (apart, proc::started_with(&[&joined])) {
            (Some(apart), Some(joined)) if apart.is_empty() && joined.is_empty() => {
                if lives.contains(&Life::Unknown) {
                    Life::Unknown
                } else {
                    Life::Gone
                }
            }
            (Some(_), Some(_)) => Life::Alive,
            _ => Life::Unknown,
        }
    }
}
