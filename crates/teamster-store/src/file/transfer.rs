//! Exports and imports a whole team.
//!
//! An export is read under the team's lock. An imported team is built in two folders with temporary names. The folder
//! of its tasks is renamed first, with a marker file in it, and the team's folder last: **this is the commit**. What a
//! killed import leaves is invisible, and the next creation of a team removes it.

use std::collections::HashMap;

use teamster_fs::{Dir, Durability, OrTrace as _, layout, remove_tree};
use teamster_journal::Event;
use teamster_types::task::Task;
use teamster_types::team::TeamOrigin;
use teamster_types::{TeamName, WorkerName};

use super::held_team::HeldTeam;
use super::index::Index;
use super::{FileStore, journal, listen, mailbox, native, read, rescan, team, txn};
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::export::{ExportedMailbox, MailPlaces, TeamExport, not_ours};
use crate::store::{Damaged, Signal};

/// How many events are read and written at once.
const PAGE: usize = 2_000;

/// Reads everything of a team. Changes by other programs to its task files are journalled first, so that the journal
/// covers everything that is exported.
pub(super) fn export(store: &FileStore, name: &TeamName) -> Result<TeamExport> {
    let kind = read::config(&store.folder_to_read(name)?, name)?.kind();
    if kind == TeamOrigin::Claude {
        return Err(not_ours(name));
    }
    let mut held = HeldTeam::take(store, name, "store export", store.settings.patience)?;
    let mut index = Index::open(&held.folders.tasks, store.machine.boot_id())?;
    rescan::rescan(store, &mut held, &mut index, &HashMap::new())?;
    held.mark_clean()?;
    let highest_task = index.max_id().cloned().max(txn::high_water_mark(&held)?);
    let (team, tasks) = (&held.folders.team, &held.folders.tasks);
    let list = read::list(tasks)?;
    if let Some(problem) = list.problems.first() {
        return Err(cannot_carry(name, problem));
    }
    let mut failures = Vec::new();
    for task in &list.tasks {
        failures.extend(read::failure(tasks, task.id())?);
    }
    if let Some((inbox, _)) = native::messages(team)?.first() {
        return Err(StoreError::refused(format!(
            "in team {name} the Claude Code inbox of {inbox} holds messages, which only a store of files can keep"
        ))
        .hint("let the client read them first; nothing was changed"));
    }
    let mut places = MailPlaces::default();
    let mut mailboxes = Vec::new();
    for mailbox in mailbox::all(team)? {
        let (behind, lines): (Vec<_>, Vec<_>) = mailbox::all_lines(team, &mailbox)?
            .into_iter()
            .map(|(behind, line)| (behind.0, line))
            .unzip();
        if lines.is_empty() {
            continue;
        }
        let cursor = mailbox::cursor(team, &mailbox)?;
        places.add(&mailbox, behind);
        let label = mailbox.label();
        mailboxes.push(ExportedMailbox {
            acked: places.count_before(&label, cursor.acked.0),
            delivered: places.count_before(&label, cursor.delivered.0),
            mailbox,
            lines,
        });
    }
    mailboxes.sort_by_key(|whole| whole.mailbox.label());
    let mut events = read_journal(store, name, team)?;
    for event in &mut events {
        event.map_mail_places(|label, place| places.count_before(label, place));
    }
    Ok(TeamExport {
        team: name.clone(),
        config: read::config(team, name)?,
        highest_task,
        tasks: list.tasks,
        failures,
        mailboxes,
        signals: read_signals(store, team)?,
        events,
    })
}

fn cannot_carry(team: &TeamName, damage: &Damaged) -> StoreError {
    StoreError::new(
        StoreErrorKind::Failed,
        format!(
            "team {team} cannot be exported whole: {}: {}",
            damage.file, damage.error
        ),
    )
    .hint("repair or remove it; nothing was changed")
}

fn read_journal(store: &FileStore, name: &TeamName, team: &Dir) -> Result<Vec<Event>> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let from = events.last().map_or(1, |event| event.seq + 1);
        let page = store.places.read(team, from, PAGE)?;
        if let Some(damage) = page.damaged.first() {
            return Err(cannot_carry(name, damage));
        }
        if page.events.is_empty() {
            return Ok(events);
        }
        events.extend(page.events);
    }
}

fn read_signals(store: &FileStore, team: &Dir) -> Result<Vec<(WorkerName, Signal)>> {
    let Some(dir) = team.child(layout::SIGNALS)? else {
        return Ok(Vec::new());
    };
    let mut workers: Vec<WorkerName> = dir
        .entries()?
        .iter()
        .filter_map(|entry| layout::worker_of_signal(&entry.name))
        .collect();
    workers.sort_unstable();
    workers.dedup();
    let mut signals = Vec::new();
    for worker in workers {
        for signal in listen::read(team, &worker, store.clock.as_ref())? {
            signals.push((worker.clone(), signal));
        }
    }
    Ok(signals)
}

