//! Creates and removes a team, each in one atomic step.

use std::path::Path;

use teamster_fs::{Dir, Durability, FolderLock, OrTrace as _, layout, remove_tree};
use teamster_journal::payload::EmptyPayload;
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_types::TeamName;
use teamster_types::json;
use teamster_types::process::ProcessId;
use teamster_types::team::{NewTeam, TeamConfig, TeamOrigin};

use super::held_team::HeldTeam;
use super::{FileStore, heartbeat, journal, staged};
use crate::error::{Result, StoreError};
use crate::rules;
use crate::store::DeletedTeam;

/// The action named in the trace when the configuration of a team that is being removed cannot be read.
const NO_CONFIG: &str = "read the configuration of a team to delete";

/// The number of bytes that identify a journal: its first event begins with its position, its id and its time.
const BEGINNING: usize = 100;

/// Builds the team's folder under a temporary name and then renames it.
pub(super) fn create(store: &FileStore, new: &NewTeam, base: Option<&str>) -> Result<TeamConfig> {
    let now = store.clock.now();
    let config = TeamConfig::new(new, base, store.machine.me(), now);
    let root = Dir::open_or_create_root(&store.claude)?;
    let teams = root.child_or_create(layout::TEAMS)?;
    let taken = || {
        StoreError::conflict(format!("there is a team {} already", new.name)).hint(format!(
            "`teamster team show {}` shows it; choose another name, or delete it first",
            new.name
        ))
    };
    if let Some(there) = teams.child(new.name.as_str())? {
        if there.read(layout::CONFIG)?.is_some() {
            return Err(taken());
        }
        return Err(StoreError::conflict(format!(
            "{} is in the way: it exists, but is not a team",
            there.path().display()
        ))
        .hint("check its contents, and remove it if it is not needed"));
    }
    sweep_unfinished(store, &teams)?;
    let temp = format!(
        ".new-{}.{}.{}.tmp",
        new.name,
        std::process::id(),
        teamster_fs::random_hex()
    );
    teams.make_dir(&temp)?;
    let built = build(store, &teams, &temp, new, &config).and_then(|()| {
        let _alone = lock_team_creation(store, &teams)?;
        let tasks = root.child_or_create(layout::TASKS)?;
        drop_unfinished_tasks(&teams, &tasks, &new.name)?;
        tasks.child_or_create(new.name.as_str())?;
        Ok(teams.rename_new(&temp, &teams, new.name.as_str())?)
    });
    if !matches!(built, Ok(true)) {
        remove_tree(&teams, &temp).or_trace("remove the folder of a team that was not made");
    }
    if !built? {
        return Err(taken());
    }
    if store.settings.sync == Durability::Durable {
        teams.sync()?;
    }
    Ok(config)
}

fn build(
    store: &FileStore,
    teams: &Dir,
    temp: &str,
    new: &NewTeam,
    config: &TeamConfig,
) -> Result<()> {
    let sync = store.settings.sync;
    let dir = teams.child_or_create(temp)?;
    for folder in [layout::INBOX, layout::OUTBOX, layout::SIGNALS] {
        dir.make_dir(folder)?;
    }
    dir.create_new(layout::CONFIG, &config.to_file(), sync)?;
    let team = new.name.to_string();
    let event = rules::created(new).placed(1, teamster_fs::random_hex(), store.clock.now(), team);
    dir.create_new(layout::JOURNAL, &json::to_line(&event), sync)?;
    if sync == Durability::Durable {
        dir.sync()?;
    }
    Ok(())
}

/// Excludes other processes that create a team: a team is two folders, and only one can be renamed at a time.
pub(super) fn lock_team_creation<'a>(store: &FileStore, teams: &'a Dir) -> Result<FolderLock<'a>> {
    teams
        .lock_folder(store.settings.patience)?
        .ok_or_else(|| StoreError::busy("other processes keep creating teams").hint("try again"))
}

/// Removes the tasks of an import that was killed before it created the team. The caller holds the lock from
/// [`lock_team_creation`].
pub(super) fn drop_unfinished_tasks(teams: &Dir, tasks: &Dir, team: &TeamName) -> Result<()> {
    let Some(there) = tasks.child(team.as_str())? else {
        return Ok(());
    };
    let is_unfinished = there.stamp(layout::IMPORTING)?.is_some();
    if is_unfinished && teams.stamp(team.as_str())?.is_none() {
        remove_tree(tasks, team.as_str())?;
    }
    Ok(())
}

/// Removes the folders that a killed `team create` or `store import` left.
pub(super) fn sweep_unfinished(store: &FileStore, teams: &Dir) -> Result<()> {
    use teamster_types::process::{ProcessId, ProcessState};
    for entry in teams.entries()? {
        let Some(pid) = layout::temp_owner(&entry.name).filter(|_| entry.name.starts_with(".new-"))
        else {
            continue;
        };
        let maker = ProcessId {
            pid,
            process_start_time: 0,
            ..store.machine.me().clone()
        };
        if store.machine.process_state(&maker) == ProcessState::Gone {
            remove_tree(teams, &entry.name)?;
        }
    }
    Ok(())
}

