//! Records findings and removals in the journal of the team that they belong to. Only teams that teamster created have
//! a journal; nothing is written to a team of Claude Code.
//!
//! A scan records nothing: an event would make an old team look young, and `zombies scan` changes nothing.

use std::sync::Arc;

use teamster_fs::{Dir, Durability, FsError, layout};
use teamster_isolate::OrTrace as _;
use teamster_journal::payload::ZombieSeen;
use teamster_journal::{Event, EventActor, EventKind, LINE_LIMIT, NewEvent};
use teamster_store::{FileStore, FileStoreSettings, ReadStore as _, Store as _, SystemClock};
use teamster_types::json;
use teamster_types::{TeamName, Time};

use teamster_claude::state::LONGEST_TEXT;
use teamster_types::text::shown_line;

use super::Zombie;
use super::folder::{self, TeamFolderEntry};
use super::scanner::ZombieScanner;

/// How many of the last events are searched for the same finding.
const LAST_EVENTS: usize = 200;

/// Records that a leftover of a team was removed while the team itself stays.
pub(super) fn reaped(scanner: &ZombieScanner<'_>, zombie: &Zombie) {
    if let Some((store, team)) = journal_of(scanner, zombie) {
        // The leftover is gone either way; `doctor` reports a journal that cannot be written.
        store
            .record(&team, event(scanner, EventKind::ZombieReaped, zombie))
            .or_trace("record what was removed");
    }
}

/// Records, once and not on every scan, that a team has a leftover that a user has to decide about.
pub(super) fn found(scanner: &ZombieScanner<'_>, zombie: &Zombie) {
    let Some((store, team)) = journal_of(scanner, zombie) else {
        return;
    };
    let last = store.last_events(&team, LAST_EVENTS);
    let last = last.ok_or_trace("read what was found before");
    let events = last.map(|page| page.events).unwrap_or_default();
    let name = shown_line(&zombie.name, LONGEST_TEXT);
    let is_same = |seen: &ZombieSeen| seen.kind == zombie.kind.as_str() && seen.name == name;
    let told = events.iter().rev().find_map(|event| match event.payload() {
        EventKind::ZombieFound(seen) if is_same(&seen) => Some(true),
        EventKind::ZombieReaped(seen) if is_same(&seen) => Some(false),
        _ => None,
    });
    if told != Some(true) {
        store
            .record(&team, event(scanner, EventKind::ZombieFound, zombie))
            .or_trace("record what was found");
    }
}

/// Records why a whole team was removed, at the end of its journal in the trash.
pub(super) fn reaped_team(scanner: &ZombieScanner<'_>, registry: &Dir, zombie: &Zombie) {
    let event = event(scanner, EventKind::ZombieReaped, zombie);
    append(registry, scanner.options.now, event, |_| true).or_trace("note it in the registry");
}

fn journal_of(scanner: &ZombieScanner<'_>, zombie: &Zombie) -> Option<(FileStore, TeamName)> {
    let team: TeamName = zombie.team.parse().ok()?;
    match folder::open(scanner, &zombie.team) {
        TeamFolderEntry::Team(folder) if folder.is_ours() => {}
        _ => return None,
    }
    let settings = FileStoreSettings {
        sync: Durability::Fast,
        patience: scanner.options.budget.patience(),
        ..FileStoreSettings::default()
    };
    let store = FileStore::open(scanner.options.layout, Arc::new(SystemClock), settings);
    Some((store.ok_or_trace("open the journal of a team")?, team))
}

fn event(
    scanner: &ZombieScanner<'_>,
    what: fn(ZombieSeen) -> EventKind,
    zombie: &Zombie,
) -> NewEvent {
    let evidence: Vec<String> = zombie
        .evidence
        .iter()
        .map(|why| shown_line(why.as_str(), LONGEST_TEXT))
        .collect();
    let actor = if scanner.is_thorough() {
        EventActor::Person
    } else {
        EventActor::System
    };
    let seen = ZombieSeen {
        kind: zombie.kind.as_str().to_owned(),
        name: shown_line(&zombie.name, LONGEST_TEXT),
        evidence,
    };
    NewEvent::new(actor, what(seen))
}

/// Appends an event to the journal in a folder that no other process can reach, if its last event matches `fits`. A
/// torn last line is cut off first.
pub(super) fn append(
    registry: &Dir,
    now: Time,
    new: NewEvent,
    fits: impl Fn(&Event) -> bool,
) -> Result<(), FsError> {
    let Some(stamp) = registry.stamp(layout::JOURNAL)? else {
        return Ok(());
    };
    let from = stamp.size.saturating_sub(4 * LINE_LIMIT as u64);
    let Some((bytes, _)) = registry.read_from(layout::JOURNAL, from)? else {
        return Ok(());
    };
    let end = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let last = bytes[..end]
        .split(|byte| *byte == b'\n')
        .rfind(|line| !line.is_empty());
    let last: Option<Event> = last.and_then(|line| serde_json::from_slice(line).ok());
    let Some(last) = last.filter(fits) else {
        return Ok(());
    };
    if end < bytes.len() {
        registry.truncate(layout::JOURNAL, from + end as u64)?;
    }
    let event = new.placed(last.seq + 1, teamster_fs::random_hex(), now, last.team);
    registry.append(layout::JOURNAL, &json::to_line(&event), Durability::Durable)?;
    Ok(())
}
