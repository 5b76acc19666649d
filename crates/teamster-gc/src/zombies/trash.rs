//! The trash: `.teamster-trash/{time}-{team}/` with the team's two folders and a note in it.
//!
//! A team is moved in this order: the entry is created, the note is written, the registry is moved, the tasks are
//! moved. A team without a registry is no team, so readers see a complete team until the registry is moved, and none
//! from then on. The content of an entry shows where a killed process stopped:
//!
//! | registry | tasks | what it means | what the next process does |
//! |---|---|---|---|
//! | no | no | nothing was moved | removes the entry |
//! | yes | no, though the note knows of some | killed between the moves | moves the tasks, too |
//! | no | yes | the machine went down and kept only the second move | moves the tasks back |
//! | yes | yes | complete | nothing |
//!
//! Restoring a team goes the other way round: tasks, then registry. Entries of `team delete` have no note; the store
//! finishes those itself.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use teamster_fs::{Dir, Durability, FsError, Lock, LockWait, layout, remove_tree_while};
use teamster_isolate::OrTrace as _;
use teamster_store::{Result, StoreError};
use teamster_types::Time;

use teamster_types::phrase::{Phrase, PhraseCode};

use super::folder::{FolderFingerprint, ScanInterrupted, TeamFolder};
use super::scanner::ZombieScanner;
use super::{REAP_COMMAND, Zombie, ZombieAction, ZombieKind};

#[cfg(test)]
mod tests;

/// How long a removed team is kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The name prefix of an entry that is being deleted for good and can no longer be restored.
const GOING: &str = ".going-";
/// The maximum length of a file name.
const LONGEST_NAME: usize = 255;

/// The note in an entry that describes its team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TrashNote {
    pub(super) team: String,
    pub(super) at: Time,
    /// The inode of its task folder, if it had one.
    pub(super) tasks: Option<u64>,
    pub(super) evidence: Vec<String>,
}

/// One removed team.
pub(super) struct TrashEntry {
    pub(super) name: String,
    pub(super) team: String,
    pub(super) dir: Dir,
    pub(super) note: Option<TrashNote>,
    /// Whether there is a note, readable or not: only then may this module finish the entry.
    noted: bool,
}

/// The trash, with its lock held.
pub(super) struct Trash {
    pub(super) dir: Dir,
    _lock: Lock,
}

/// The result of moving a team.
#[derive(Debug)]
pub(super) enum MoveOutcome {
    /// It is in the trash, at this path.
    Trashed(PathBuf),
    /// It was changed during the move, so it stays.
    Changed,
}

impl Trash {
    /// Waits for the lock of the trash; `None` when there is no trash and `make` is false.
    pub(super) fn open(scanner: &ZombieScanner<'_>, make: bool) -> Result<Option<Self>> {
        let dir = match scanner.root.child(layout::TRASH)? {
            Some(dir) => dir,
            None if make => scanner.root.child_or_create(layout::TRASH)?,
            None => return Ok(None),
        };
        let patience = scanner.options.budget.patience();
        match Lock::wait(&dir, layout::TRASH_LOCK, patience, false)? {
            LockWait::Held(lock) => Ok(Some(Self { dir, _lock: lock })),
            LockWait::TimedOut => Err(StoreError::busy(
                "another process is removing or restoring teams right now; nothing was changed",
            )
            .hint("try again in a moment")),
        }
    }

