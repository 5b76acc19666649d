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
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::session::process_state_in_pane;
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
    pub(super) fn of(&self, session: &str, memory: Option<&SessionMemory>) -> ProcessState {
        if let Some(team) = session.strip_prefix(RUN) {
            return self.host(team).unwrap_or(ProcessState::Unknown);
        }
        match self.lead(session, memory) {
            ProcessState::Gone => self.orphans(session, memory),
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
    fn host(&self, team: &str) -> Option<ProcessState> {
        let team: TeamName = team.parse().ok()?;
        let folder = Dir::open_at(self.claude, &[layout::TEAMS, team.as_str()]).ok()??;
        folder.stamp(layout::HOST_LOCK).ok()??;
        Some(match Lock::is_held(&folder, layout::HOST_LOCK) {
            Ok(true) => ProcessState::Alive,
            Ok(false) => ProcessState::Gone,
            Err(_) => ProcessState::Unknown,
        })
    }

    /// Returns whether the session's own process is alive, by all records of it.
    fn lead(&self, session: &str, memory: Option<&SessionMemory>) -> ProcessState {
        let mut lives: Vec<ProcessState> = Vec::new();
        if let Some(process) = memory.and_then(|memory| memory.lead.as_ref()) {
            lives.push(self.machine().process_state(process));
        }
        if let Some(registry) = self.registry() {
            lives.extend(registry.recorded_lives(session, self.machine()));
            let config = registry
                .led_by(session)
                .and_then(|team| registry.config(&team));
            let process = config.as_ref().and_then(TeamConfig::lead_process);
            lives.extend(process.map(|process| self.machine().process_state(&process)));
        }
        if lives.contains(&ProcessState::Alive) {
            ProcessState::Alive
        } else if lives.is_empty() || lives.contains(&ProcessState::Unknown) {
            ProcessState::Unknown
        } else {
            ProcessState::Gone
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
        let life = |process: &ProcessId| self.machine().process_state(process);
        match process_state_in_pane(&registry.sessions(), pane, life) {
            Some((ProcessState::Gone, pid)) => Some(pid),
            _ => None,
        }
    }

    /// Returns whether teammates that a lead left behind are alive.
    fn orphans(&self, session: &str, memory: Option<&SessionMemory>) -> ProcessState {
        let recorded = memory
            .into_iter()
            .flat_map(|memory| memory.teammates.values());
        let lives: Vec<ProcessState> = recorded
            .map(|process| self.machine().process_state(process))
            .collect();
        if lives.contains(&ProcessState::Alive) {
            return ProcessState::Alive;
        }
        let joined = format!("{PARENT}={session}");
        let apart = proc::started_with(&[PARENT, session]);
        match (apart, proc::started_with(&[&joined])) {
            (Some(apart), Some(joined)) if apart.is_empty() && joined.is_empty() => {
                if lives.contains(&ProcessState::Unknown) {
                    ProcessState::Unknown
                } else {
                    ProcessState::Gone
                }
            }
            (Some(_), Some(_)) => ProcessState::Alive,
            _ => ProcessState::Unknown,
        }
    }
}
