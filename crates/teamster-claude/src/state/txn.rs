//! Which file is whose: read under the lock, changed in memory, written back once.
//!
//! The order of writing makes every moment of a crash harmless: what is archived is written before it is replaced,
//! and the file of a session that moved up is removed last. If that does not happen any more, `agent-state.json`
//! counts, because a session that is shown there never writes to the other place.

use teamster_fs::{Dir, Sync, layout};
use teamster_types::Time;

use super::ops::{Change, Effect, Op};
use super::record::{AgentState, read_file, state_files};
use super::{Applied, StateError};

/// Ended sessions that are kept; the oldest give way.
const MOST_ARCHIVED: usize = 50;

/// A session's place while the lock is held.
enum Place {
    /// `agent-state.json`
    Main,
    /// A file in the folder of sessions.
    Own(String),
    /// There is no state to change.
    Nowhere,
}

/// A file in the folder of sessions.
struct Side {
    name: String,
    /// `None`: it is to be removed, or is not there.
    state: Option<AgentState>,
    dirty: bool,
}

/// The files that a holder of the lock works on.
pub(super) struct StateTxn<'a> {
    bkit: &'a Dir,
    main: Option<AgentState>,
    main_dirty: bool,
    main_read: bool,
    sides: Vec<Side>,
    /// What is left behind by writers that were killed goes when a session begins or ends.
    tidy: bool,
}

/// One file as it is to be: a name in the folder of sessions or the main one, and its content; none to remove it.
pub(super) struct Output {
    /// `None`: `agent-state.json`.
    pub(super) side: Option<String>,
    pub(super) bytes: Option<Vec<u8>>,
}

impl<'a> StateTxn<'a> {
    /// Nothing is read before it is needed.
    pub(super) fn new(bkit: &'a Dir) -> Self {
        Self {
            bkit,
            main: None,
            main_dirty: false,
            main_read: false,
            sides: Vec::new(),
            tidy: false,
        }
    }

    /// Makes a change in memory.
    pub(super) fn change(&mut self, change: &Change) -> Result<Applied, StateError> {
        self.read_main(change.at)?;
        for op in &change.ops {
            if let Op::EndDead { dead } = op {
                self.end_dead(&change.session, dead.as_deref(), change.at)?;
            }
        }
        let place = self.place(change)?;
        let now = change.at.to_string();
        let mut effects = Vec::with_capacity(change.ops.len());
        let mut ended = false;
        let state = match &place {
            Place::Main => &mut self.main,
            Place::Own(name) => match self.sides.iter_mut().find(|side| side.name == *name) {
                Some(side) => &mut side.state,
                None => &mut None,
            },
            Place::Nowhere => &mut None,
        };
        for op in &change.ops {
            let is_new = state.is_none() && matches!(op, Op::Init(_) | Op::Ensure(_));
            if is_new && !matches!(place, Place::Nowhere) {
                *state = Some(AgentState {
                    enabled: false,
                    ..AgentState::new(&change.session, &now)
                });
                self.tidy = true;
            }
            let effect = match state {
                Some(state) => op.apply(state, &now),
                None => Effect::NoState,
            };
            ended |= matches!(op, Op::CleanUp) && effect.is_change();
            effects.push(effect);
        }
        let state = state.as_mut().map(|state| {
            if effects.iter().any(Effect::is_change) {
                // A late change does not make the file look older than it is.
                if state.last_updated < now {
                    state.last_updated = now;
                }
                if state.session_id.is_empty() {
                    state.session_id.clone_from(&change.session);
                }
            }
            state.clone()
        });
        if effects.iter().any(Effect::is_change) {
            match place {
                Place::Main => self.main_dirty = true,
                Place::Own(name) => {
                    if let Some(side) = self.sides.iter_mut().find(|side| side.name == name) {
                        side.dirty = true;
                    }
                }
                Place::Nowhere => {}
            }
        }
        if ended {
            self.tidy = true;
            self.promote(change.at)?;
        }
        Ok(Applied {
            effects,
            state,
            late: Vec::new(),
        })
    }

