//! `agent-state.json`: the agents that currently work on this project, for any program that polls it.
//!
//! A change is a list of [`Op`]s made by one session at one moment. It is applied as a whole: one lock, one read, one
//! write, one rename. A writer that cannot get the lock in time leaves the change as one line in `pending.jsonl`, and
//! the next holder of the lock applies it first; so an update may be late, but is never lost.
//!
//! A session writes one file. Viewers read `agent-state.json`; while it shows a live session, another session writes to
//! `sessions/{session}.json` and is promoted when the shown one ends. A session is live as long as its process can be
//! seen (`life`); its age counts only where that is impossible.
//!
//! State that hooks need from earlier hooks and viewers do not is in `hook-memory.json` beside it (`memory`).
//!
//! # Changes that missed the lock
//!
//! A writer appends its change as one line to `pending.jsonl`, under a lock on that file, which is held for one write
//! only. The next holder of the state's lock claims the file by renaming it, applies every line, replaces the claimed
//! file by the outcome (the whole content of every changed state file), writes these files, and removes it.
//!
//! A writer that cannot get the lock of `pending.jsonl` either, because its holder was stopped in the middle of a
//! write, puts its line into a separate file in `.pending/`. The holder of the state's lock claims these one by one.
//!
//! A line that arrives while the holder is about to release the lock is not missed: the holder checks once more after
//! the release, and a writer that left a line tries the lock once more. One of the two sees the other.
//!
//! A holder that is killed leaves either the lines, which were not applied yet, or the outcome, which may be written
//! any number of times. So no line is lost and none is applied twice, whatever it contains.

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
use teamster_fs::{Dir, Durability, FileKind, FsError, Lock, LockWait, OrTrace as _};
use teamster_types::Time;
use teamster_types::end::EndRecord;
use teamster_types::process::{ProcessId, ProcessState};

use life::SessionLife;
use memory::HookMemory;
use record::{read_file, state_files};
use txn::{StateFile, StateTxn, StateWrite};

pub use memory::AnnouncedAgent;
pub use ops::{Begin, Effect, Op, StateChange, TeammateRow};
pub use record::{
    AgentState, Liveness, Model, Pattern, Phase, ShownProgress, ShownSession, Status, Teammate,
    TeammateMessage,
};

/// The timeout for the lock of the pending file. It is held for one write or one rename; longer means that its holder
/// is stopped.
const PATIENCE: Duration = Duration::from_millis(80);

/// How often a write is retried because its folder vanished after it was opened.
const TRIES: usize = 10;

/// The time without an update after which a state is stale.
pub const STALE_AFTER: Duration = Duration::from_secs(5 * 60);
/// The maximum number of rows in a roster.
pub const MOST_ROWS: usize = 10;
/// The maximum number of messages kept.
pub const MOST_MESSAGES: usize = 50;
/// The maximum length of names and roles in a state file, in characters.
pub const LONGEST_TEXT: usize = 200;
/// The maximum length of a message in a state file, in characters.
pub const LONGEST_MESSAGE: usize = 2_000;
/// The maximum length of the description of a task in a state file, in characters.
pub const LONGEST_TASK: usize = 100;

/// Why a state was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another process held the lock until the timeout.
    #[error("another process has held {} for {} ms", lock.display(), waited.as_millis())]
    Busy {
        /// The lock.
        lock: PathBuf,
        /// The timeout.
        waited: Duration,
    },
    /// There is no project folder.
    #[error("there is no folder {}", .0.display())]
    NoProject(PathBuf),
    /// The session id cannot be a file name, while another session is shown.
    #[error("the session `{0}` cannot have a file of its own")]
    Session(String),
    /// The file exists but cannot be parsed.
    #[error("cannot understand {}: {error}", file.display())]
    Corrupt {
        /// The path of the file.
        file: PathBuf,
        /// The parse error.
        error: String,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// The result of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// The effect of each operation, in order.
    pub effects: Vec<Effect>,
    /// The state of the session after the change; `None` when there is none.
    pub state: Option<AgentState>,
    /// The row of the agent that started or ended a turn.
    pub name: Option<String>,
    /// Teammates that were found to be gone, as recorded.
    pub(crate) gone: Vec<EndRecord>,
    /// Effects of earlier pending changes that could not be shown.
    pub late: Vec<Effect>,
}

/// The state files of one project.
#[derive(Clone, Debug)]
pub struct StateFiles {
    project: PathBuf,
    claude: PathBuf,
}

impl StateFiles {
    /// Returns the state files of the project in `layout`.
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

    /// Makes a change, waiting up to `patience` for the lock.
    pub fn apply(&self, change: StateChange, patience: Duration) -> Result<Applied, StateError> {
        self.make(&change.cleaned(), patience)
    }

