//! Decides which session owns which state file: read under the lock, changed in memory, written back once.
//!
//! The order of writing makes a crash at any point harmless: an archived state is written before it is replaced, and
//! the file of a promoted session is removed last. If that step is missed, `agent-state.json` takes precedence, because
//! a session that is shown there never writes to its other file.

use teamster_fs::{Dir, Durability, layout};
use teamster_types::Time;
use teamster_types::end::EndRecord;

use super::life::SessionLife;
use super::memory::{HookMemory, SessionMemory};
use super::ops::{Effect, Op, StateChange};
use super::record::{AgentState, Status, read_file, state_files};
use super::{Applied, StateError};
use teamster_types::process::ProcessState;

/// The maximum number of ended sessions kept; the oldest are removed first.
const MOST_ARCHIVED: usize = 50;

/// The file that holds a session's state while the lock is held.
enum SessionPlace {
    /// The file that viewers poll, `agent-state.json`.
    Main,
    /// A file in the folder of sessions.
    Own(String),
    /// There is no state to change.
    Nowhere,
}

/// A file in the folder of sessions.
struct SessionFile {
    name: String,
    /// The state; `None` when the file does not exist or is to be removed.
    state: Option<AgentState>,
    dirty: bool,
}

/// A transaction on the state files: read under the lock, changed in memory, written back by [`StateTxn::commit`].
pub(super) struct StateTxn<'a> {
    bkit: &'a Dir,
    life: &'a SessionLife<'a>,
    /// The hook memory, and the bytes that it was read from.
    memory: HookMemory,
    memory_file: Vec<u8>,
    main: Option<AgentState>,
    main_dirty: bool,
    main_file: MainFile,
    session_files: Vec<SessionFile>,
    /// Teammates that were found to be gone, with the session that they belonged to.
    gone: Vec<(String, EndRecord)>,
    /// Whether to remove leftovers of killed writers, which is done when a session starts or ends.
    tidy: bool,
}

/// What was found in place of the state that viewers poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MainFile {
    NotRead,
    Missing,
    Read,
}

/// The new content of one file.
pub(super) struct StateWrite {
    pub(super) file: StateFile,
    /// The content; `None` to remove the file.
    pub(super) bytes: Option<Vec<u8>>,
}

/// One of the files that a transaction writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StateFile {
    /// The file `agent-state.json`.
    Main,
    /// A file in the folder of sessions.
    Session(String),
    /// The hook memory.
    Memory,
}

impl<'a> StateTxn<'a> {
    /// Starts a transaction. A file is read only when it is needed.
    pub(super) fn new(bkit: &'a Dir, life: &'a SessionLife<'a>) -> Self {
        Self {
            bkit,
            life,
            memory: HookMemory::default(),
            memory_file: Vec::new(),
            main: None,
            main_dirty: false,
            main_file: MainFile::NotRead,
            session_files: Vec::new(),
            gone: Vec::new(),
            tidy: false,
        }
    }

    /// Takes out the teammates that were found to be gone, each with its session.
    pub(super) fn take_gone(&mut self) -> Vec<(String, EndRecord)> {
        std::mem::take(&mut self.gone)
    }