    /// Moves a team to the trash, unless it has changed since it was judged.
    pub(super) fn put(
        &self,
        scanner: &ZombieScanner<'_>,
        team: &TeamFolder,
        seen: FolderFingerprint,
        evidence: &[Phrase],
    ) -> Result<MoveOutcome, FsError> {
        let hold = hold(scanner, team)?;
        if matches!(hold, WriterLock::Busy) || seen_now(scanner, team)? != Some(seen) {
            return Ok(MoveOutcome::Changed);
        }
        let Some(teams) = &scanner.teams else {
            return Ok(MoveOutcome::Changed);
        };
        let note = TrashNote {
            team: team.name.clone(),
            at: scanner.options.now,
            tasks: match &team.tasks {
                Some(tasks) => Some(tasks.own_stamp()?.inode),
                None => None,
            },
            evidence: Phrase::texts(evidence),
        };
        let (name, dir) = self.new_entry(&note)?;
        write_note(&dir, &note)?;
        if let Err(error) = teams.rename_new(&team.name, &dir, layout::TEAMS) {
            self.drop_entry(&name, &dir)?;
            return Err(error);
        }
        let moved = match &scanner.tasks {
            Some(tasks) if team.tasks.is_some() => {
                tasks.rename_new(&team.name, &dir, layout::TASKS).map(drop)
            }
            _ => Ok(()),
        };
        // The moved folders are still open here, so a change up to the last moment is detected.
        let now = seen_now(scanner, team)?;
        let is_same = now.is_some_and(|now| now.is_same_inside(&seen));
        if moved.is_ok() && is_same && is_the_one(scanner, &dir, team)? {
            return Ok(MoveOutcome::Trashed(self.dir.join(&name)));
        }
        let back = take_out(scanner, &dir, &team.name)?;
        moved?;
        if !back {
            return Ok(MoveOutcome::Trashed(self.dir.join(&name)));
        }
        self.drop_entry(&name, &dir)?;
        Ok(MoveOutcome::Changed)
    }

    /// Finishes the moves that killed processes began. An entry that cannot be finished does not stop the others.
    pub(super) fn finish(&self, scanner: &ZombieScanner<'_>) -> Result<(), FsError> {
        for entry in entries(&self.dir)? {
            if scanner.options.budget.is_spent() {
                break;
            }
            if entry.noted {
                self.finish_entry(scanner, &entry)
                    .or_trace("finish the removal of a team");
            }
        }
        Ok(())
    }

    fn finish_entry(&self, scanner: &ZombieScanner<'_>, entry: &TrashEntry) -> Result<(), FsError> {
        match entry.half(scanner)? {
            MoveProgress::Whole => Ok(()),
            MoveProgress::Nothing => self.drop_entry(&entry.name, &entry.dir),
            MoveProgress::TasksMissing => match &scanner.tasks {
                Some(tasks) => tasks
                    .rename_new(&entry.team, &entry.dir, layout::TASKS)
                    .map(drop),
                None => Ok(()),
            },
            MoveProgress::RegistryMissing => {
                if take_out(scanner, &entry.dir, &entry.team)? {
                    self.drop_entry(&entry.name, &entry.dir)?;
                }
                Ok(())
            }
        }
    }

    /// Deletes entries older than seven days, and returns how many were deleted and what could not be.
    pub(super) fn purge(
        &self,
        scanner: &ZombieScanner<'_>,
    ) -> Result<(usize, Vec<String>), FsError> {
        for entry in entries(&self.dir)? {
            let changed = scanner.age(entry.dir.own_stamp()?.modified);
            let at = entry
                .note
                .as_ref()
                .map(|note| scanner.options.now.since(note.at));
            if changed.min(at.unwrap_or(changed)) >= KEPT {
                let going = format!("{GOING}{}", teamster_fs::random_hex());
                self.dir.rename_new(&entry.name, &self.dir, &going)?;
            }
        }
        let (mut gone, mut problems) = (0, Vec::new());
        for entry in self.dir.entries()? {
            if !entry.name.starts_with(GOING) {
                continue;
            }
            let go_on = || !scanner.options.budget.is_spent();
            match remove_tree_while(&self.dir, &entry.name, &go_on) {
                Ok(true) => gone += 1,
                Ok(false) => break,
                Err(error) => problems.push(error.to_string()),
            }
        }
        Ok((gone, problems))
    }