    /// Makes a change like [`StateFiles::apply`], but leaves it for the next holder when the lock is not released in time.
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
                // The lock may have become free since, and then no other process would apply the change.
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

    /// Returns every session's state, the one that viewers poll first. An unreadable file does not hide the others.
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
                // A session that was just promoted may have its old file for a moment.
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

    /// Returns whether a state file exists that cannot be parsed, such as while another program writes it in place.
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

    /// Returns the state of one session, whether it is the shown one or not; `None` when it has none.
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

    /// Returns the liveness of a state at this time. A session whose process can be seen is live, however long it was
    /// quiet.
    pub fn liveness(&self, state: &AgentState, now: Time) -> Liveness {
        match state.liveness(now) {
            Liveness::Stale if self.session_state(state) == ProcessState::Alive => Liveness::Live,
            viewed => viewed,
        }
    }

    /// Returns the sessions other than `me` that have not ended and whose members are all proven gone.
    pub fn dead_sessions(&self, me: &str) -> Result<Vec<String>, StateError> {
        let others = self.all()?.into_iter().map(|shown| shown.state);
        let others = others.filter(|state| state.enabled && state.session_id != me);
        let dead = others.filter(|state| self.session_state(state) == ProcessState::Gone);
        Ok(dead.map(|state| state.session_id).collect())
    }

    /// Returns the process of a session's lead, as recorded by its hooks.
    pub fn lead_process(&self, session: &str) -> Option<ProcessId> {
        self.memory().session(session)?.lead.clone()
    }

    /// Returns the teammates of a state whose own process is gone, each with its pid.
    pub fn gone_teammates(&self, state: &AgentState) -> BTreeMap<String, u32> {
        let memory = self.memory();
        match memory.session(&state.session_id) {
            Some(memory) => memory.gone(state, &Machine::read()),
            None => BTreeMap::new(),
        }
    }