    /// Makes a change in memory.
    pub(super) fn change(&mut self, change: &StateChange) -> Result<Applied, StateError> {
        self.read_main(change.at)?;
        for op in &change.ops {
            if let Op::EndDead { dead } = op {
                self.end_dead(&change.session, dead, change.at)?;
            }
        }
        let place = self.place(change)?;
        let mut memory = self.memory.take(&change.session);
        let now = change.at.to_string();
        let mut effects = Vec::with_capacity(change.ops.len());
        let mut ended = false;
        let state = match &place {
            SessionPlace::Main => &mut self.main,
            SessionPlace::Own(name) => {
                match self
                    .session_files
                    .iter_mut()
                    .find(|file| file.name == *name)
                {
                    Some(side) => &mut side.state,
                    None => &mut None,
                }
            }
            SessionPlace::Nowhere => &mut None,
        };
        let gone = match state {
            Some(state) => mark_gone_failed(state, &mut memory, self.life, &now),
            None => Vec::new(),
        };
        let mut is_changed = !gone.is_empty();
        let gone = gone.into_iter();
        self.gone
            .extend(gone.map(|end| (change.session.clone(), end)));
        for op in &change.ops {
            let is_new = state.is_none() && matches!(op, Op::Init(_) | Op::Ensure(_));
            if is_new && !matches!(place, SessionPlace::Nowhere) {
                *state = Some(AgentState {
                    enabled: false,
                    ..AgentState::new(&change.session, &now)
                });
                self.tidy = true;
            }
            if let Op::Announce(agent) = op {
                memory.announce(agent);
            }
            let effect = match state {
                Some(state) => op.apply(state, &mut memory, &now),
                None => Effect::NoState,
            };
            ended |= matches!(op, Op::CleanUp) && effect.is_change();
            effects.push(effect);
        }
        is_changed |= effects.iter().any(Effect::is_change);
        let names = change.ops.iter().map(|op| match op {
            Op::StartAgent { row, .. } => memory.row_of(&row.name).to_owned(),
            Op::Stop { name, .. } => memory.row_of(name).to_owned(),
            _ => String::new(),
        });
        let name = names.into_iter().find(|name| !name.is_empty());
        let state = state.as_mut().map(|state| {
            // A late change does not set the time of the file back.
            if is_changed && state.last_updated < now {
                state.last_updated = now;
            }
            state.clone()
        });
        if !ended {
            memory.touch(Some(change.at));
            self.memory.put(&change.session, memory);
        }
        if is_changed {
            match place {
                SessionPlace::Main => self.main_dirty = true,
                SessionPlace::Own(name) => {
                    if let Some(side) = self.session_files.iter_mut().find(|file| file.name == name)
                    {
                        side.dirty = true;
                    }
                }
                SessionPlace::Nowhere => {}
            }
        }
        if ended {
            self.tidy = true;
            self.promote(change.at)?;
        }
        Ok(Applied {
            effects,
            state,
            name,
            gone: Vec::new(),
            late: Vec::new(),
        })
    }

    /// Returns the file of the session that made a change. May archive the shown session, or promote this one.
    fn place(&mut self, change: &StateChange) -> Result<SessionPlace, StateError> {
        let session = change.session.as_str();
        let creates = change.creates();
        if change.restarts_session() {
            self.archive_own(session, change.at)?;
        }
        if let Some(main) = &self.main {
            if main.session_id == session {
                return Ok(SessionPlace::Main);
            }
            if self.is_active(main, change.at) {
                return self.own_place(session, creates);
            }
        }
        // The shown session is over, or there is none: this session is promoted if it has started or starts now.
        let own = match layout::session_state_file(session) {
            Some(name) => self
                .session_file(&name)?
                .map(|side| (name, side.state.clone())),
            None => None,
        };
        match own {
            Some((name, Some(state))) if state.enabled || creates => {
                self.archive_main(change.at);
                self.main = Some(state);
                self.main_dirty = true;
                if let Some(side) = self.session_files.iter_mut().find(|file| file.name == name) {
                    side.state = None;
                    side.dirty = true;
                }
                Ok(SessionPlace::Main)
            }
            Some((name, Some(_))) => Ok(SessionPlace::Own(name)),
            _ if creates => {
                self.archive_main(change.at);
                self.main = None;
                Ok(SessionPlace::Main)
            }
            _ => Ok(SessionPlace::Nowhere),
        }
    }

    fn own_place(&mut self, session: &str, creates: bool) -> Result<SessionPlace, StateError> {
        let Some(name) = layout::session_state_file(session) else {
            return Err(StateError::Session(session.to_owned()));
        };
        let is_there = self
            .session_file(&name)?
            .is_some_and(|file| file.state.is_some());
        Ok(if is_there || creates {
            SessionPlace::Own(name)
        } else {
            SessionPlace::Nowhere
        })
    }

