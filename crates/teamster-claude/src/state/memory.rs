//! State that hooks keep between two calls and no viewer needs: processes, announced agents, and messages read ahead.
//!
//! The file is beside the state, is read and written under the same lock, and may be lost: then a row is named by the
//! agent's id, or a message is shown twice.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use teamster_fs::proc::Machine;
use teamster_types::Time;
use teamster_types::process::{ProcessId, ProcessState};

use super::record::{AgentState, Model, Status};

/// The maximum number of sessions kept.
const MOST_SESSIONS: usize = 20;
/// The maximum number of entries of each kind for one session.
const MOST_ENTRIES: usize = 64;
/// How far apart an inbox and the sender's hook may report the same message.
pub(super) const SAME_MESSAGE: Duration = Duration::from_secs(60);

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HookMemory {
    sessions: BTreeMap<String, SessionMemory>,
}

/// The memory of one session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SessionMemory {
    /// When something was last added.
    touched: Option<Time>,
    /// The process of the session itself.
    pub(super) lead: Option<ProcessId>,
    /// The processes of teammates that have their own, by row.
    pub(super) teammates: BTreeMap<String, ProcessId>,
    /// The processes of gone teammates whose rows were already shown as failed.
    gone: BTreeMap<String, ProcessId>,
    /// Agents that a tool call announced and that have not started.
    spawns: Vec<AnnouncedAgent>,
    /// The row that each agent id belongs to.
    agents: Vec<KnownAgent>,
    /// Messages that were seen in an inbox before the hook of their sender reported them.
    letters: Vec<InboxSighting>,
}

/// An agent that a call of the tool `Agent` requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnouncedAgent {
    /// The id of the tool call.
    pub tool_use: String,
    /// The user's prompt that led to it.
    pub prompt_id: Option<String>,
    /// Its name, or a short description of its work.
    pub name: String,
    /// Its role.
    pub role: String,
    /// Its model, if the call names one.
    pub model: Option<Model>,
    /// Its assignment.
    pub task: Option<String>,
}

/// An agent without a name of its own, and its row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KnownAgent {
    id: String,
    row: String,
    tool_use: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct InboxSighting {
    hash: u64,
    at: Time,
}

impl HookMemory {
    /// Parses the file; an unreadable one counts as empty.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// Returns the bytes of the file.
    pub(super) fn to_file(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the memory of a session.
    pub(super) fn session(&self, session: &str) -> Option<&SessionMemory> {
        self.sessions.get(session)
    }

    /// Takes the memory of a session out, to be changed and put back.
    pub(super) fn take(&mut self, session: &str) -> SessionMemory {
        self.sessions.remove(session).unwrap_or_default()
    }

    /// Puts the memory of a session back. If there are too many, the one that was unchanged the longest is dropped.
    pub(super) fn put(&mut self, session: &str, memory: SessionMemory) {
        if memory.is_empty() {
            return;
        }
        self.sessions.insert(session.to_owned(), memory);
        while self.sessions.len() > MOST_SESSIONS {
            let oldest = self
                .sessions
                .iter()
                .min_by_key(|(_, memory)| memory.touched);
            match oldest.map(|(session, _)| session.clone()) {
                Some(oldest) => drop(self.sessions.remove(&oldest)),
                None => return,
            }
        }
    }
}

impl SessionMemory {
    fn is_empty(&self) -> bool {
        let nothing = Self {
            touched: self.touched,
            ..Self::default()
        };
        *self == nothing
    }

    /// Records when an entry was last added.
    pub(super) fn touch(&mut self, now: Option<Time>) {
        self.touched = self.touched.max(now);
    }

    /// Records the process of a teammate or, without a name, of the session itself.
    pub(super) fn note_process(&mut self, name: Option<&String>, process: &ProcessId) {
        match name {
            Some(name) => {
                self.gone.remove(name);
                self.teammates.insert(name.clone(), process.clone());
            }
            None => self.lead = Some(process.clone()),
        }
    }

    /// Records that the process of a teammate is gone and that this was reported.
    pub(super) fn note_gone(&mut self, name: &str) {
        if let Some(process) = self.teammates.remove(name) {
            self.gone.insert(name.to_owned(), process);
        }
    }

    /// Returns the teammates whose own process is gone, each with its pid: those whose rows still show it, and those
    /// not reported yet.
    pub(super) fn gone(&self, state: &AgentState, machine: &Machine) -> BTreeMap<String, u32> {
        let is_failed = |name: &str| {
            let row = state.teammate(name);
            row.is_some_and(|row| row.status == Status::Failed)
        };
        let told = self.gone.iter().filter(|(name, _)| is_failed(name));
        told.chain(self.unreported_gone(state, machine))
            .map(|(name, process)| (name.clone(), process.pid))
            .collect()
    }

