//! `agent-state.json`: who works on this project right now, for any program that polls it.
//!
//! A change is a list of [`Op`]s made by one session at one moment. It is applied whole: one lock, one read, one
//! write, one rename. Whoever cannot have the lock in time leaves the change as one line in `pending.jsonl`, and the
//! next holder of the lock applies it first; so an update may be late, and is never lost.
//!
//! A session writes one file. The one that viewers know is `agent-state.json`; while it shows a living session,
//! another session writes to `sessions/{session}.json` and moves up when the shown one ends. A session lives as long as
//! its process can be seen (`life`); its age counts only where that cannot be seen.
//!
//! What hooks need to know of earlier hooks and viewers do not is beside it, in `hook-memory.json` (`memory`).
//!
//! # Changes that came too late for the lock
//!
//! A writer appends its change as one line to `pending.jsonl`, under a lock on that very file, which is held for one
//! write only. The next holder of the state's lock takes the file away by renaming it, applies every line, replaces
//! the taken file by the outcome (the whole content of every state file that is another one now), writes these files,
//! and removes it.
//!
//! Whoever cannot have the lock of `pending.jsonl` either, because its holder was stopped in the middle of a write, puts
//! its line into a file of its own in `.pending/`. The holder of the state's lock takes these one by one.
//!
//! A line that comes while the holder is about to let go is not overlooked: the holder looks once more after it has
//! let go, and whoever left a line tries the lock once more. One of the two sees the other.
//!
//! A holder that is killed leaves either the lines, which were not applied yet, or the outcome, which may be written
//! any number of times. So no line is lost and none counts twice, whatever the lines say.

mod life;
mod memory;
mod ops;
mod record;
#[cfg(test)]
mod tests;
mod txn;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use teamster_fs::layout::{self, Layout};
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, FileKind, FsError, Lock, OrTrace as _, Sync, Waited};
use teamster_types::Time;
use teamster_types::end::EndRecord;
use teamster_types::process::{Life, ProcessId};

use life::SessionLife;
use memory::HookMemory;
use record::{read_file, state_files};
use txn::{StateFile, StateTxn, StateWrite};

pub use memory::AnnouncedAgent;
pub use ops::{Begin, Effect, Op, StateChange, TeammateRow};
pub use record::{
    AgentState, Letter, Liveness, Model, Pattern, Phase, ShownProgress, ShownSession, Status,
    Teammate,
};

/// The lock of the pending file is held for one write or one rename; longer means that its holder is stopped.
const PATIENCE: Duration = Duration::from_millis(80);

/// Limits how often a write is tried again because its folder vanished after it was opened.
const TRIES: usize = 10;

/// A state is stale when it was not updated for longer.
pub const STALE_AFTER: Duration = Duration::from_secs(5 * 60);
/// Rows in a roster.
pub const MOST_ROWS: usize = 10;
/// Messages that are kept.
pub const MOST_MESSAGES: usize = 50;
/// Limits names and roles in a state file, in characters.
pub const LONGEST_TEXT: usize = 200;
/// Limits a message in a state file, in characters.
pub const LONGEST_MESSAGE: usize = 2_000;
/// Limits the description of a task in a state file, in characters.
pub const LONGEST_TASK: usize = 100;