/// Creates a team from an export.
pub(super) fn import(store: &FileStore, export: &TeamExport) -> Result<()> {
    let name = export.team.as_str();
    let root = Dir::open_or_create_root(&store.claude)?;
    let teams = root.child_or_create(layout::TEAMS)?;
    let all_tasks = root.child_or_create(layout::TASKS)?;
    refuse_taken(&teams, &export.team)?;
    team::sweep_unfinished(store, &teams)?;
    team::sweep_unfinished(store, &all_tasks)?;
    let (pid, nonce) = (std::process::id(), teamster_fs::random_hex());
    let temp = format!(".new-{name}.{pid}.{nonce}.tmp");
    let made = build(store, &teams, &all_tasks, &temp, export)
        .and_then(|()| publish(store, &teams, &all_tasks, &temp, &export.team));
    if made.is_err() {
        for parent in [&teams, &all_tasks] {
            remove_tree(parent, &temp).or_trace("remove a folder of a team that was not imported");
        }
    }
    made
}

fn refuse_taken(teams: &Dir, team: &TeamName) -> Result<()> {
    if teams.stamp(team.as_str())?.is_none() {
        return Ok(());
    }
    Err(taken(team))
}

fn taken(team: &TeamName) -> StoreError {
    StoreError::conflict(format!("there is a team {team} already")).hint(
        "an import only creates teams; delete the existing one first, or import into another store",
    )
}

/// Writes everything under temporary names.
fn build(
    store: &FileStore,
    teams: &Dir,
    all_tasks: &Dir,
    temp: &str,
    export: &TeamExport,
) -> Result<()> {
    // One sync at the end replaces one for each file.
    let sync = Durability::Fast;
    all_tasks.make_dir(temp)?;
    let tasks = all_tasks.child_or_create(temp)?;
    tasks.create_new(layout::IMPORTING, b"", sync)?;
    for task in &export.tasks {
        tasks.create_new(&layout::task_file(task.id()), &task.to_file(), sync)?;
    }
    for failure in &export.failures {
        let bytes = serde_json::to_vec_pretty(failure).unwrap_or_default();
        tasks.create_new(&layout::failure_file(&failure.task_id), &bytes, sync)?;
    }
    let last = export.tasks.last().map(Task::id);
    if let Some(highest) = export.highest_task.as_ref()
        && last.is_none_or(|last| last < highest)
    {
        tasks.create_new(layout::HIGH_WATER_MARK, highest.as_str().as_bytes(), sync)?;
    }
    teams.make_dir(temp)?;
    let team = teams.child_or_create(temp)?;
    for folder in [layout::INBOX, layout::OUTBOX, layout::SIGNALS] {
        team.make_dir(folder)?;
    }
    team.create_new(layout::CONFIG, &export.config.to_file(), sync)?;
    let mut places = MailPlaces::default();
    for whole in &export.mailboxes {
        places.add(&whole.mailbox, mailbox::write_whole(&team, whole, sync)?);
    }
    let signals = team.child_or_create(layout::SIGNALS)?;
    for (worker, signal) in &export.signals {
        let bytes = serde_json::to_vec_pretty(signal).unwrap_or_default();
        signals.create_new(&layout::signal_file(worker, signal.drain), &bytes, sync)?;
    }
    let mut size = 0;
    for page in export.events.chunks(PAGE) {
        let mut page = page.to_vec();
        for event in &mut page {
            event.map_mail_places(|label, count| places.place_behind(label, count));
        }
        size = journal::append(&team, &page, size, sync)?;
    }
    if store.settings.sync == Durability::Durable {
        teams.sync_disk()?;
    }
    Ok(())
}

/// Renames both folders to their final names, while no other process creates a team.
fn publish(
    store: &FileStore,
    teams: &Dir,
    all_tasks: &Dir,
    temp: &str,
    team: &TeamName,
) -> Result<()> {
    let name = team.as_str();
    let _alone = team::lock_team_creation(store, teams)?;
    refuse_taken(teams, team)?;
    team::drop_unfinished_tasks(teams, all_tasks, team)?;
    if let Some(there) = all_tasks.child(name)? {
        // Access to a removed team creates a folder with nothing but a lock in it.
        let is_ours = |entry: &teamster_fs::DirEntry| entry.name.starts_with(".teamster.");
        if !there.entries()?.iter().all(is_ours) {
            return Err(StoreError::conflict(format!(
                "{} is in the way: there is no team {team}, but there are tasks",
                there.path().display()
            ))
            .hint("check its contents, and remove it if it is not needed"));
        }
        remove_tree(all_tasks, name)?;
    }
    if !all_tasks.rename_new(temp, all_tasks, name)? {
        return Err(taken(team));
    }
    let durable = store.settings.sync == Durability::Durable;
    let named: Result<bool> = (|| {
        if durable {
            all_tasks.sync()?;
        }
        Ok(teams.rename_new(temp, teams, name)?)
    })();
    if !matches!(named, Ok(true)) {
        all_tasks
            .rename_new(name, all_tasks, temp)
            .or_trace("take the tasks of a team that was not imported back");
    }
    if !named? {
        return Err(taken(team));
    }
    if durable {
        teams.sync()?;
    }
    if let Some(tasks) = all_tasks.child(name)? {
        tasks
            .remove(layout::IMPORTING)
            .or_trace("take the mark of an import away");
    }
    Ok(())
}