    /// Where the session of a change has its state. May archive the shown one, or move the session up.
    fn place(&mut self, change: &Change) -> Result<Place, StateError> {
        let session = change.session.as_str();
        let creates = change.creates();
        // A script that names no session means what is shown.
        if session.is_empty() && !creates {
            return Ok(Place::Main);
        }
        if let Some(main) = &self.main {
            let begins_anew =
                session.is_empty() && change.ops.iter().any(|op| matches!(op, Op::Init(_)));
            let is_own = main.session_id == session && (main.enabled || !begins_anew);
            let is_anybodys = main.session_id.is_empty() || session.is_empty();
            if is_own || (is_anybodys && main.enabled) {
                return Ok(Place::Main);
            }
            if main.is_live(change.at) {
                return self.own_place(session, creates);
            }
        }
        // What is shown is over, or nothing is: the session moves up if it has begun or begins.
        let own = match layout::session_state_file(session) {
            Some(name) => self.side(&name)?.map(|side| (name, side.state.clone())),
            None => None,
        };
        match own {
            Some((name, Some(state))) if state.enabled || creates => {
                self.archive_main(change.at);
                self.main = Some(state);
                self.main_dirty = true;
                if let Some(side) = self.sides.iter_mut().find(|side| side.name == name) {
                    side.state = None;
                    side.dirty = true;
                }
                Ok(Place::Main)
            }
            Some((name, Some(_))) => Ok(Place::Own(name)),
            _ if creates => {
                self.archive_main(change.at);
                self.main = None;
                Ok(Place::Main)
            }
            _ => Ok(Place::Nowhere),
        }
    }

    fn own_place(&mut self, session: &str, creates: bool) -> Result<Place, StateError> {
        let Some(name) = layout::session_state_file(session) else {
            return Err(StateError::Session(session.to_owned()));
        };
        let is_there = self.side(&name)?.is_some_and(|side| side.state.is_some());
        Ok(if is_there || creates {
            Place::Own(name)
        } else {
            Place::Nowhere
        })
    }

    /// Keeps what is shown under its session's name.
    fn archive_main(&mut self, now: Time) {
        if let Some(mut main) = self.main.take() {
            if main.enabled {
                // It was not heard of for too long: nobody will say its end any more.
                Op::CleanUp.apply(&mut main, &now.to_string());
            }
            let name = layout::session_state_file(&main.session_id)
                .unwrap_or_else(|| layout::unnamed_state_file(main.updated()));
            self.put_side(name, main);
        }
    }

    fn put_side(&mut self, name: String, state: AgentState) {
        self.sides.retain(|side| side.name != name);
        self.sides.push(Side {
            name,
            state: Some(state),
            dirty: true,
        });
    }

    /// Another session that is shown although nobody of it is left is over now.
    fn end_dead(&mut self, me: &str, dead: Option<&str>, now: Time) -> Result<(), StateError> {
        let Some(main) = &mut self.main else {
            return Ok(());
        };
        let is_dead = !main.is_live(now) || dead.is_some_and(|dead| dead == main.session_id);
        if !main.enabled || main.session_id == me || !is_dead {
            return Ok(());
        }
        Op::CleanUp.apply(main, &now.to_string());
        self.main_dirty = true;
        self.tidy = true;
        let main = main.clone();
        if let Some(name) = layout::session_state_file(&main.session_id) {
            self.put_side(name, main);
        }
        self.promote(now)
    }

