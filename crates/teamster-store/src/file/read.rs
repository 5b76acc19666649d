//! Reads without the lock: each file is consistent by itself, and a list is read again if it changed meanwhile.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use teamster_fs::{Dir, OrTrace as _, layout};
use teamster_journal::{Event, EventKind};
use teamster_types::failure::Failure;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::message::{Mailbox, Message};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::progress::Progress;
use teamster_types::session::ClientSession;
use teamster_types::task::{Status, Task};
use teamster_types::team::TeamConfig;
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use super::held_team::HeldTeam;
use super::index;
use super::note::LockNote;
use super::record::{IndexRecord, flag};
use super::{FileStore, heartbeat, journal, listen, mailbox, native, pages, watch};
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::rules::no_task;
use crate::store::{Damaged, JournalPage, ReadStore, Signal, StoredMessage, TaskList, TeamEntry};
use crate::watch::{Listen, Watch};

/// The action named in the trace for a mailbox line that is not a message.
const DAMAGED_LINE: &str = "parse a line of a mailbox";
/// How long readers wait for a writer: one that holds the lock longer without changing anything hangs, and is ignored.
const LONG_WRITE: Duration = Duration::from_millis(500);

/// Returns the error for a file that cannot be parsed.
pub(super) fn damaged(file: &str, error: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Failed, format!("{file}: {error}"))
        .hint("repair or remove the file; nothing was changed")
}

/// Reads a file that Claude Code may be rewriting in place: if it does not parse, it is read again before it is
/// reported as damaged.
fn read_settled<T>(
    dir: &Dir,
    name: &str,
    parse: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Option<Result<T, String>>> {
    let mut parsed = None;
    for attempt in 0..4 {
        if attempt > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        let Some((bytes, _)) = dir.read(name)? else {
            return Ok(None);
        };
        match parse(&bytes) {
            Ok(value) => return Ok(Some(Ok(value))),
            Err(reason) => parsed = Some(Err(reason)),
        }
    }
    Ok(parsed)
}

pub(super) fn config(team: &Dir, name: &TeamName) -> Result<TeamConfig> {
    match read_settled(team, layout::CONFIG, TeamConfig::parse)? {
        Some(Ok(config)) => Ok(config),
        Some(Err(error)) => {
            let file = format!("{} of team {name}", layout::CONFIG);
            Err(damaged(&file, &error))
        }
        None => Err(super::no_team(name)),
    }
}

/// Returns a task; `None` when there is none, an error when its file is damaged.
pub(super) fn task(tasks: &Dir, id: &TaskId) -> Result<Option<Task>> {
    let name = layout::task_file(id);
    let read = read_settled(tasks, &name, |bytes| Task::parse(id, bytes))?;
    read.transpose().map_err(|error| damaged(&name, &error))
}

pub(super) fn failure(tasks: &Dir, id: &TaskId) -> Result<Option<Failure>> {
    let name = layout::failure_file(id);
    let Some((bytes, _)) = tasks.read(&name)? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| damaged(&name, &error.to_string()))
}