    /// Returns whether a teammate of a session is proven gone and was not reported yet.
    pub fn has_unreported_gone(&self, session: &str) -> bool {
        let Ok(Some(state)) = self.of_session(session) else {
            return false;
        };
        if state.teammates.is_empty() {
            return false;
        }
        let memory = self.memory();
        let memory = memory.session(session);
        if memory.is_some_and(|memory| memory.has_unreported_gone(&state, &Machine::read())) {
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

    fn session_state(&self, state: &AgentState) -> ProcessState {
        let session = &state.session_id;
        SessionLife::new(&self.claude).of(session, self.memory().session(session))
    }

    fn make(&self, change: &StateChange, patience: Duration) -> Result<Applied, StateError> {
        let project = self.open_project()?;
        let (bkit, is_new) = match project.child(layout::BKIT)? {
            Some(bkit) => (bkit, false),
            None if change.needs_folder() => (project.child_or_create(layout::BKIT)?, true),
            // There is no state that could be changed.
            None => return Ok(Applied::default()),
        };
        let lock = match Lock::wait(&bkit, layout::STATE_LOCK, patience, false)? {
            LockWait::Held(lock) => lock,
            LockWait::TimedOut => {
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
            // If the exclude file cannot be written, git shows teamster's folders as untracked, which does no harm.
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

    /// Records the ends of gone teammates. Those that cannot be recorded are shown all the same.
    fn record(&self, gone: &[(String, EndRecord)], now: Time) {
        for (session, end) in gone {
            if let Ok(Some(claude)) = Dir::open_root(&self.claude) {
                let line = end.to_line(session, now);
                claude
                    .append(layout::ZOMBIE_ALERTS, &line, teamster_fs::Durability::Fast)
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

/// Applies changes that were left while the lock was held, unless another process holds it by now and will do so.
/// Errors are left for the next holder: the caller's own change has been made.
///
/// The check comes after the lock was released: a writer that leaves a change later than that finds the lock free.
fn catch_up(bkit: &Dir, life: &SessionLife<'_>, mut stays: bool) -> AppliedPending {
    let mut late = AppliedPending::default();
    while matches!(is_waiting(bkit), Ok(true)) {
        // A writer is stopped while it appends; if it has continued meanwhile, its line can be claimed now.
        if stays && !is_free(bkit) {
            break;
        }
        let waited = Lock::wait(bkit, layout::STATE_LOCK, Duration::ZERO, false);
        let Ok(LockWait::Held(lock)) = waited else {
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

/// Replaces the claimed file once its lines are applied.
#[derive(Deserialize, Serialize)]
struct PendingOutcome {
    outcome: Vec<PendingFile>,
}

#[derive(Deserialize, Serialize)]
struct PendingFile {
    /// The name in the folder of sessions; `None` for the shown state and the hook memory.
    session: Option<String>,
    #[serde(default)]
    is_memory: bool,
    /// The content; `None` to remove the file.
    content: Option<String>,
}

/// Leaves a change for the next holder of the state's lock.
fn leave(bkit: &Dir, change: &StateChange) -> Result<(), StateError> {
    let lock = match Lock::wait(bkit, layout::PENDING, PATIENCE, false)? {
        LockWait::Held(lock) => lock,
        LockWait::TimedOut => return leave_separately(bkit, change),
    };
    let mut line = teamster_types::json::to_line(change);
    // A writer that was killed in the middle of a line spoils only that line.
    if !ends_with_a_line(bkit)? {
        line.insert(0, b'\n');
    }
    bkit.append(layout::PENDING, &line, Durability::Fast)?;
    drop(lock);
    Ok(())
}

/// Leaves a change in a separate file, which no other writer can lock.
fn leave_separately(bkit: &Dir, change: &StateChange) -> Result<(), StateError> {
    let name = layout::pending_file(change.at, &teamster_fs::random_hex());
    let line = teamster_types::json::to_line(change);
    let mut tries = 0;
    loop {
        let written = bkit
            .child_or_create(layout::PENDING_ALONE)
            .and_then(|folder| folder.replace(&name, &line, Durability::Fast));
        match written {
            // The process that claimed the last file has removed the folder meanwhile.
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

/// Returns whether there are pending changes.
fn is_waiting(bkit: &Dir) -> Result<bool, StateError> {
    if is_there(bkit, layout::PENDING)? {
        return Ok(true);
    }
    if !has_separate(bkit)? {
        return Ok(false);
    }
    let folder = bkit.child(layout::PENDING_ALONE)?;
    let entries = folder.map_or_else(|| Ok(Vec::new()), |folder| folder.entries())?;
    let is_whole = |name: &str| layout::temp_owner(name).is_none();
    Ok(entries.iter().any(|entry| is_whole(&entry.name)))
}

/// Returns whether no writer is appending at this moment.
fn is_free(bkit: &Dir) -> bool {
    let waited = Lock::wait(bkit, layout::PENDING, Duration::ZERO, false);
    matches!(waited, Ok(LockWait::Held(_)))
}

fn has_separate(bkit: &Dir) -> Result<bool, StateError> {
    let stamp = bkit.stamp(layout::PENDING_ALONE)?;
    Ok(stamp.is_some_and(|stamp| stamp.kind == FileKind::Folder))
}

/// The result of applying pending changes.
#[derive(Default)]
struct AppliedPending {
    /// Effects that could not be shown.
    effects: Vec<Effect>,
    /// Teammates that were found to be gone, each with its session.
    gone: Vec<(String, EndRecord)>,
    /// Whether changes are left: a writer that is stopped while it appends holds the lock of its file.
    stays: bool,
}

/// Applies pending changes. The caller holds the state's lock.
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
    if has_separate(bkit)? {
        finish_separate(bkit, life, &mut finished)?;
    }
    Ok(finished)
}

/// Applies the files of writers that could not append, in the order of their time.
fn finish_separate(
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
            // A temp file belongs to its writer until it is renamed; that of a dead writer is incomplete.
            Some(pid) if is_gone(pid) => drop(folder.remove(&name)?),
            Some(_) => {}
        }
    }
    // If another writer has added a file meanwhile, the folder stays.
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
    machine.process_state(&writer) == ProcessState::Gone
}

/// Returns whether there is a file of this name. Anything but a file is not a change.
fn is_there(bkit: &Dir, name: &str) -> Result<bool, StateError> {
    let stamp = bkit.stamp(name)?;
    Ok(stamp.is_some_and(|stamp| stamp.kind == FileKind::File))
}

/// Claims the pending file by renaming it, so that later changes go to a new one. Returns false when a writer is
/// stopped while it appends; the next holder will retry.
fn claim(bkit: &Dir) -> Result<bool, StateError> {
    match Lock::wait(bkit, layout::PENDING, PATIENCE, false)? {
        LockWait::TimedOut => Ok(false),
        LockWait::Held(_lock) => {
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

/// Applies the lines in memory and replaces them by the outcome.
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
                // A session that cannot have a file is refused, now as before.
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
    bkit.replace(layout::PENDING_CLAIMED, &bytes, Durability::Fast)?;
    Ok(outputs)
}

impl From<PendingFile> for StateWrite {
    fn from(file: PendingFile) -> Self {
        Self {
            file: match file.session {
                Some(name) => StateFile::Session(name),
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
                StateFile::Session(name) => Some(name.clone()),
                StateFile::Main | StateFile::Memory => None,
            },
            is_memory: output.file == StateFile::Memory,
            content: output.bytes.as_ref().map(text),
        }
    }
}