/// Journals the removal, copies the journal to the project, and moves the team to the trash.
pub(super) fn delete(
    store: &FileStore,
    team: &TeamName,
    actor: &EventActor,
    force: bool,
) -> Result<DeletedTeam> {
    let mut held = HeldTeam::take(store, team, "team delete", store.settings.patience)?;
    let config = super::read::config(&held.folders.team, team).ok_or_trace(NO_CONFIG);
    if config
        .as_ref()
        .is_some_and(|config| config.kind() == TeamOrigin::Claude)
    {
        return Err(StoreError::refused(format!(
            "team {team} belongs to Claude Code, which removes it itself"
        )));
    }
    // The lock is held, so no task can be claimed between this check and the removal.
    let project = config.as_ref().and_then(TeamConfig::project);
    let beats = heartbeat::read_all(project, team)?.0;
    let tasks = super::read::list(&held.folders.tasks)?.tasks;
    let life = |process: &ProcessId| store.machine.process_state(process);
    rules::refuse_held(team, &tasks, &beats, &life, store.clock.now(), force)?;
    let deleted = NewEvent::new(actor, EventKind::TeamDeleted(EmptyPayload {}));
    staged::journal_now(store, &mut held, &[deleted])?;
    move_aside(store, team, &held)
}

/// Completes the removal of a team whose removal is journalled but whose files are still there.
pub(super) fn finish_delete(store: &FileStore, team: &TeamName, held: &mut HeldTeam) -> Result<()> {
    move_aside(store, team, held)?;
    Err(super::no_team(team))
}

fn move_aside(store: &FileStore, team: &TeamName, held: &HeldTeam) -> Result<DeletedTeam> {
    let config = super::read::config(&held.folders.team, team).ok_or_trace(NO_CONFIG);
    let project = config.as_ref().and_then(TeamConfig::project);
    let journal = project.and_then(|project| {
        keep_journal(project, team, &held.folders.team)
            .ok_or_trace("keep the journal of a deleted team")
            .flatten()
    });
    let root = Dir::open_or_create_root(&store.claude)?;
    let trash = trash_for(&root, team, held)?;
    // The registry is moved last: as long as it is there, the team exists and its removal can be completed.
    if let Some(tasks) = root.child(layout::TASKS)? {
        // An interrupted removal has already moved the tasks; the folder was recreated by a later access to the team.
        if !tasks.rename_new(team.as_str(), &trash, layout::TASKS)? {
            let other = format!("{}.{}", layout::TASKS, teamster_fs::random_hex());
            tasks.rename_new(team.as_str(), &trash, &other)?;
        }
    }
    if let Some(teams) = root.child(layout::TEAMS)? {
        teams.rename_new(team.as_str(), &trash, layout::TEAMS)?;
    }
    Ok(DeletedTeam {
        trash: Some(trash.path().display().to_string()),
        journal,
    })
}

/// Returns the trash folder of a removed team, named after the time of its removal: an interrupted removal is resumed
/// with the same folder, and a later team of the same name gets another one.
fn trash_for(root: &Dir, team: &TeamName, held: &HeldTeam) -> Result<Dir> {
    let end = journal::tail(&held.folders.team)?;
    let moment = end.events.last().map_or(String::new(), |event| {
        let moment = event.ts.to_string();
        moment.chars().filter(char::is_ascii_alphanumeric).collect()
    });
    let all = root.child_or_create(layout::TRASH)?;
    let mut name = format!("{moment}-{team}");
    for other in 2.. {
        let trash = all.child_or_create(&name)?;
        if trash.stamp(layout::TEAMS)?.is_none() {
            return Ok(trash);
        }
        name = format!("{moment}-{team}.{other}");
    }
    unreachable!("there are more numbers than folders")
}

/// Copies the journal to the project's reports, so that a finished run can be replayed. Reports of an earlier team of
/// the same name are renamed first.
pub fn keep_journal(project: &str, team: &TeamName, from: &Dir) -> Result<Option<String>> {
    let Some(project) = Dir::open_root(Path::new(project))? else {
        return Ok(None);
    };
    set_earlier_aside(&project, team, from)?;
    let dir = project.descend_or_create(&layout::report_folders(team))?;
    for entry in from.entries()? {
        if entry.name.starts_with("events.")
            && let Some((bytes, _)) = from.read(&entry.name)?
        {
            dir.replace(&entry.name, &bytes, Durability::Fast)?;
        }
    }
    if let Some(blobs) = from.child(layout::BLOBS)? {
        let kept = dir.child_or_create(layout::BLOBS)?;
        for entry in blobs.entries()? {
            if let Some((bytes, _)) = blobs.read(&entry.name)? {
                kept.replace(&entry.name, &bytes, Durability::Fast)?;
            }
        }
    }
    Ok(Some(dir.join(layout::JOURNAL).display().to_string()))
}

/// Renames the kept journal and report of an earlier team of the same name to `{team}.1`, or the next number that is free.
fn set_earlier_aside(project: &Dir, team: &TeamName, from: &Dir) -> Result<()> {
    let [ours, reports, name] = layout::report_folders(team);
    let Some(reports) = project.descend(&[ours, reports])? else {
        return Ok(());
    };
    let Some(kept) = reports.child(name)? else {
        return Ok(());
    };
    if kept.entries()?.is_empty() || beginning(&kept)? == beginning(from)? {
        return Ok(());
    }
    for number in 1.. {
        if reports.rename_new(name, &reports, &layout::earlier_report(team, number))? {
            break;
        }
    }
    Ok(())
}

/// Returns the beginning of a journal, or `None` when there is none. The first event records the team's creation with a
/// unique id, so no two teams have the same beginning.
fn beginning(dir: &Dir) -> Result<Option<Vec<u8>>> {
    for name in [layout::journal_segment(1), layout::JOURNAL.to_owned()] {
        let mut bytes = vec![0; BEGINNING];
        if let Some(length) = dir.read_at(&name, &mut bytes, 0)? {
            bytes.truncate(length);
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}