    /// Returns whether a teammate is gone and was not reported yet.
    pub(super) fn has_unreported_gone(&self, state: &AgentState, machine: &Machine) -> bool {
        self.unreported_gone(state, machine).next().is_some()
    }

    fn unreported_gone<'a>(
        &'a self,
        state: &'a AgentState,
        machine: &'a Machine,
    ) -> impl Iterator<Item = (&'a String, &'a ProcessId)> {
        self.teammates.iter().filter(|(name, process)| {
            let status = state.teammate(name).map(|row| row.status);
            // A teammate that completed its work before its process ended is not reported.
            let has_ended = matches!(status, None | Some(Status::Completed));
            !has_ended && machine.process_state(process) == ProcessState::Gone
        })
    }

    /// Adds an agent that a tool call requests.
    pub(super) fn announce(&mut self, agent: &AnnouncedAgent) {
        // A new prompt drops the announcements of earlier ones: an agent that has not started by then never will.
        self.spawns
            .retain(|known| known.prompt_id == agent.prompt_id && known.tool_use != agent.tool_use);
        push(&mut self.spawns, agent.clone());
    }

    /// Drops the announcement of a tool call.
    pub(super) fn forget(&mut self, tool_use: &str) {
        self.spawns.retain(|known| known.tool_use != tool_use);
    }

    /// Returns the row of an agent, given its id or the row itself.
    pub(super) fn row_of<'a>(&'a self, name: &'a str) -> &'a str {
        let known = self.agents.iter().find(|known| known.id == name);
        known.map_or(name, |known| &known.row)
    }

    /// Returns whether an agent id has a row of another name.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.agents.iter().any(|known| known.id == id)
    }

    /// Takes the announcement that matches a starting agent, and assigns the agent a row with the announced name.
    pub(super) fn begin(
        &mut self,
        id: &str,
        role: &str,
        prompt_id: Option<&str>,
        state: &AgentState,
    ) -> Option<AnnouncedAgent> {
        let fits = |agent: &AnnouncedAgent| {
            let same_prompt = match (agent.prompt_id.as_deref(), prompt_id) {
                (Some(one), Some(other)) => one == other,
                _ => true,
            };
            agent.role == role && same_prompt
        };
        let position = self.spawns.iter().position(fits)?;
        let mut agent = self.spawns.remove(position);
        let is_taken = |name: &str| state.teammate(name).is_some();
        if is_taken(&agent.name) {
            let free = (2..).map(|number| format!("{}-{number}", agent.name));
            agent.name = free.into_iter().find(|name| !is_taken(name))?;
        }
        let known = KnownAgent {
            id: id.to_owned(),
            row: agent.name.clone(),
            tool_use: agent.tool_use.clone(),
        };
        self.agents.retain(|known| known.id != id);
        push(&mut self.agents, known);
        Some(agent)
    }

    /// Returns the row of the agent that a tool call started, once the call's response has reported its id. If two
    /// simultaneous calls were mixed up, the two rows swap their agents.
    pub(super) fn confirm(&mut self, id: &str, tool_use: &str) -> Option<String> {
        let mine = self.agents.iter().position(|known| known.id == id)?;
        let other = self
            .agents
            .iter()
            .position(|known| known.tool_use == tool_use);
        if let Some(other) = other
            && other != mine
        {
            let (one, two) = (self.agents[mine].clone(), self.agents[other].clone());
            self.agents[mine] = KnownAgent {
                id: one.id,
                ..two.clone()
            };
            self.agents[other] = KnownAgent {
                id: two.id,
                row: one.row,
                tool_use: one.tool_use,
            };
        }
        Some(self.agents[mine].row.clone())
    }

    /// Records a message that was seen in an inbox first.
    pub(super) fn note_inbox_sighting(&mut self, hash: u64, at: Time) {
        push(&mut self.letters, InboxSighting { hash, at });
    }

    /// Returns whether a message was already seen in an inbox. Each record matches once.
    pub(super) fn take_inbox_sighting(&mut self, hash: u64, now: Time) -> bool {
        let near = |at: Time| now.since(at) <= SAME_MESSAGE && at.since(now) <= SAME_MESSAGE;
        let known = |letter: &InboxSighting| letter.hash == hash && near(letter.at);
        match self.letters.iter().position(known) {
            Some(position) => {
                self.letters.remove(position);
                true
            }
            None => false,
        }
    }
}

/// Adds an entry, dropping the oldest ones beyond the limit.
fn push<T>(list: &mut Vec<T>, entry: T) {
    list.push(entry);
    let extra = list.len().saturating_sub(MOST_ENTRIES);
    list.drain(..extra);
}

/// Returns a hash that identifies a message.
pub(super) fn message_hash(from: &str, to: &str, content: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in [from, to, content] {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}
