//! Staged files: the new contents are written beside the old ones, and the event that names them commits them.

use teamster_fs::{Dir, Durability, OrTrace as _, layout};
use teamster_journal::{Event, NewEvent};
use teamster_types::Time;

use super::FileStore;
use super::held_team::HeldTeam;
use super::journal;
use crate::error::Result;

/// A file that a change writes or removes.
#[derive(Debug)]
pub(super) struct StagedFile {
    /// The folder below the team's, or `None` for the task folder.
    pub(super) folder: Option<&'static str>,
    /// Its name.
    pub(super) name: String,
    /// Its new content; `None` removes it.
    pub(super) bytes: Option<Vec<u8>>,
}

/// Redacts new events and assigns their positions in the journal.
pub(super) fn numbered(
    held: &HeldTeam,
    events: Vec<NewEvent>,
    team: &str,
    now: Time,
) -> Vec<Event> {
    let count = events.len() as u64;
    let first = held.note.seq + 1;
    (first..)
        .zip(events)
        .map(|(seq, new)| {
            let mut event = new.placed(seq, teamster_fs::random_hex(), now, team.to_owned());
            event.more = seq + 1 < first + count;
            event
        })
        .collect()
}

/// Journals events that come without staged files.
pub(super) fn journal_now(
    store: &FileStore,
    held: &mut HeldTeam,
    events: &[NewEvent],
) -> Result<()> {
    let team = held
        .folders
        .team
        .path()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    // Each event is a separate commit, so that a torn append loses only what was not written.
    for chunk in events.chunks(64) {
        let mut events = numbered(held, chunk.to_vec(), &team, store.clock.now());
        for event in &mut events {
            event.more = false;
        }
        held.announce()?;
        append(held, &events, store.settings.sync)?;
    }
    Ok(())
}

/// Appends events and updates the note.
pub(super) fn append(held: &mut HeldTeam, events: &[Event], sync: Durability) -> Result<()> {
    held.note.journal = journal::append(&held.folders.team, events, held.note.journal, sync)?;
    held.note.seq += events.len() as u64;
    teamster_fs::fail::reached_event(held.note.seq);
    Ok(())
}

/// The folders that a commit touches, opened once.
pub(super) struct StagedFolders<'a> {
    held: &'a HeldTeam,
    opened: Vec<(&'static str, Dir)>,
}

impl<'a> StagedFolders<'a> {
    pub(super) fn open(held: &'a HeldTeam, staged: &[StagedFile]) -> Result<Self> {
        let mut opened: Vec<(&'static str, Dir)> = Vec::new();
        for folder in staged.iter().filter_map(|file| file.folder) {
            if !folder.is_empty() && !opened.iter().any(|(name, _)| *name == folder) {
                opened.push((folder, held.folders.team.child_or_create(folder)?));
            }
        }
        Ok(Self { held, opened })
    }

    fn of(&self, file: &StagedFile) -> &Dir {
        match file.folder {
            None => &self.held.folders.tasks,
            Some(folder) => self
                .opened
                .iter()
                .find(|(name, _)| *name == folder)
                .map_or(&self.held.folders.team, |(_, dir)| dir),
        }
    }

    /// Writes the new contents beside the old ones, under names that only the event `seq` commits.
    pub(super) fn prepare(&self, staged: &[StagedFile], seq: u64, sync: Durability) -> Result<()> {
        for file in staged {
            let dir = self.of(file);
            refuse_link(dir, &file.name)?;
            let (name, bytes) = match &file.bytes {
                Some(bytes) => (layout::next_file(&file.name, seq), &bytes[..]),
                None => (layout::gone_file(&file.name, seq), &[][..]),
            };
            if !dir.create_new(&name, bytes, sync)? {
                dir.remove(&name)?;
                dir.create_new(&name, bytes, sync)?;
            }
        }
        if sync == Durability::Durable {
            let mut done: Vec<Option<&str>> = Vec::new();
            for file in staged {
                if !done.contains(&file.folder) {
                    done.push(file.folder);
                    self.of(file).sync()?;
                }
            }
        }
        Ok(())
    }

    /// Removes the prepared contents again.
    pub(super) fn undo(&self, staged: &[StagedFile], seq: u64) {
        for file in staged {
            let dir = self.of(file);
            let name = match file.bytes {
                Some(_) => layout::next_file(&file.name, seq),
                None => layout::gone_file(&file.name, seq),
            };
            dir.remove(&name).or_trace("remove a staged file");
        }
    }

    /// Moves the prepared contents into place.
    pub(super) fn finish(&self, staged: &[StagedFile], seq: u64) -> Result<()> {
        for file in staged {
            let dir = self.of(file);
            if file.bytes.is_some() {
                dir.rename(&layout::next_file(&file.name, seq), dir, &file.name)?;
            } else {
                dir.remove(&file.name)?;
                dir.remove(&layout::gone_file(&file.name, seq))?;
            }
        }
        Ok(())
    }
}

/// Refuses a link in place of a file instead of replacing it: it was put there on purpose.
fn refuse_link(dir: &Dir, name: &str) -> Result<()> {
    use teamster_fs::FileKind;
    match dir.stamp(name)? {
        Some(stamp) if stamp.kind != FileKind::File => {
            // Reading it returns the error that names its kind.
            dir.read(name)?;
            Ok(())
        }
        _ => Ok(()),
    }
}
