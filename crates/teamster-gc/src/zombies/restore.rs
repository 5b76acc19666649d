//! Restoring a team from the trash.

use serde::Serialize;
use teamster_fs::{Dir, Durability, FsError, layout};
use teamster_journal::payload::EmptyPayload;
use teamster_journal::{EventActor, EventKind, EventType, NewEvent};
use teamster_store::{Result, StoreError};

use super::journal;
use super::scanner::{ScanOptions, ZombieScanner};
use super::trash::{self, Trash, TrashEntry, TrashNote};

/// A restored team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The name of the team.
    pub team: String,
    /// The trash entry that it was restored from.
    pub from: String,
    /// Whether its tasks were restored, too; a team may have none.
    pub tasks: bool,
}

/// Restores the newest trash entry of `team`.
pub fn restore(options: &ScanOptions<'_>, team: &str) -> Result<Restored> {
    let nothing = || {
        StoreError::not_found(format!("there is no team {team:?} in the trash"))
            .hint("removed teams are kept for 7 days; `teamster team list` shows those there are")
    };
    let scanner = ZombieScanner::open(options, None)?.ok_or_else(nothing)?;
    let trash = Trash::open(&scanner, false)?.ok_or_else(nothing)?;
    trash.finish(&scanner)?;
    let entry = newest(&trash.dir, team)?.ok_or_else(nothing)?;
    let has_tasks = entry.has(layout::TASKS)?;
    if scanner.has_team(team) {
        return Err(taken(team, layout::TEAMS));
    }
    let place = scanner.root.child(layout::TASKS)?;
    if has_tasks && place.is_some_and(|tasks| !matches!(tasks.stamp(team), Ok(None))) {
        return Err(taken(team, layout::TASKS));
    }
    prepare(&scanner, &entry)?;
    if !trash::take_out(&scanner, &entry.dir, team)? {
        return Err(taken(team, layout::TEAMS));
    }
    trash.drop_entry(&entry.name, &entry.dir)?;
    Ok(Restored {
        team: team.to_owned(),
        from: entry.name,
        tasks: has_tasks,
    })
}

fn newest(trash: &Dir, team: &str) -> Result<Option<TrashEntry>, FsError> {
    let mut found = None;
    for entry in trash::entries(trash)? {
        if entry.team == team && entry.has(layout::TEAMS)? {
            found = Some(entry);
        }
    }
    Ok(found)
}

/// Prepares an entry for the return of its team: a mark records that a user wants the team, an event is added to the
/// journal if it ends with the team's deletion, and the note allows the next process to move the team back into the
/// trash if this one is killed half-way.
fn prepare(scanner: &ZombieScanner<'_>, entry: &TrashEntry) -> Result<()> {
    let tasks = entry.dir.stamp(layout::TASKS)?.map(|stamp| stamp.inode);
    trash::write_note(
        &entry.dir,
        &TrashNote {
            team: entry.team.clone(),
            at: entry
                .note
                .as_ref()
                .map_or(scanner.options.now, |note| note.at),
            tasks,
            evidence: entry
                .note
                .as_ref()
                .map_or_else(Vec::new, |note| note.evidence.clone()),
        },
    )?;
    if let Some(registry) = entry.dir.child(layout::TEAMS)? {
        // A journal that ends with the team's deletion would get the team removed again.
        let event = NewEvent::new(EventActor::Person, EventKind::TeamRestored(EmptyPayload {}));
        journal::append(&registry, scanner.options.now, event, |last| {
            last.is(EventType::TeamDeleted)
        })?;
        let now = scanner.options.now.to_string();
        registry.replace(layout::RESTORED, now.as_bytes(), Durability::Fast)?;
    }
    Ok(())
}

fn taken(team: &str, folder: &str) -> StoreError {
    StoreError::conflict(format!(
        "there is a {folder}/{team} already; nothing was changed"
    ))
    .hint("remove it or move it away first")
}
