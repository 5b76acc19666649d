//! Whether a team's run waits for a person, by the last events of its journal.

use teamster_journal::RunState;
use teamster_store::{Read, Result};
use teamster_types::TeamName;

/// What is at the gate stands among the last events: nobody works while it is open.
const LAST: usize = 200;

/// What a person has to decide about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenGate {
    /// The commit; empty where everybody works in one folder.
    pub commit: String,
    /// What the checks came to, in words.
    pub words: String,
}

impl OpenGate {
    /// The command that takes the work.
    pub fn command(&self, team: &TeamName) -> String {
        match self.commit.as_str() {
            "" => format!("teamster approve --team {team}"),
            commit => format!("teamster approve --team {team} --commit {commit}"),
        }
    }
}

/// Returns the gate of a team's run, if it waits for a decision.
pub fn open_gate(read: &dyn Read, team: &TeamName) -> Result<Option<OpenGate>> {
    let mut state = RunState::default();
    for event in read.last_events(team, LAST)?.events {
        state.apply(&event);
    }
    let words = (state.history.gate.as_ref()).map(|gate| gate.opened.words.clone());
    Ok(state.open_gate().map(|gate| OpenGate {
        commit: gate.commit.clone(),
        words: words.unwrap_or_default(),
    }))
}