    /// Returns whether a session is active: it was updated recently, or its process can be seen.
    fn is_active(&self, state: &AgentState, now: Time) -> bool {
        state.enabled && (state.is_fresh(now) || self.life_of(state) == ProcessState::Alive)
    }

    fn life_of(&self, state: &AgentState) -> ProcessState {
        let memory = self.memory.session(&state.session_id);
        self.life.of(&state.session_id, memory)
    }

    /// Archives an existing state of the session under another name, so that it can start anew.
    fn archive_own(&mut self, session: &str, now: Time) -> Result<(), StateError> {
        let is_main = |main: &AgentState| main.session_id == session;
        let own = if self.main.as_ref().is_some_and(is_main) {
            self.main.take()
        } else {
            match layout::session_state_file(session) {
                None => None,
                Some(name) => {
                    self.session_file(&name)?;
                    let side = self.session_files.iter_mut().find(|file| file.name == name);
                    side.and_then(|side| {
                        side.dirty |= side.state.is_some();
                        side.state.take()
                    })
                }
            }
        };
        self.memory.take(session);
        if let Some(mut own) = own {
            Op::CleanUp.apply(&mut own, &mut SessionMemory::default(), &now.to_string());
            let millis = own.updated().unwrap_or(now).as_millis();
            own.session_id = format!("{session}-{millis}");
            let name = layout::session_state_file(&own.session_id)
                .unwrap_or_else(|| layout::unnamed_state_file(own.updated()));
            self.put_session_file(name, own);
        }
        Ok(())
    }

    /// Archives the shown state under its session's name. A session that is not proven to be over keeps its rows, and
    /// is shown again with its next change.
    fn archive_main(&mut self, now: Time) {
        if let Some(mut main) = self.main.take() {
            if main.enabled && self.life_of(&main) == ProcessState::Gone {
                self.clean_up(&mut main, now);
            }
            let name = layout::session_state_file(&main.session_id)
                .unwrap_or_else(|| layout::unnamed_state_file(main.updated()));
            self.put_session_file(name, main);
        }
    }

    fn put_session_file(&mut self, name: String, state: AgentState) {
        self.session_files.retain(|file| file.name != name);
        self.session_files.push(SessionFile {
            name,
            state: Some(state),
            dirty: true,
        });
    }

    fn clean_up(&mut self, state: &mut AgentState, now: Time) {
        let mut memory = self.memory.take(&state.session_id);
        let gone = mark_gone_failed(state, &mut memory, self.life, &now.to_string());
        let gone = gone.into_iter();
        self.gone
            .extend(gone.map(|end| (state.session_id.clone(), end)));
        Op::CleanUp.apply(state, &mut memory, &now.to_string());
    }

    /// Ends other sessions whose members are all gone.
    fn end_dead(&mut self, me: &str, dead: &[String], now: Time) -> Result<(), StateError> {
        for session in dead.iter().filter(|session| *session != me) {
            let is_main = |main: &AgentState| main.enabled && main.session_id == *session;
            if let Some(mut main) = self.main.take_if(|main| is_main(main)) {
                self.clean_up(&mut main, now);
                self.main_dirty = true;
                self.tidy = true;
                if let Some(name) = layout::session_state_file(session) {
                    self.put_session_file(name, main.clone());
                }
                self.main = Some(main);
                self.promote(now)?;
            } else if let Some(name) = layout::session_state_file(session)
                && let Some(mut state) = self
                    .session_file(&name)?
                    .and_then(|file| file.state.clone())
                && state.enabled
            {
                self.clean_up(&mut state, now);
                self.put_session_file(name, state);
            }
        }
        Ok(())
    }

