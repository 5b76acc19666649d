//! Looking at states without a lock: every file is replaced whole, so a reader sees the old one or the new one.

use serde::Serialize;
use teamster_fs::{Dir, layout};
use teamster_types::Time;

use super::{AgentState, StateError, States};

/// What a viewer says about a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Viewed {
    /// The session goes on.
    Live,
    /// It should go on, and was not heard of for more than five minutes.
    Stale,
    /// It is over; its progress and messages are still worth a look.
    Ended,
}

impl Viewed {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Stale => "stale",
            Self::Ended => "ended",
        }
    }
}

impl AgentState {
    /// What a viewer says about it.
    pub fn viewed(&self, now: Time) -> Viewed {
        match self.enabled {
            false => Viewed::Ended,
            true if self.is_live(now) => Viewed::Live,
            true => Viewed::Stale,
        }
    }
}

/// One session, as viewers of ours list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its state.
    pub state: AgentState,
    /// Whether it is the one in `agent-state.json`.
    pub is_main: bool,
}

impl States {
    /// The state that viewers poll; `None` when there is none.
    pub fn read(&self) -> Result<Option<AgentState>, StateError> {
        let Some(bkit) = self.open_project()?.child(layout::BKIT)? else {
            return Ok(None);
        };
        read_file(&bkit, layout::AGENT_STATE)
    }

    /// Every session's state, the one that viewers poll first. A file that cannot be understood hides no other.
    pub fn all(&self) -> Result<Vec<Shown>, StateError> {
        let Some(bkit) = self.open_project()?.child(layout::BKIT)? else {
            return Ok(Vec::new());
        };
        let mut all: Vec<Shown> = Vec::new();
        if let Ok(Some(state)) = read_file(&bkit, layout::AGENT_STATE) {
            all.push(Shown {
                state,
                is_main: true,
            });
        }
        let Some(sessions) = bkit.child(layout::STATE_SESSIONS)? else {
            return Ok(all);
        };
        let main = all.first().map(|shown| shown.state.session_id.clone());
        for name in state_files(&sessions)? {
            if let Ok(Some(state)) = read_file(&sessions, &name)
                // A session that has just moved up may have left its old file for a moment.
                && main.as_ref().is_none_or(|main| *main != state.session_id)
            {
                all.push(Shown {
                    state,
                    is_main: false,
                });
            }
        }
        Ok(all)
    }
}

/// A state in a folder.
pub(super) fn read_file(dir: &Dir, name: &str) -> Result<Option<AgentState>, StateError> {
    let Some((bytes, _)) = dir.read(name)? else {
        return Ok(None);
    };
    match AgentState::parse(&bytes) {
        Ok(state) => Ok(Some(state)),
        Err(error) => Err(StateError::Corrupt {
            file: dir.join(name),
            error,
        }),
    }
}

/// The names of the states in the folder of sessions, in order.
pub(super) fn state_files(sessions: &Dir) -> Result<Vec<String>, StateError> {
    let mut names: Vec<String> = sessions
        .entries()?
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| !name.starts_with('.') && name.strip_suffix(".json").is_some())
        .collect();
    names.sort_unstable();
    Ok(names)
}
