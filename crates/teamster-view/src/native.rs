//! The health of teams of Claude Code, which have no heartbeats, from their registry and the client's sessions.
//!
//! | teammate | lead runs | lead is gone | lead cannot be judged |
//! |---|---|---|---|
//! | in the lead's process | healthy | dead | unknown |
//! | in a pane, its own session runs | healthy | healthy | healthy |
//! | in a pane, its own session is gone | dead | dead | dead |
//! | in a pane otherwise | unknown | unknown | unknown |
//!
//! Only `zombies scan` asks tmux about panes: showing a status starts no program.

use teamster_store::ReadStore;
use teamster_types::health::{Assessment, Verdict};
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::session::{ClientSession, process_state_in_pane};
use teamster_types::team::{TeamConfig, TeamMember};

/// What is known about the lead of a team of Claude Code.
pub(crate) struct LeadStatus {
    pid: Option<u32>,
    life: ProcessState,
    sessions: Vec<ClientSession>,
}

impl LeadStatus {
    /// Reads every record of the lead: its sessions, and the process that newer clients record in the registry.
    pub(crate) fn find(read: &dyn ReadStore, team: &str, config: &TeamConfig) -> Self {
        let sessions = read.client_sessions();
        let leads = |session: &&ClientSession| session.leads(config.lead_session(), team);
        let mut records: Vec<ProcessId> = sessions
            .iter()
            .filter(leads)
            .map(|session| session.process.clone())
            .collect();
        records.extend(config.lead_process());
        let lives: Vec<(u32, ProcessState)> = records
            .iter()
            .map(|process| (process.pid, read.process_state(process)))
            .collect();
        let alive = lives.iter().find(|(_, life)| *life == ProcessState::Alive);
        let is_gone =
            !lives.is_empty() && lives.iter().all(|(_, life)| *life == ProcessState::Gone);
        let life = match (alive, is_gone) {
            (Some(_), _) => ProcessState::Alive,
            (None, true) => ProcessState::Gone,
            (None, false) => ProcessState::Unknown,
        };
        Self {
            pid: alive.or(lives.last()).map(|(pid, _)| *pid),
            life,
            sessions,
        }
    }

    /// Returns whether it is proven alive.
    pub(crate) fn is_alive(&self) -> bool {
        self.life == ProcessState::Alive
    }

    /// Returns the verdict on one teammate.
    pub(crate) fn assess(&self, read: &dyn ReadStore, member: &TeamMember) -> Assessment {
        let mut evidence = Vec::new();
        let in_process = member.backend == "in-process" || member.pane == "in-process";
        let verdict = if in_process {
            evidence.push(self.say([
                PhraseCode::InLeadRuns,
                PhraseCode::InLeadGone,
                PhraseCode::InLeadNotJudged,
                PhraseCode::InLeadUnrecorded,
            ]));
            match self.life {
                ProcessState::Alive => Verdict::Healthy,
                ProcessState::Gone => Verdict::Dead,
                ProcessState::Unknown => Verdict::Unknown,
            }
        } else {
            self.in_pane(read, member, &mut evidence)
        };
        if let Some(active) = member.is_active {
            let code = if active {
                PhraseCode::ClientCallsActive
            } else {
                PhraseCode::ClientCallsIdle
            };
            evidence.push(Phrase::new(code, []));
        }
        Assessment { verdict, evidence }
    }

    fn in_pane(
        &self,
        read: &dyn ReadStore,
        member: &TeamMember,
        evidence: &mut Vec<Phrase>,
    ) -> Verdict {
        let pane = &member.pane;
        match process_state_in_pane(&self.sessions, pane, |process| read.process_state(process)) {
            Some((ProcessState::Alive, pid)) => {
                let code = PhraseCode::SessionInPaneRuns;
                evidence.push(Phrase::new(code, [("pane", pane), ("pid", &pid)]));
                return Verdict::Healthy;
            }
            Some((ProcessState::Gone, pid)) => {
                let code = PhraseCode::SessionInPaneGone;
                evidence.push(Phrase::new(code, [("pane", pane), ("pid", &pid)]));
                return Verdict::Dead;
            }
            Some((ProcessState::Unknown, _)) | None => {}
        }
        evidence.push(if member.pane.is_empty() {
            Phrase::new(PhraseCode::PlaceUnknown, [])
        } else {
            Phrase::new(PhraseCode::InPane, [("pane", &member.pane)])
        });
        evidence.push(self.say([
            PhraseCode::LeadRuns,
            PhraseCode::LeadGone,
            PhraseCode::LeadNotJudged,
            PhraseCode::LeadUnrecorded,
        ]));
        Verdict::Unknown
    }

    /// Selects one of four sentences: the lead runs, is gone, cannot be judged, or has no recorded process.
    fn say(&self, [runs, gone, not_judged, unrecorded]: [PhraseCode; 4]) -> Phrase {
        match (self.pid, self.life) {
            (Some(pid), ProcessState::Alive) => Phrase::new(runs, [("pid", &pid)]),
            (Some(pid), ProcessState::Gone) => Phrase::new(gone, [("pid", &pid)]),
            (Some(pid), ProcessState::Unknown) => Phrase::new(not_judged, [("pid", &pid)]),
            (None, _) => Phrase::new(unrecorded, []),
        }
    }
}