/// Tells why a state was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Somebody else held the lock all the time.
    #[error("another process has held {} for {} ms", lock.display(), waited.as_millis())]
    Busy {
        /// The lock.
        lock: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// There is no project folder.
    #[error("there is no folder {}", .0.display())]
    NoProject(PathBuf),
    /// A session whose id cannot be a file's name, while another session is shown.
    #[error("the session `{0}` cannot have a file of its own")]
    Session(String),
    /// The file is there and cannot be understood.
    #[error("cannot understand {}: {error}", file.display())]
    Corrupt {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        error: String,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// Tells what became of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// One for each operation, in order.
    pub effects: Vec<Effect>,
    /// The state of the session after it; `None` when there is none.
    pub state: Option<AgentState>,
    /// The row of the agent that began or ended a turn.
    pub name: Option<String>,
    /// Teammates that were found to be gone, and are recorded.
    pub(crate) gone: Vec<EndRecord>,
    /// What could not be shown of changes that others had left.
    pub late: Vec<Effect>,
}

/// The state files of one project.
#[derive(Clone, Debug)]
pub struct States {
    project: PathBuf,
    claude: PathBuf,
}

impl States {
    /// Those of the project in `layout`.
    pub fn of(layout: &Layout) -> Self {
        Self {
            project: layout.project.clone(),
            claude: layout.claude.clone(),
        }
    }

    /// Returns the file that viewers poll.
    pub fn path(&self) -> PathBuf {
        self.project.join(layout::BKIT).join(layout::AGENT_STATE)
    }

    /// Makes a change, waiting up to `patience` for others.
    pub fn apply(&self, change: StateChange, patience: Duration) -> Result<Applied, StateError> {
        self.make(&change.cleaned(), patience)
    }

    /// Makes a change like [`States::apply`], but leaves it for the next holder when others hold the lock all the time.
    /// Returns `None` when it was left.
    pub fn apply_or_leave(
        &self,
        change: StateChange,
        patience: Duration,
    ) -> Result<Option<Applied>, StateError> {
        let change = change.cleaned();
        match self.make(&change, patience) {
            Ok(applied) => Ok(Some(applied)),
            Err(StateError::Busy { .. }) => {
                let bkit = self.folder()?;
                leave(&bkit, &change)?;
                // The lock may have become free since, and then nobody else would look.
                let late = catch_up(&bkit, &SessionLife::new(&self.claude), false);
                self.record(&late.gone, change.at);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the state that viewers poll; `None` when there is none.
    pub fn read(&self) -> Result<Option<AgentState>, StateError> {
        let Some(bkit) = self.open_project()?.child(layout::BKIT)? else {
            return Ok(None);
        };
        read_file(&bkit, layout::AGENT_STATE)
    }

    /// Returns every session's state, the one that viewers poll first. A file that cannot be understood hides no other.
    pub fn all(&self) -> Result<Vec<ShownSession>, StateError> {
        let Some(bkit) = self.open_project()?.child(layout::BKIT)? else {
            return Ok(Vec::new());
        };
        let mut all: Vec<ShownSession> = Vec::new();
        if let Ok(Some(state)) = read_file(&bkit, layout::AGENT_STATE) {
            all.push(ShownSession {
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
                all.push(ShownSession {
                    state,
                    is_main: false,
                });
            }
        }
        Ok(all)
    }

    /// Returns whether a file of a state is there and cannot be understood, as while another program writes it in place.
    pub fn has_damaged(&self) -> bool {
        let is_damaged =
            |dir: &Dir, name: &str| matches!(read_file(dir, name), Err(StateError::Corrupt { .. }));
        let bkit = self.open_project().ok();
        let Some(bkit) = bkit.and_then(|project| project.child(layout::BKIT).ok()?) else {
            return false;
        };
        if is_damaged(&bkit, layout::AGENT_STATE) {
            return true;
        }
        let Ok(Some(sessions)) = bkit.child(layout::STATE_SESSIONS) else {
            return false;
        };
        let names = state_files(&sessions).unwrap_or_default();
        names.iter().any(|name| is_damaged(&sessions, name))
    }

    /// Returns the state of one session, whether it is shown or not; `None` when it has none.
    pub fn of_session(&self, session: &str) -> Result<Option<AgentState>, StateError> {
        let Some(bkit) = self.open_project()?.child(layout::BKIT)? else {
            return Ok(None);
        };
        let main = read_file(&bkit, layout::AGENT_STATE)?;
        if main.as_ref().is_some_and(|main| main.session_id == session) {
            return Ok(main);
        }
        let sessions = bkit.child(layout::STATE_SESSIONS)?;
        match (sessions, layout::session_state_file(session)) {
            (Some(sessions), Some(file)) => read_file(&sessions, &file),
            _ => Ok(None),
        }
    }

    /// Returns how a viewer shows a state at this time. A session whose process can be seen is live however long it was
    /// quiet.
    pub fn viewed(&self, state: &AgentState, now: Time) -> Liveness {
        match state.viewed(now) {
            Liveness::Stale if self.life(state) == Life::Alive => Liveness::Live,
            viewed => viewed,
        }
    }

    /// Returns the sessions other than `me` that have not ended and of which everybody is proven gone.
    pub fn dead(&self, me: &str) -> Result<Vec<String>, StateError> {
        let others = self.all()?.into_iter().map(|shown| shown.state);
        let others = others.filter(|state| state.enabled && state.session_id != me);
        let dead = others.filter(|state| self.life(state) == Life::Gone);
        Ok(dead.map(|state| state.session_id).collect())
    }

    /// Returns the process of the lead of a session, as its hooks told it.
    pub fn lead_process(&self, session: &str) -> Option<ProcessId> {
        self.memory().session(session)?.lead.clone()
    }

    /// Returns the teammates of a state that have a process of their own which is gone, each with its pid.
    pub fn gone_teammates(&self, state: &AgentState) -> BTreeMap<String, u32> {
        let memory = self.memory();
        match memory.session(&state.session_id) {
            Some(memory) => memory.gone(state, &Machine::read()),
            None => BTreeMap::new(),
        }
    }

    /// Returns whether a teammate of a session is proven gone and nothing tells of it yet.
    pub fn has_gone(&self, session: &str) -> bool {
        let Ok(Some(state)) = self.of_session(session) else {
            return false;
        };
        if state.teammates.is_empty() {
            return false;
        }
        let memory = self.memory();
        let memory = memory.session(session);
        if memory.is_some_and(|memory| memory.has_untold(&state, &Machine::read())) {
            return true;
        }
        let life = SessionLife::new(&self.claude);
        let mut active = state.teammates.iter().filter(|row| row.status.is_active());
        active.any(|row| life.gone_in_pane(session, &row.name).is_some())
    }

    fn memory(&self) -> HookMemory {
        let memory = || -> Option<HookMemory> {
            let bkit = self.open_project().ok()?.child(layout::BKIT).ok()??;
            let (bytes, _) = bkit.read(layout::HOOK_MEMORY).ok()??;
            Some(HookMemory::parse(&bytes))
        };
        memory().unwrap_or_default()
    }

    fn life(&self, state: &AgentState) -> Life {
        let session = &state.session_id;
        SessionLife::new(&self.claude).of(session, self.memory().session(session))
    }

    fn make(&self, change: &StateChange, patience: Duration) -> Result<Applied, StateError> {
        let project = self.open_project()?;
        let (bkit, is_new) = match project.child(layout::BKIT)? {
            Some(bkit) => (bkit, false),
            None if change.needs_folder() => (project.child_or_create(layout::BKIT)?, true),
            // Nothing is there that could be changed.
            None => return Ok(Applied::default()),
        };
        let lock = match Lock::wait(&bkit, layout::STATE_LOCK, patience, false)? {
            Waited::Held(lock) => lock,
            Waited::TimedOut => {
                return Err(StateError::Busy {
                    lock: bkit.join(layout::STATE_LOCK),
                    waited: patience,
                });
            }
        };
        let life = SessionLife::new(&self.claude);
        let finished = finish(&bkit, &life)?;
        let mut txn = StateTxn::new(&bkit, &life);
        let mut applied = txn.change(change)?;
        let is_first = txn.is_first();
        let mut gone = txn.take_gone();
        txn.commit()?;
        drop(lock);
        if is_new || is_first {
            // A repository that cannot be written to shows our folders as untracked, and that is all.
            let _ = teamster_fs::exclude_from_git(&self.project, &layout::OUR_FOLDERS);
        }
        let late = catch_up(&bkit, &life, finished.stays);
        applied.late = finished.effects;
        applied.late.extend(late.effects);
        gone.extend(finished.gone.into_iter().chain(late.gone));
        self.record(&gone, change.at);
        applied.gone = gone.into_iter().map(|(_, end)| end).collect();
        Ok(applied)
    }

    /// Records the ends of those who are gone. What cannot be recorded is shown all the same.
    fn record(&self, gone: &[(String, EndRecord)], now: Time) {
        for (session, end) in gone {
            if let Ok(Some(claude)) = Dir::open_root(&self.claude) {
                let line = end.to_line(session, now);
                claude
                    .append(layout::ZOMBIE_ALERTS, &line, teamster_fs::Sync::Fast)
                    .or_trace("record the end of a teammate");
            }
        }
    }

    fn open_project(&self) -> Result<Dir, StateError> {
        Dir::open_root(&self.project)?.ok_or_else(|| StateError::NoProject(self.project.clone()))
    }

    fn folder(&self) -> Result<Dir, StateError> {
        Ok(self.open_project()?.child_or_create(layout::BKIT)?)
    }
}

/// Applies what was left while the lock was held, unless somebody else holds it by now, who will do so. What goes wrong
/// is left for the next holder: the caller's own change has happened.
///
/// Everything is looked at after the lock was let go. Whoever leaves something later than that finds the lock free.
fn catch_up(bkit: &Dir, life: &SessionLife<'_>, mut stays: bool) -> AppliedPending {
    let mut late = AppliedPending::default();
    while matches!(is_waiting(bkit), Ok(true)) {
        // Somebody is stopped while it appends, or was for a moment only: then its line can be taken now.
        if stays && !is_free(bkit) {
            break;
        }
        let waited = Lock::wait(bkit, layout::STATE_LOCK, Duration::ZERO, false);
        let Ok(Waited::Held(lock)) = waited else {
            break;
        };
        let Ok(finished) = finish(bkit, life) else {
            break;
        };
        drop(lock);
        late.effects.extend(finished.effects);
        late.gone.extend(finished.gone);
        stays = finished.stays;
    }
    late
}

/// Holds what replaces the taken file once its lines are applied.
#[derive(Deserialize, Serialize)]
struct PendingOutcome {
    outcome: Vec<PendingFile>,
}

#[derive(Deserialize, Serialize)]
struct PendingFile {
    /// A name in the folder of sessions; `None`: the shown state, or what hooks remember.
    session: Option<String>,
    #[serde(default)]
    is_memory: bool,
    /// `None`: it is removed.
    content: Option<String>,
}

/// Leaves a change for the next holder of the state's lock.
fn leave(bkit: &Dir, change: &StateChange) -> Result<(), StateError> {
    let lock = match Lock::wait(bkit, layout::PENDING, PATIENCE, false)? {
        Waited::Held(lock) => lock,
        Waited::TimedOut => return leave_alone(bkit, change),
    };
    let mut line = teamster_types::json::to_line(change);
    // Whoever was killed in the middle of a line spoils only that line.
    if !ends_with_a_line(bkit)? {
        line.insert(0, b'\n');
    }
    bkit.append(layout::PENDING, &line, Sync::Fast)?;
    drop(lock);
    Ok(())
}

/// Leaves a change in a file of its own, which no other writer can hold.
fn leave_alone(bkit: &Dir, change: &StateChange) -> Result<(), StateError> {
    let name = layout::pending_file(change.at, &teamster_fs::random_hex());
    let line = teamster_types::json::to_line(change);
    let mut tries = 0;
    loop {
        let written = bkit
            .child_or_create(layout::PENDING_ALONE)
            .and_then(|folder| folder.replace(&name, &line, Sync::Fast));
        match written {
            // Whoever took the last file out has removed the folder under our hands.
            Err(error) if error.io_kind() == Some(ErrorKind::NotFound) && tries < TRIES => {
                tries += 1;
            }
            other => return Ok(other?),
        }
    }
}

fn ends_with_a_line(bkit: &Dir) -> Result<bool, StateError> {
    let size = bkit.stamp(layout::PENDING)?.map_or(0, |stamp| stamp.size);
    let Some(last) = size.checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [b'\n'];
    bkit.read_at(layout::PENDING, &mut byte, last)?;
    Ok(byte == *b"\n")
}

/// Returns whether somebody left something.
fn is_waiting(bkit: &Dir) -> Result<bool, StateError> {
    if is_there(bkit, layout::PENDING)? {
        return Ok(true);
    }
    if !is_left_alone(bkit)? {
        return Ok(false);
    }
    let folder = bkit.child(layout::PENDING_ALONE)?;
    let entries = folder.map_or_else(|| Ok(Vec::new()), |folder| folder.entries())?;
    let is_whole = |name: &str| layout::temp_owner(name).is_none();
    Ok(entries.iter().any(|entry| is_whole(&entry.name)))
}

/// Returns whether nobody is appending at this moment.
fn is_free(bkit: &Dir) -> bool {
    let waited = Lock::wait(bkit, layout::PENDING, Duration::ZERO, false);
    matches!(waited, Ok(Waited::Held(_)))
}

fn is_left_alone(bkit: &Dir) -> Result<bool, StateError> {
    let stamp = bkit.stamp(layout::PENDING_ALONE)?;
    Ok(stamp.is_some_and(|stamp| stamp.kind == FileKind::Folder))
}

/// Tells what came of the changes that others had left.
#[derive(Default)]
struct AppliedPending {
    /// What could not be shown of it.
    effects: Vec<Effect>,
    /// Teammates that were found to be gone, each with its session.
    gone: Vec<(String, EndRecord)>,
    /// Whether something stays: a writer who is stopped while it appends keeps its file to itself.
    stays: bool,
}

/// Applies what others left. The caller holds the state's lock.
fn finish(bkit: &Dir, life: &SessionLife<'_>) -> Result<AppliedPending, StateError> {
    let mut finished = AppliedPending::default();
    if is_there(bkit, layout::PENDING_CLAIMED)? {
        finish_claimed(bkit, life, &mut finished)?;
    }
    if is_there(bkit, layout::PENDING)? {
        if claim(bkit)? {
            finish_claimed(bkit, life, &mut finished)?;
        } else {
            finished.stays = true;
        }
    }
    if is_left_alone(bkit)? {
        finish_alone(bkit, life, &mut finished)?;
    }
    Ok(finished)
}

/// Applies the files of those who could not append, in the order in which they came.
fn finish_alone(
    bkit: &Dir,
    life: &SessionLife<'_>,
    finished: &mut AppliedPending,
) -> Result<(), StateError> {
    let Some(folder) = bkit.child(layout::PENDING_ALONE)? else {
        return Ok(());
    };
    let mut names: Vec<String> = folder.entries()?.into_iter().map(|e| e.name).collect();
    names.sort_unstable();
    for name in names {
        match layout::temp_owner(&name) {
            None => {
                folder.rename(&name, bkit, layout::PENDING_CLAIMED)?;
                finish_claimed(bkit, life, finished)?;
            }
            // A temp file is its writer's until it has its name; one of a dead writer holds nothing whole.
            Some(pid) if is_gone(pid) => drop(folder.remove(&name)?),
            Some(_) => {}
        }
    }
    // If somebody has put another one there meanwhile, the folder stays.
    let _ = bkit.remove_dir(layout::PENDING_ALONE);
    Ok(())
}

fn is_gone(pid: u32) -> bool {
    let machine = Machine::read();
    let writer = ProcessId {
        pid,
        process_start_time: 0,
        ..machine.me().clone()
    };
    machine.life(&writer) == Life::Gone
}

/// Something else than a file under that name is nobody's change.
fn is_there(bkit: &Dir, name: &str) -> Result<bool, StateError> {
    let stamp = bkit.stamp(name)?;
    Ok(stamp.is_some_and(|stamp| stamp.kind == FileKind::File))
}

/// Takes the file away, so that later changes go to a new one. False when somebody is stopped while writing to it;
/// the next holder will try again.
fn claim(bkit: &Dir) -> Result<bool, StateError> {
    match Lock::wait(bkit, layout::PENDING, PATIENCE, false)? {
        Waited::TimedOut => Ok(false),
        Waited::Held(_lock) => {
            bkit.rename(layout::PENDING, bkit, layout::PENDING_CLAIMED)?;
            Ok(true)
        }
    }
}

fn finish_claimed(
    bkit: &Dir,
    life: &SessionLife<'_>,
    finished: &mut AppliedPending,
) -> Result<(), StateError> {
    let Some((bytes, _)) = bkit.read(layout::PENDING_CLAIMED)? else {
        return Ok(());
    };
    let outcome = match serde_json::from_slice::<PendingOutcome>(&bytes) {
        Ok(outcome) => outcome.outcome.into_iter().map(StateWrite::from).collect(),
        Err(_) => apply(bkit, life, &bytes, finished)?,
    };
    for output in &outcome {
        output.write(bkit)?;
    }
    bkit.remove(layout::PENDING_CLAIMED)?;
    Ok(())
}

/// Applies the lines in memory and puts the outcome in their place.
fn apply(
    bkit: &Dir,
    life: &SessionLife<'_>,
    bytes: &[u8],
    finished: &mut AppliedPending,
) -> Result<Vec<StateWrite>, StateError> {
    let mut txn = StateTxn::new(bkit, life);
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(change) = serde_json::from_slice::<StateChange>(line) {
            match txn.change(&change.cleaned()) {
                Ok(applied) => {
                    let full = |effect: &Effect| matches!(effect, Effect::Full(_));
                    let effects = applied.effects.into_iter();
                    finished.effects.extend(effects.filter(full));
                }
                // A session that can have no file was refused, and will be again.
                Err(StateError::Session(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    finished.gone.extend(txn.take_gone());
    let outputs = txn.outputs();
    let outcome = PendingOutcome {
        outcome: outputs.iter().map(PendingFile::from).collect(),
    };
    let bytes = serde_json::to_vec(&outcome).unwrap_or_default();
    bkit.replace(layout::PENDING_CLAIMED, &bytes, Sync::Fast)?;
    Ok(outputs)
}

impl From<PendingFile> for StateWrite {
    fn from(file: PendingFile) -> Self {
        Self {
            file: match file.session {
                Some(name) => StateFile::Side(name),
                None if file.is_memory => StateFile::Memory,
                None => StateFile::Main,
            },
            bytes: file.content.map(String::into_bytes),
        }
    }
}

impl From<&StateWrite> for PendingFile {
    fn from(output: &StateWrite) -> Self {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        Self {
            session: match &output.file {
                StateFile::Side(name) => Some(name.clone()),
                StateFile::Main | StateFile::Memory => None,
            },
            is_memory: output.file == StateFile::Memory,
            content: output.bytes.as_ref().map(text),
        }
    }
}
