//! Whether a session that has a state is alive, by what can be seen of its processes.
//!
//! | session | what proves it |
//! |---|---|
//! | `run-TEAM` | the lock of the run's host |
//! | the client's | its record in `sessions/`, the lead's process in the registry, the process that called a hook |
//! | a script's | nothing: its age decides |
//!
//! A lead that is gone may have left teammates in panes behind, who still work: they keep the state.

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

/// The session of a run has this before the name of its team.
const RUN: &str = "run-";
/// How the client names the lead's session to a teammate in a pane.
const PARENT: &str = "--parent-session-id";

/// Judges sessions. What it has read once it does not read again.
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

    /// Returns whether a session is alive: gone only when everybody of it is proven gone.
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

    /// The host of a run holds a lock as long as it runs.
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

    /// The session's own process, by everybody who recorded one.
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

    /// Returns the pid of a teammate in a pane of which every recorded session is gone.
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

    /// Those whom a lead that is gone has left behind.
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