    /// When the shown session has ended, the one that was heard of last moves up.
    fn promote(&mut self, now: Time) -> Result<(), StateError> {
        if self.main.as_ref().is_none_or(|main| main.enabled) {
            return Ok(());
        }
        let Some(sessions) = self.bkit.child(layout::STATE_SESSIONS)? else {
            return Ok(());
        };
        for name in state_files(&sessions)? {
            self.side(&name)?;
        }
        let shown = self.main.as_ref().map(|main| main.session_id.clone());
        let latest = self
            .sides
            .iter_mut()
            .filter(|side| {
                let state = side.state.as_ref();
                state.is_some_and(|state| {
                    state.is_live(now) && Some(&state.session_id) != shown.as_ref()
                })
            })
            .max_by_key(|side| side.state.as_ref().map(|state| state.last_updated.clone()));
        let Some(next) = latest else {
            return Ok(());
        };
        let next = {
            next.dirty = true;
            next.state.take()
        };
        self.archive_main(now);
        self.main = next;
        self.main_dirty = true;
        Ok(())
    }

    fn read_main(&mut self, now: Time) -> Result<(), StateError> {
        if self.main_read {
            return Ok(());
        }
        self.main = match read_file(self.bkit, layout::AGENT_STATE) {
            Ok(state) => state,
            Err(StateError::Corrupt { .. }) => {
                let aside = layout::corrupt_state_file(now);
                // Two in one millisecond: the later one says no less.
                self.bkit.rename(layout::AGENT_STATE, self.bkit, &aside)?;
                None
            }
            Err(error) => return Err(error),
        };
        self.main_read = true;
        Ok(())
    }

    /// A file in the folder of sessions, read once. One that cannot be understood is left as it is.
    fn side(&mut self, name: &str) -> Result<Option<&Side>, StateError> {
        if !self.sides.iter().any(|side| side.name == name) {
            let state = match self.bkit.child(layout::STATE_SESSIONS)? {
                None => None,
                Some(sessions) => match read_file(&sessions, name) {
                    Ok(state) => state,
                    Err(StateError::Corrupt { .. }) => None,
                    Err(error) => return Err(error),
                },
            };
            self.sides.push(Side {
                name: name.to_owned(),
                state,
                dirty: false,
            });
        }
        Ok(self.sides.iter().find(|side| side.name == name))
    }

    /// Every file that is another one now, in the order in which it is safe to write them.
    pub(super) fn outputs(&self) -> Vec<Output> {
        let dirty = || self.sides.iter().filter(|side| side.dirty);
        let mut outputs: Vec<Output> = dirty()
            .filter_map(|side| {
                Some(Output {
                    side: Some(side.name.clone()),
                    bytes: Some(side.state.as_ref()?.to_file()),
                })
            })
            .collect();
        if let (true, Some(main)) = (self.main_dirty, &self.main) {
            outputs.push(Output {
                side: None,
                bytes: Some(main.to_file()),
            });
        }
        outputs.extend(
            dirty()
                .filter(|side| side.state.is_none())
                .map(|side| Output {
                    side: Some(side.name.clone()),
                    bytes: None,
                }),
        );
        outputs
    }

    /// Writes what was changed.
    pub(super) fn commit(self) -> Result<(), StateError> {
        for output in self.outputs() {
            output.write(self.bkit)?;
        }
        if self.tidy {
            self.sweep();
        }
        Ok(())
    }

    /// Whoever wrote a temp file here held the lock, which is ours now: it is dead. Failing to tidy is no failure.
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

/// Removes the oldest of too many ended sessions.
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

impl Output {
    /// Makes it so. Doing it twice does no harm.
    pub(super) fn write(&self, bkit: &Dir) -> Result<(), StateError> {
        match (&self.side, &self.bytes) {
            (None, Some(bytes)) => bkit.replace(layout::AGENT_STATE, bytes, Sync::Fast)?,
            // The shown state is never removed.
            (None, None) => {}
            (Some(name), Some(bytes)) => {
                let sessions = bkit.child_or_create(layout::STATE_SESSIONS)?;
                sessions.replace(name, bytes, Sync::Fast)?;
            }
            (Some(name), None) => {
                if let Some(sessions) = bkit.child(layout::STATE_SESSIONS)? {
                    sessions.remove(name)?;
                }
            }
        }
        Ok(())
    }
}
