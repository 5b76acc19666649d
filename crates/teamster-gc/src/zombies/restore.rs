//! Taking a team out of the trash.

use serde::Serialize;
use teamster_fs::{Dir, FsError, Sync, layout};
use teamster_journal::payload::Nothing;
use teamster_journal::{EventKind, EventType, NewEvent};
use teamster_store::{Result, StoreError};

use super::look::{Look, Scene};
use super::told;
use super::trash::{self, Entry, Note, Trash};

/// A team that is back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The team.
    pub team: String,
    /// The entry of the trash that it was.
    pub from: String,
    /// Whether its tasks are back, too; a team may have none.
    pub tasks: bool,
}

/// Brings the newest `team` in the trash back, as it was.
pub fn restore(look: &Look<'_>, team: &str) -> Result<Restored> {
    let nothing = || {
        StoreError::not_found(format!("there is no team {team:?} in the trash"))
            .hint("removed teams are kept for 7 days; `teamster team list` shows those there are")
    };
    let scene = Scene::open(look, None)?.ok_or_else(nothing)?;
    let trash = Trash::open(&scene, false)?.ok_or_else(nothing)?;
    trash.finish(&scene)?;
    let entry = newest(&trash.dir, team)?.ok_or_else(nothing)?;
    let has_tasks = entry.has(layout::TASKS)?;
    if scene.has_team(team) {
        return Err(taken(team, layout::TEAMS));
    }
    let place = scene.root.child(layout::TASKS)?;
    if has_tasks && place.is_some_and(|tasks| !matches!(tasks.stamp(team), Ok(None))) {
        return Err(taken(team, layout::TASKS));
    }
    prepare(&scene, &entry)?;
    if !trash::take_out(&scene, &entry.dir, team)? {
        return Err(taken(team, layout::TEAMS));
    }
    trash.drop_entry(&entry.name, &entry.dir)?;
    Ok(Restored {
        team: team.to_owned(),
        from: entry.name,
        tasks: has_tasks,
    })
}

fn newest(trash: &Dir, team: &str) -> Result<Option<Entry>, FsError> {
    let mut found = None;
    for entry in trash::entries(trash)? {
        if entry.team == team && entry.has(layout::TEAMS)? {
            found = Some(entry);
        }
    }
    Ok(found)
}

/// Everything that must be true when the team is seen again: it is wanted, its journal does not end with its end, and
/// if we are killed on the way it is found half out and put back in.
fn prepare(scene: &Scene<'_>, entry: &Entry) -> Result<()> {
    let tasks = entry.dir.stamp(layout::TASKS)?.map(|stamp| stamp.inode);
    trash::write_note(
        &entry.dir,
        &Note {
            team: entry.team.clone(),
            at: entry.note.as_ref().map_or(scene.look.now, |note| note.at),
            tasks,
            evidence: entry
                .note
                .as_ref()
                .map_or_else(Vec::new, |note| note.evidence.clone()),
        },
    )?;
    if let Some(registry) = entry.dir.child(layout::TEAMS)? {
        // Whoever finds a journal that ends with the team's end would remove the team again.
        let event = NewEvent::new("user", EventKind::TeamRestored(Nothing {}));
        told::append(&registry, scene.look.now, event, |last| {
            last.is(EventType::TeamDeleted)
        })?;
        let now = scene.look.now.to_string();
        registry.replace(layout::RESTORED, now.as_bytes(), Sync::Fast)?;
    }
    Ok(())
}

fn taken(team: &str, folder: &str) -> StoreError {
    StoreError::conflict(format!(
        "there is a {folder}/{team} already; nothing was changed"
    ))
    .hint("remove it or move it away first")
}