    /// Shows the session that was updated last when the shown one has ended.
    fn promote(&mut self, now: Time) -> Result<(), StateError> {
        if self.main.as_ref().is_none_or(|main| main.enabled) {
            return Ok(());
        }
        let Some(sessions) = self.bkit.child(layout::STATE_SESSIONS)? else {
            return Ok(());
        };
        for name in state_files(&sessions)? {
            self.session_file(&name)?;
        }
        let shown = self.main.as_ref().map(|main| main.session_id.clone());
        let live = self.session_files.iter().filter(|side| {
            side.state.as_ref().is_some_and(|state| {
                Some(&state.session_id) != shown.as_ref() && self.is_active(state, now)
            })
        });
        let latest =
            live.max_by_key(|file| file.state.as_ref().map(|state| state.last_updated.clone()));
        let Some(name) = latest.map(|file| file.name.clone()) else {
            return Ok(());
        };
        let next = self.session_files.iter_mut().find(|file| file.name == name);
        let next = next.and_then(|next| {
            next.dirty = true;
            next.state.take()
        });
        self.archive_main(now);
        self.main = next;
        self.main_dirty = true;
        Ok(())
    }

    fn read_main(&mut self, now: Time) -> Result<(), StateError> {
        if self.main_file != MainFile::NotRead {
            return Ok(());
        }
        self.main = match read_file(self.bkit, layout::AGENT_STATE) {
            Ok(state) => state,
            Err(StateError::Corrupt { .. }) => {
                let aside = layout::corrupt_state_file(now);
                // If two happen in one millisecond, the later one replaces the earlier.
                self.bkit.rename(layout::AGENT_STATE, self.bkit, &aside)?;
                None
            }
            Err(error) => return Err(error),
        };
        self.main_file = match &self.main {
            Some(_) => MainFile::Read,
            None => MainFile::Missing,
        };
        // An unreadable memory is dropped.
        if let Ok(Some((bytes, _))) = self.bkit.read(layout::HOOK_MEMORY) {
            self.memory = HookMemory::parse(&bytes);
            self.memory_file = bytes;
        }
        Ok(())
    }

    /// Returns a file in the folder of sessions, read once. A file that cannot be parsed is left as it is.
    fn session_file(&mut self, name: &str) -> Result<Option<&SessionFile>, StateError> {
        if !self.session_files.iter().any(|file| file.name == name) {
            let state = match self.bkit.child(layout::STATE_SESSIONS)? {
                None => None,
                Some(sessions) => match read_file(&sessions, name) {
                    Ok(state) => state,
                    Err(StateError::Corrupt { .. }) => None,
                    Err(error) => return Err(error),
                },
            };
            self.session_files.push(SessionFile {
                name: name.to_owned(),
                state,
                dirty: false,
            });
        }
        Ok(self.session_files.iter().find(|file| file.name == name))
    }

    /// Returns whether this transaction creates the state that viewers poll.
    pub(super) fn is_first(&self) -> bool {
        self.main_file == MainFile::Missing && self.main_dirty
    }

    /// Returns every changed file, in an order in which it is safe to write them.
    pub(super) fn outputs(&self) -> Vec<StateWrite> {
        let dirty = || self.session_files.iter().filter(|file| file.dirty);
        let mut outputs: Vec<StateWrite> = dirty()
            .filter_map(|side| {
                Some(StateWrite {
                    file: StateFile::Session(side.name.clone()),
                    bytes: Some(side.state.as_ref()?.to_file()),
                })
            })
            .collect();
        outputs.extend(self.memory_output());
        if let (true, Some(main)) = (self.main_dirty, &self.main) {
            outputs.push(StateWrite {
                file: StateFile::Main,
                bytes: Some(main.to_file()),
            });
        }
        outputs.extend(
            dirty()
                .filter(|file| file.state.is_none())
                .map(|side| StateWrite {
                    file: StateFile::Session(side.name.clone()),
                    bytes: None,
                }),
        );
        outputs
    }

    /// Returns the hook memory if it has changed; none is written while there is nothing to remember.
    fn memory_output(&self) -> Option<StateWrite> {
        let was_nothing = self.memory_file.is_empty() && self.memory == HookMemory::default();
        let bytes = self.memory.to_file();
        (!was_nothing && bytes != self.memory_file).then_some(StateWrite {
            file: StateFile::Memory,
            bytes: Some(bytes),
        })
    }