/// Returns the ids in a task folder, in their order.
fn ids(tasks: &Dir) -> Result<Vec<TaskId>> {
    let mut ids: Vec<TaskId> = tasks
        .entries()?
        .iter()
        .filter_map(|entry| layout::task_of_file(&entry.name))
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

pub(super) fn list(tasks: &Dir) -> Result<TaskList> {
    let mut list = TaskList::default();
    for id in ids(tasks)? {
        match task(tasks, &id) {
            Ok(Some(task)) => list.tasks.push(task),
            Ok(None) => {}
            Err(error) => list.problems.push(problem(&id, &error)),
        }
    }
    Ok(list)
}

fn problem(id: &TaskId, error: &StoreError) -> Damaged {
    let file = layout::task_file(id);
    let message = error
        .message
        .strip_prefix(&format!("{file}: "))
        .unwrap_or(&error.message);
    Damaged {
        error: message.to_owned(),
        file,
    }
}

fn count(tasks: &Dir) -> Result<(Progress, Vec<Damaged>)> {
    let known: HashMap<TaskId, IndexRecord> = index::read_all(tasks)?
        .into_iter()
        .map(|record| (record.id.clone(), record))
        .collect();
    let (mut progress, mut problems) = (Progress::default(), Vec::new());
    for entry in tasks.entries()? {
        let Some(id) = layout::task_of_file(&entry.name) else {
            continue;
        };
        let Some(stamp) = tasks.stamp(&entry.name)? else {
            continue;
        };
        let record = known
            .get(&id)
            .filter(|record| record.fits(&stamp) && !record.has(flag::DAMAGED));
        if let Some(record) = record {
            let status = match record.flags & (flag::COMPLETED | flag::IN_PROGRESS) {
                flag::COMPLETED => Status::Completed,
                flag::IN_PROGRESS => Status::InProgress,
                _ => Status::Pending,
            };
            if !record.has(flag::INTERNAL) {
                progress.count(status, record.has(flag::FAILED));
            }
            continue;
        }
        match task(tasks, &id) {
            Ok(Some(task)) if !task.is_internal() => {
                progress.count(task.status(), task.is_failed());
            }
            Ok(_) => {}
            Err(error) => problems.push(problem(&id, &error)),
        }
    }
    problems.sort_by(|a, b| a.file.cmp(&b.file));
    Ok((progress, problems))
}

/// Returns the content of the team's lock file, which differs after every change.
fn note(tasks: &Dir) -> Result<Option<Vec<u8>>> {
    Ok(tasks.read(layout::TEAM_LOCK)?.map(|(bytes, _)| bytes))
}

/// Returns the journal's position and size from the lock's note, or `None` while a change is under way.
fn settled_position(tasks: &Dir) -> Result<Option<(u64, u64)>> {
    let Some(bytes) = note(tasks)? else {
        return Ok(Some((0, 0)));
    };
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let note: LockNote = serde_json::from_slice(line).unwrap_or_default();
    Ok((note.clean || bytes.is_empty()).then_some((note.seq, note.journal)))
}

/// When each mailbox was delivered and acknowledged up to which position, from the journal.
#[derive(Default)]
struct Receipts {
    delivered: HashMap<String, Vec<(u64, Time)>>,
    acked: HashMap<String, Vec<(u64, Time)>>,
}

impl Receipts {
    fn note(&mut self, event: &Event) {
        let (map, moved) = match event.payload() {
            EventKind::MessageDelivered(moved) => (&mut self.delivered, moved),
            EventKind::MessageAcked(moved) => (&mut self.acked, moved),
            _ => return,
        };
        let of_mailbox = map.entry(moved.mailbox).or_default();
        of_mailbox.push((moved.up_to, event.ts));
    }

    fn find(map: &HashMap<String, Vec<(u64, Time)>>, label: &str, behind: u64) -> Option<Time> {
        let moves = map.get(label)?;
        moves
            .iter()
            .find(|(up_to, _)| *up_to >= behind)
            .map(|(_, ts)| *ts)
    }
}

fn stored_message(
    mailbox: &Mailbox,
    behind: u64,
    message: Message,
    receipts: &Receipts,
) -> StoredMessage {
    let label = mailbox.label();
    StoredMessage {
        delivered_at: Receipts::find(&receipts.delivered, &label, behind),
        acked_at: Receipts::find(&receipts.acked, &label, behind),
        mailbox: label,
        message,
    }
}

impl FileStore {
    /// Takes a consistent snapshot of several files: it reads again while a writer is active, and finally under the
    /// lock.
    ///
    /// Taking the lock also finishes the change of a writer that was killed.
    fn read_consistently<T>(
        &self,
        team: &TeamName,
        mut read: impl FnMut(&Dir) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(tasks) = self.tasks_to_read(team)? else {
            return Ok(None);
        };
        let start = Instant::now();
        loop {
            for _ in 0..4 {
                let before = settled_position(&tasks)?;
                let found = read(&tasks)?;
                if before.is_some() && before == settled_position(&tasks)? {
                    return Ok(Some(found));
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            let (asked, before) = (Instant::now(), note(&tasks)?);
            let held = HeldTeam::take(self, team, "read", LONG_WRITE);
            let is_hanging = asked.elapsed() >= LONG_WRITE && before == note(&tasks)?;
            match held {
                // The lock was contended but its holders make progress, so try again.
                Err(error)
                    if error.busy && !is_hanging && start.elapsed() < self.settings.patience => {}
                // The lock cannot be taken (a read-only disk, a hanging writer): the current content is the best
                // available.
                held => {
                    let _held = held.ok_or_trace("take the lock of the team to read");
                    return read(&tasks).map(Some);
                }
            }
        }
    }

    /// Returns the team's project. Every heartbeat needs it, and a large team's configuration is slow to parse, so the
    /// file is read again only when it has changed.
    fn project(&self, team: &TeamName) -> Result<Option<String>> {
        let stamp = self.folder_to_read(team)?.stamp(layout::CONFIG)?;
        let known = || self.project.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some((known_team, known_stamp, project)), Some(stamp)) = (&*known(), stamp)
            && known_team == team
            && *known_stamp == stamp
        {
            return Ok(project.clone());
        }
        let project = self.team(team)?.project().map(str::to_owned);
        *known() = stamp.map(|stamp| (team.clone(), stamp, project.clone()));
        Ok(project)
    }
}

impl ReadStore for FileStore {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn teams(&self) -> Result<Vec<TeamEntry>> {
        let mut found = Vec::new();
        let Some(root) = Dir::open_root(&self.claude)? else {
            return Ok(found);
        };
        let Some(teams) = root.child(layout::TEAMS)? else {
            return Ok(found);
        };
        for entry in teams.entries()? {
            if entry.name.starts_with('.') {
                continue;
            }
            let config = match teams.child(&entry.name) {
                Ok(Some(dir)) => match read_settled(&dir, layout::CONFIG, TeamConfig::parse) {
                    Ok(Some(config)) => config,
                    // A folder without a registry is not a team: Claude Code leaves such folders behind.
                    Ok(None) => continue,
                    Err(error) => Err(error.to_string()),
                },
                Ok(None) => continue,
                Err(error) if matches!(error.problem, teamster_fs::FsProblem::NotA(_)) => continue,
                Err(error) => Err(error.to_string()),
            };
            found.push(TeamEntry {
                name: entry.name,
                config,
            });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn team(&self, team: &TeamName) -> Result<TeamConfig> {
        config(&self.folder_to_read(team)?, team)
    }

    fn task(&self, team: &TeamName, id: &TaskId) -> Result<Task> {
        let found = self.read_consistently(team, |tasks| task(tasks, id))?;
        found.flatten().ok_or_else(|| no_task(team, id))
    }

    fn tasks(&self, team: &TeamName) -> Result<TaskList> {
        Ok(self.read_consistently(team, list)?.unwrap_or_default())
    }

    fn progress(&self, team: &TeamName) -> Result<(Progress, Vec<Damaged>)> {
        Ok(self.read_consistently(team, count)?.unwrap_or_default())
    }

    fn failure(&self, team: &TeamName, id: &TaskId) -> Result<Option<Failure>> {
        Ok(self
            .read_consistently(team, |tasks| failure(tasks, id))?
            .flatten())
    }

    fn messages(&self, team: &TeamName) -> Result<Vec<StoredMessage>> {
        let dir = self.folder_to_read(team)?;
        let mut receipts = Receipts::default();
        let mut from = 1;
        loop {
            let page = self.places.read(&dir, from, 2_000)?;
            let Some(last) = page.events.last() else {
                break;
            };
            from = last.seq + 1;
            page.events.iter().for_each(|event| receipts.note(event));
        }
        let mut found = Vec::new();
        for mailbox in mailbox::all(&dir)? {
            let (mut page, mut position) = (None, crate::backend::Position::default());
            loop {
                let lines = mailbox::lines(&dir, &mailbox, position, 1_000, &mut page)?;
                let Some((last, _)) = lines.last() else { break };
                position = *last;
                found.extend(lines.into_iter().filter_map(|(behind, line)| {
                    let message = line.ok_or_trace(DAMAGED_LINE)?;
                    Some(stored_message(&mailbox, behind.0, message, &receipts))
                }));
            }
        }
        found.extend(
            native::messages(&dir)?
                .into_iter()
                .map(|(owner, message)| StoredMessage {
                    mailbox: format!("{}/{owner}", layout::NATIVE_INBOXES),
                    message,
                    delivered_at: None,
                    acked_at: None,
                }),
        );
        Ok(found)
    }

    fn undelivered(&self, team: &TeamName, before: Time) -> Result<Vec<StoredMessage>> {
        let dir = self.folder_to_read(team)?;
        let mut found = Vec::new();
        for mailbox in mailbox::all(&dir)? {
            let mut position = mailbox::cursor(&dir, &mailbox)?.delivered;
            let mut page = None;
            loop {
                let lines = mailbox::lines(&dir, &mailbox, position, 1_000, &mut page)?;
                let Some((last, _)) = lines.last() else { break };
                position = *last;
                let messages = lines
                    .into_iter()
                    .filter_map(|(behind, line)| Some((behind, line.ok_or_trace(DAMAGED_LINE)?)));
                let old = messages
                    .filter(|(_, message)| message.timestamp().is_some_and(|sent| sent < before));
                found.extend(old.map(|(behind, message)| {
                    stored_message(&mailbox, behind.0, message, &Receipts::default())
                }));
            }
        }
        Ok(found)
    }

    fn beat(&self, heartbeat: &Heartbeat) -> Result<()> {
        let project = self.project(&heartbeat.team_name)?;
        heartbeat::write(&self.claude, project.as_deref(), heartbeat)
    }

    fn remove_heartbeat(&self, team: &TeamName, worker: &WorkerName) -> Result<()> {
        heartbeat::remove(self.project(team)?.as_deref(), team, worker)
    }

    fn heartbeats(&self, team: &TeamName) -> Result<(Vec<Heartbeat>, Vec<Damaged>)> {
        heartbeat::read_all(self.project(team)?.as_deref(), team)
    }

    fn process_state(&self, process: &ProcessId) -> ProcessState {
        self.machine.process_state(process)
    }

    fn keep_journal(&self, team: &TeamName) -> Result<Option<String>> {
        let config = ReadStore::team(self, team)?;
        let folder = self.folder_to_read(team)?;
        match config.project() {
            Some(project) => super::team::keep_journal(project, team, &folder),
            None => Ok(None),
        }
    }

    fn client_sessions(&self) -> Vec<ClientSession> {
        Dir::open_root(&self.claude)
            .ok_or_trace("open the Claude folder")
            .flatten()
            .map_or_else(Vec::new, |root| native::client_sessions(&root))
    }

    fn signals(&self, team: &TeamName, worker: &WorkerName) -> Result<Vec<Signal>> {
        let dir = self.folder_to_read(team)?;
        listen::read(&dir, worker, self.clock.as_ref())
    }

    fn listen(&self, team: &TeamName, worker: &WorkerName) -> Result<Box<dyn Listen>> {
        Ok(Box::new(listen::FileListener::new(self, team, worker)?))
    }

    fn position(&self, team: &TeamName) -> Result<u64> {
        journal::position(&self.folder_to_read(team)?)
    }

    fn events(&self, team: &TeamName, from: u64, limit: usize) -> Result<JournalPage> {
        let dir = self.folder_to_read(team)?;
        self.places.read(&dir, from.max(1), limit)
    }

    fn last_events(&self, team: &TeamName, count: usize) -> Result<JournalPage> {
        pages::last(&self.folder_to_read(team)?, count)
    }

    fn damaged_lines(&self, team: &TeamName) -> Result<(Vec<Damaged>, usize)> {
        self.damage.of(&self.folder_to_read(team)?)
    }

    fn last_of(&self, team: &TeamName, kinds: &[&str]) -> Result<Option<Event>> {
        let mut found = self.last_of_each(team, &[kinds])?;
        Ok(found.pop().flatten())
    }

    fn last_of_each(&self, team: &TeamName, asked: &[&[&str]]) -> Result<Vec<Option<Event>>> {
        let dir = self.folder_to_read(team)?;
        self.known.last_of_each(&dir, &self.places, asked)
    }

    fn watch(&self, team: &TeamName, after: u64) -> Result<Box<dyn Watch>> {
        watch::open(self, team, after)
    }
}