    /// Removes an entry that contains no team.
    pub(super) fn drop_entry(&self, name: &str, dir: &Dir) -> Result<(), FsError> {
        dir.remove(layout::TRASH_NOTE)?;
        // Other files in the entry stay until it is seven days old.
        match self.dir.remove_dir(name) {
            Err(error) if error.io_kind() != Some(std::io::ErrorKind::DirectoryNotEmpty) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn new_entry(&self, note: &TrashNote) -> Result<(String, Dir), FsError> {
        let moment = note.at.to_string();
        let moment: String = moment.chars().filter(char::is_ascii_alphanumeric).collect();
        let mut name = format!("{moment}-{}", note.team);
        while name.len() > LONGEST_NAME - 8 {
            name.pop();
        }
        let mut other = 1_u64;
        loop {
            let free = match other {
                1 => name.clone(),
                other => format!("{name}.{other}"),
            };
            if self.dir.make_dir(&free)? {
                let dir = self.dir.child_or_create(&free)?;
                return Ok((free, dir));
            }
            other += 1;
        }
    }
}

/// Whether teamster's own writers are excluded while a team is moved.
enum WriterLock {
    NotNeeded,
    Held(#[expect(dead_code, reason = "held until it is dropped")] Lock),
    Busy,
}

/// How far the move of an entry got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoveProgress {
    Nothing,
    TasksMissing,
    RegistryMissing,
    Whole,
}

impl TrashEntry {
    pub(super) fn has(&self, folder: &str) -> Result<bool, FsError> {
        Ok(self.dir.stamp(folder)?.is_some())
    }

    fn half(&self, scanner: &ZombieScanner<'_>) -> Result<MoveProgress, FsError> {
        Ok(match (self.has(layout::TEAMS)?, self.has(layout::TASKS)?) {
            (false, false) => MoveProgress::Nothing,
            (false, true) => MoveProgress::RegistryMissing,
            (true, true) => MoveProgress::Whole,
            (true, false) => {
                let there = match &scanner.tasks {
                    Some(tasks) => tasks.stamp(&self.team)?.map(|stamp| stamp.inode),
                    None => None,
                };
                let known = self.note.as_ref().and_then(|note| note.tasks);
                // If a new team has taken over the task folder, it no longer belongs to the old one.
                if known.is_some() && there == known && !scanner.has_team(&self.team) {
                    MoveProgress::TasksMissing
                } else {
                    MoveProgress::Whole
                }
            }
        })
    }
}

/// Returns the moves that were begun but not finished.
pub(super) fn half_moved(scanner: &ZombieScanner<'_>) -> Result<Vec<Zombie>, FsError> {
    let Some(dir) = scanner.root.child(layout::TRASH)? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries(&dir)? {
        let half = entry.half(scanner).unwrap_or(MoveProgress::Whole);
        let half = entry.noted
            && matches!(
                half,
                MoveProgress::TasksMissing | MoveProgress::RegistryMissing
            );
        if half {
            found.push(Zombie {
                kind: ZombieKind::Team,
                name: entry.team.clone(),
                age: scanner.age(entry.dir.own_stamp()?.modified),
                team: entry.team,
                evidence: vec![Phrase::new(PhraseCode::RemovalUnfinished, [])],
                action: ZombieAction::Reap,
                command: REAP_COMMAND.to_owned(),
            });
        }
    }
    Ok(found)
}

/// Returns all entries of the trash, oldest first.
pub(super) fn entries(trash: &Dir) -> Result<Vec<TrashEntry>, FsError> {
    let mut found = Vec::new();
    for entry in trash.entries()? {
        let name = entry.name;
        if name.starts_with('.') {
            continue;
        }
        // Anything that is not a folder was not put there by teamster.
        let Ok(Some(dir)) = trash.child(&name) else {
            continue;
        };
        let bytes = dir.read(layout::TRASH_NOTE)?.map(|(bytes, _)| bytes);
        let note: Option<TrashNote> = bytes.as_ref().and_then(|b| serde_json::from_slice(b).ok());
        let note = note.filter(|note| is_plain(&note.team));
        let team = note.as_ref().map(|note| note.team.clone());
        let Some(team) = team.or_else(|| team_of(&name)) else {
            continue;
        };
        found.push(TrashEntry {
            noted: bytes.is_some(),
            name,
            team,
            dir,
            note,
        });
    }
    found.sort_by(|a, b| order(&a.name).cmp(&order(&b.name)));
    Ok(found)
}

/// Returns whether a name read from a file is a valid file name.
fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']) && name.len() <= LONGEST_NAME
}

/// Returns the sort key of an entry: its time, then its number among entries of the same time.
fn order(name: &str) -> (&str, u64, &str) {
    let (time, rest) = name.split_once('-').unwrap_or((name, ""));
    let number = rest
        .rsplit_once('.')
        .and_then(|(_, number)| number.parse().ok());
    (time, number.unwrap_or(1), rest)
}

/// Returns the team from the name of an entry that has no note.
fn team_of(entry: &str) -> Option<String> {
    let (_, rest) = entry.split_once('-')?;
    let team = match rest.rsplit_once('.') {
        Some((team, number)) if number.parse::<u64>().is_ok() => team,
        _ => rest,
    };
    (!team.is_empty()).then(|| team.to_owned())
}

/// Writes the note of an entry, before anything is moved.
pub(super) fn write_note(dir: &Dir, note: &TrashNote) -> Result<(), FsError> {
    let bytes = serde_json::to_vec(note).unwrap_or_default();
    dir.replace(layout::TRASH_NOTE, &bytes, Durability::Fast)
}

/// Moves both folders of an entry back to their places, the registry last; returns false, leaving them in the trash,
/// when a place is taken.
pub(super) fn take_out(
    scanner: &ZombieScanner<'_>,
    entry: &Dir,
    team: &str,
) -> Result<bool, FsError> {
    let tasks = scanner.root.child_or_create(layout::TASKS)?;
    let teams = scanner.root.child_or_create(layout::TEAMS)?;
    let has_tasks = entry.stamp(layout::TASKS)?.is_some();
    if has_tasks && !entry.rename_new(layout::TASKS, &tasks, team)? {
        return Ok(false);
    }
    if entry.stamp(layout::TEAMS)?.is_some() && !entry.rename_new(layout::TEAMS, &teams, team)? {
        if has_tasks {
            tasks.rename_new(team, entry, layout::TASKS)?;
        }
        return Ok(false);
    }
    Ok(true)
}

/// Takes the lock of teamster's own writers. Where there is no lock file, none of them ever worked here, and creating
/// one would make the team look younger than it is.
fn hold(scanner: &ZombieScanner<'_>, team: &TeamFolder) -> Result<WriterLock, FsError> {
    let Some(tasks) = &team.tasks else {
        return Ok(WriterLock::NotNeeded);
    };
    if tasks.stamp(layout::TEAM_LOCK)?.is_none() {
        return Ok(WriterLock::NotNeeded);
    }
    let patience = scanner.options.budget.patience();
    Ok(
        match Lock::wait(tasks, layout::TEAM_LOCK, patience, false)? {
            LockWait::Held(lock) => WriterLock::Held(lock),
            LockWait::TimedOut => WriterLock::Busy,
        },
    )
}

/// Returns the current state of a team's files; `None` when the time budget is exhausted.
fn seen_now(
    scanner: &ZombieScanner<'_>,
    team: &TeamFolder,
) -> Result<Option<FolderFingerprint>, FsError> {
    match team.seen(&scanner.options.budget, None) {
        Ok(seen) => Ok(Some(seen)),
        Err(ScanInterrupted::OutOfTime) => Ok(None),
        Err(ScanInterrupted::Failed(error)) => Err(error),
    }
}

/// Returns whether the moved folders are the ones that were judged, and none was left behind.
fn is_the_one(
    scanner: &ZombieScanner<'_>,
    entry: &Dir,
    team: &TeamFolder,
) -> Result<bool, FsError> {
    let left = match scanner.root.child(layout::TASKS)? {
        Some(tasks) => tasks.stamp(&team.name)?,
        None => None,
    };
    let moved = |name: &str| Ok::<_, FsError>(entry.stamp(name)?.map(|stamp| stamp.inode));
    let tasks = match &team.tasks {
        Some(tasks) => Some(tasks.own_stamp()?.inode),
        None => None,
    };
    Ok(left.is_none()
        && moved(layout::TEAMS)? == Some(team.dir.own_stamp()?.inode)
        && moved(layout::TASKS)? == tasks)
}