    /// Writes every file that was changed.
    pub(super) fn commit(self) -> Result<(), StateError> {
        for output in self.outputs() {
            output.write(self.bkit)?;
        }
        if self.tidy {
            self.sweep();
        }
        Ok(())
    }

    /// Removes temp files: their writers held the lock, which this process holds now, so they are dead. Errors are
    /// ignored.
    fn sweep(&self) {
        let sessions = self.bkit.child(layout::STATE_SESSIONS).ok().flatten();
        for dir in std::iter::once(self.bkit).chain(sessions.as_ref()) {
            for entry in dir.entries().into_iter().flatten() {
                if layout::temp_owner(&entry.name).is_some() {
                    let _ = dir.remove(&entry.name);
                }
            }
        }
        if let Some(sessions) = sessions {
            prune(&sessions);
        }
    }
}

/// Removes the oldest ended sessions beyond the limit.
fn prune(sessions: &Dir) {
    let names = state_files(sessions).unwrap_or_default();
    if names.len() <= MOST_ARCHIVED {
        return;
    }
    let mut ended: Vec<(String, String)> = names
        .iter()
        .filter_map(|name| {
            let state = read_file(sessions, name).ok().flatten()?;
            (!state.enabled).then(|| (state.last_updated, name.clone()))
        })
        .collect();
    ended.sort_unstable();
    let extra = ended.len().saturating_sub(MOST_ARCHIVED);
    for (_, name) in &ended[..extra] {
        let _ = sessions.remove(name);
    }
}

impl StateWrite {
    /// Writes or removes the file. A repeated call does no harm.
    pub(super) fn write(&self, bkit: &Dir) -> Result<(), StateError> {
        match (&self.file, &self.bytes) {
            (StateFile::Main, Some(bytes)) => {
                bkit.replace(layout::AGENT_STATE, bytes, Durability::Fast)?;
            }
            (StateFile::Memory, Some(bytes)) => {
                bkit.replace(layout::HOOK_MEMORY, bytes, Durability::Fast)?;
            }
            // Neither the shown state nor the hook memory is ever removed.
            (StateFile::Main | StateFile::Memory, None) => {}
            (StateFile::Session(name), Some(bytes)) => {
                let sessions = bkit.child_or_create(layout::STATE_SESSIONS)?;
                sessions.replace(name, bytes, Durability::Fast)?;
            }
            (StateFile::Session(name), None) => {
                if let Some(sessions) = bkit.child(layout::STATE_SESSIONS)? {
                    sessions.remove(name)?;
                }
            }
        }
        Ok(())
    }
}

/// Shows teammates that are proven gone as failed: by the process that called their hooks, or by the sessions that the
/// client recorded for their panes. Returns these teammates; each is reported once.
fn mark_gone_failed(
    state: &mut AgentState,
    memory: &mut SessionMemory,
    life: &SessionLife<'_>,
    now: &str,
) -> Vec<EndRecord> {
    let is_gone = |process| life.machine().process_state(process) == ProcessState::Gone;
    let recorded = memory.teammates.iter();
    let mut gone: Vec<(String, u32)> = recorded
        .filter(|(_, process)| is_gone(process))
        .map(|(name, process)| (name.clone(), process.pid))
        .collect();
    let active = state.teammates.iter().filter(|row| row.status.is_active());
    let unrecorded = active.filter(|row| !memory.teammates.contains_key(&row.name));
    gone.extend(unrecorded.filter_map(|row| {
        let pid = life.gone_in_pane(&state.session_id, &row.name)?;
        Some((row.name.clone(), pid))
    }));
    let mut ends = Vec::new();
    for (name, pid) in gone {
        let status = state.teammate(&name).map(|row| row.status);
        if matches!(status, None | Some(Status::Completed)) {
            memory.teammates.remove(&name);
            continue;
        }
        ends.push(EndRecord::vanished(&state.team_name, &name));
        let stop = Op::Stop {
            name: name.clone(),
            failed: true,
            reason: Some(format!("process {pid} is gone")),
        };
        memory.note_gone(&name);
        // A row whose last turn had failed keeps its error.
        stop.apply(state, memory, now);
    }
    ends
}
