//! Records a hook call in the journal of a teamster team.

use std::sync::Arc;
use std::time::Duration;

use teamster_fs::Durability;
use teamster_fs::proc::Machine;
use teamster_journal::payload::HookReceived;
use teamster_journal::{EventKind, NewEvent};
use teamster_store::{
    FileStore, FileStoreSettings, ReadStore as _, Store as _, StoreError, SystemClock,
};
use teamster_types::TeamName;
use teamster_types::team::TeamOrigin;
use teamster_types::text::shown_line;

use super::{HookCall, HookContext};
use crate::state::LONGEST_TEXT;

impl HookCall<'_> {
    /// Records a hook of an agent that one of teamster's workers runs; its bridge reports everything else about it.
    pub(super) fn journal_as_worker(&mut self) {
        let team = self.context.team.clone();
        self.journal(team.as_deref(), None);
    }

    pub(super) fn journal_other(&mut self) {
        let team = self.active_team();
        self.journal(team.as_deref(), None);
    }

    pub(super) fn journal_full_roster(&mut self, name: &str) {
        let why = "the roster is full and all its members are active";
        self.note(format!("{name} is not shown: {why}"));
        let team = self.active_team();
        self.journal(team.as_deref(), Some((name, why)));
    }

    /// Returns the teamster team whose journal records this hook: the one that the agent was started for, the one that
    /// the payload names, else the one that works on this project.
    fn active_team(&self) -> Option<String> {
        let named = self.context.team.clone();
        let spoken = || {
            let team = self.actor().team.as_ref();
            team.filter(|team| team.is_ours)
                .map(|team| team.folder.clone())
        };
        let here = || {
            let registry = self.registry()?;
            registry.working_on(&self.context.layout.project, &Machine::read())
        };
        named.or_else(spoken).or_else(here)
    }

    /// Records this hook call in a team's journal; `hidden` is an agent that is not shown, with the reason.
    fn journal(&mut self, team: Option<&str>, hidden: Option<(&str, &str)>) {
        let Some(team) = team.filter(|_| self.context.writes) else {
            return;
        };
        let Ok(team) = team.parse() else {
            self.note(format!(
                "there is no team {}",
                shown_line(team, LONGEST_TEXT)
            ));
            return;
        };
        let session = self.payload.text("session_id").unwrap_or_default();
        let actor = match &self.context.worker {
            Some(worker) => shown_line(worker, LONGEST_TEXT),
            None => self.actor().name.clone(),
        };
        let received = HookReceived {
            event: shown_line(self.event, LONGEST_TEXT),
            session: shown_line(session, LONGEST_TEXT),
            name: actor.clone(),
            not_shown: hidden.map(|(name, _)| shown_line(name, LONGEST_TEXT)),
            why: hidden.map(|(_, why)| why.to_owned()),
        };
        let event = NewEvent::new(actor, EventKind::HookReceived(received));
        if let Err(error) = record_in_journal(self.context, &team, self.time_left(), event) {
            self.note(format!("the journal was not written: {error}"));
        }
    }
}

/// Writes `hook.received` to the journal of an existing team. Returns false, and writes nothing, when teamster did not
/// create the team: a hook never creates one.
fn record_in_journal(
    context: &HookContext,
    team: &TeamName,
    patience: Duration,
    event: NewEvent,
) -> Result<bool, StoreError> {
    let settings = FileStoreSettings {
        sync: Durability::Fast,
        patience,
        ..FileStoreSettings::default()
    };
    let store = FileStore::open(&context.layout, Arc::new(SystemClock), settings)?;
    if store.team(team)?.kind() != TeamOrigin::Teamster {
        return Ok(false);
    }
    store.record(team, event)?;
    Ok(true)
}
