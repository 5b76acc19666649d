//! Removal of what is abandoned: into the trash, and out of it for good after seven days.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use teamster_claude::state::{Op, StateChange, StateFiles};
use teamster_fs::{Dir, FsError};
use teamster_isolate::OrTrace as _;
use teamster_journal::EventActor;
use teamster_store::{FileStore, FileStoreSettings, Result, StoreError, SystemClock, keep_journal};
use teamster_types::TeamName;
use teamster_types::process::ProcessId;
use teamster_types::team::TeamConfig;
use teamster_workers::reclaim;

use teamster_types::phrase::Phrase;

use super::folder::{ScanInterrupted, TeamFolder};
use super::journal;
use super::leftovers::{DeadGuest, FileLocation};
use super::panes;
use super::processes;
use super::scan::{self, FoundItem, RemovalTarget};
use super::scanner::{ScanOptions, ZombieScanner};
use super::trash::{self, MoveOutcome, Trash};
use super::verdict::{self, TeamVerdict};
use super::{Zombie, ZombieAction, ZombieKind};
use crate::GcError;
use crate::worktrees::ProjectGc;

/// An item that was found, and the result of its removal.
#[derive(Clone, Debug, Serialize)]
pub struct ReapResult {
    /// The item.
    #[serde(flatten)]
    pub zombie: Zombie,
    /// Whether the item was removed.
    pub reaped: bool,
    /// The pid of the item's process, if that was ended.
    #[serde(skip)]
    pub(super) process: Option<u32>,
    /// Where its files are kept for seven days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trash: Option<String>,
    /// Why it could not be removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ReapResult {
    pub(super) fn untouched(zombie: Zombie) -> Self {
        Self {
            zombie,
            reaped: false,
            process: None,
            trash: None,
            problem: None,
        }
    }
}

/// The result of `zombies reap`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReapReport {
    /// Everything that was found, with its result.
    pub zombies: Vec<ReapResult>,
    /// How many processes were ended.
    pub killed: usize,
    /// How many trash entries were older than seven days and were deleted for good.
    pub purged: usize,
    /// Other problems.
    pub problems: Vec<String>,
}

impl ReapReport {
    /// Also removes worktrees of teams that are gone, if git confirms that they have no unsaved work.
    pub fn reap_worktrees(&mut self, gc: &ProjectGc<'_>, dry_run: bool) {
        let trees = self.zombies.iter_mut();
        for done in trees.filter(|done| done.zombie.kind == ZombieKind::Worktree && !done.reaped) {
            let (team, name) = (&done.zombie.team, &done.zombie.name);
            let removed = gc.repo().map_err(GcError::from);
            match removed.and_then(|repo| gc.remove_worktree(&repo, team, name, dry_run)) {
                Ok(None) => done.reaped = true,
                Ok(Some(why)) => done.zombie.evidence.push(Phrase::verbatim(&why)),
                // Without git the content of the worktree cannot be judged, so it stays.
                Err(error) => {
                    let why = Phrase::verbatim(&error.to_string());
                    done.zombie.evidence.push(why);
                }
            }
        }
    }
}

/// The options of `zombies reap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReapOptions {
    /// Whether to remove nothing and only report what would be removed.
    pub dry_run: bool,
    /// Whether to also end teamster's abandoned processes and close its dead panes. Only a user may request that.
    pub kill: bool,
}

/// Removes everything that `scan` lists with the action `reap`.
pub fn reap(scan_options: &ScanOptions<'_>, options: ReapOptions) -> Result<ReapReport> {
    let Some(scanner) = ZombieScanner::open(scan_options, None)? else {
        return Ok(ReapReport::default());
    };
    let mut items = scan::items(&scanner)?;
    for item in &mut items {
        let is_to_end = matches!(
            item.target,
            RemovalTarget::Process(_) | RemovalTarget::Pane(_)
        );
        if is_to_end && options.kill {
            item.zombie.action = ZombieAction::Reap;
        }
    }
    if options.dry_run {
        let zombies = items
            .into_iter()
            .map(|item| ReapResult::untouched(item.zombie));
        return Ok(ReapReport {
            zombies: zombies.collect(),
            ..ReapReport::default()
        });
    }
    let needs_trash = items
        .iter()
        .any(|item| matches!(item.target, RemovalTarget::Team));
    let trash = Trash::open(&scanner, needs_trash)?;
    if let Some(trash) = &trash {
        // An unfinished removal seen without the lock may belong to another reaper at work. Under the lock it can only
        // be that of a dead process.
        let left: Vec<String> = trash::half_moved(&scanner)?
            .into_iter()
            .map(|zombie| zombie.name)
            .collect();
        items.retain(|item| {
            !matches!(item.target, RemovalTarget::HalfMoved) || left.contains(&item.zombie.name)
        });
        trash.finish(&scanner)?;
    }
    let mut outcome = ReapReport::default();
    let mut endings = VecDeque::new();
    if options.kill {
        let all: Vec<ProcessId> = items.iter().filter_map(FoundItem::process).collect();
        endings = processes::end_all(scan_options.machine, &all);
    }
    for item in items {
        let ending = item
            .process()
            .and_then(|process| Some((process, endings.pop_front()?)));
        let done = match ending {
            Some((process, ending)) => processes::ended(ending, &process, item.zombie),
            None => one(&scanner, trash.as_ref(), options, item),
        };
        if let Some(done) = &done {
            tell(&scanner, done);
        }
        outcome.zombies.extend(done);
    }
    let ended = |done: &&ReapResult| done.reaped && done.process.is_some();
    outcome.killed = outcome.zombies.iter().filter(ended).count();
    if let Some(trash) = &trash {
        match trash.purge(&scanner) {
            Ok((purged, problems)) => (outcome.purged, outcome.problems) = (purged, problems),
            // The removals so far must still be reported.
            Err(error) => outcome.problems.push(error.to_string()),
        }
    }
    Ok(outcome)
}

/// Removes one item and returns the result; `None` when it no longer exists, because another process was faster.
fn one(
    scanner: &ZombieScanner<'_>,
    trash: Option<&Trash>,
    options: ReapOptions,
    item: FoundItem,
) -> Option<ReapResult> {
    let FoundItem { zombie, target } = item;
    match (target, trash) {
        (RemovalTarget::Pane(pane), _) if options.kill => {
            Some(panes::close(scanner, &pane, zombie))
        }
        (RemovalTarget::Team, Some(trash)) => team(scanner, trash, zombie),
        (RemovalTarget::HalfMoved, Some(_)) => {
            let left = trash::half_moved(scanner).unwrap_or_default();
            let reaped = !left.iter().any(|other| other.name == zombie.name);
            Some(ReapResult {
                reaped,
                ..ReapResult::untouched(zombie)
            })
        }
        (RemovalTarget::File(place), _) => Some(file(scanner, &place, zombie)),
        (RemovalTarget::Guest(guest), _) => Some(dismiss(scanner, &guest, options, zombie)),
        _ => Some(ReapResult::untouched(zombie)),
    }
}

/// Records the result for a leftover in its team's journal. For a whole team, [`put`] has already done that.
fn tell(scanner: &ZombieScanner<'_>, done: &ReapResult) {
    match done {
        ReapResult { zombie, .. } if zombie.kind == ZombieKind::Team => {}
        ReapResult {
            zombie,
            reaped: true,
            ..
        } => journal::reaped(scanner, zombie),
        ReapResult { zombie, .. } => journal::found(scanner, zombie),
    }
}

/// Judges a team once more, now that no other process removes teams, and moves it to the trash.
fn team(scanner: &ZombieScanner<'_>, trash: &Trash, zombie: Zombie) -> Option<ReapResult> {
    let problem = |zombie: Zombie, problem: String| {
        Some(ReapResult {
            problem: Some(problem),
            ..ReapResult::untouched(Zombie {
                action: ZombieAction::Keep,
                ..zombie
            })
        })
    };
    let judged = match verdict::judge(scanner, &zombie.name) {
        Ok(Some(judged)) => judged,
        Ok(None) => return None,
        Err(ScanInterrupted::OutOfTime) => return Some(ReapResult::untouched(zombie)),
        Err(ScanInterrupted::Failed(error)) => return problem(zombie, error.to_string()),
    };
    match put(scanner, trash, &judged) {
        Ok(Some(MoveOutcome::Trashed(path))) => Some(ReapResult {
            reaped: true,
            trash: Some(path.display().to_string()),
            ..ReapResult::untouched(judged.zombie)
        }),
        Ok(Some(MoveOutcome::Changed)) => problem(
            zombie,
            "another process is changing it right now".to_owned(),
        ),
        Ok(None) => Some(ReapResult::untouched(judged.zombie)),
        Err(error) => problem(zombie, error.to_string()),
    }
}

/// Moves a team to the trash, ends the state that viewers see of it and keeps its journal; `None` when the verdict is
/// not to remove it.
pub(super) fn put(
    scanner: &ZombieScanner<'_>,
    trash: &Trash,
    judged: &TeamVerdict,
) -> Result<Option<MoveOutcome>, FsError> {
    match (&judged.folder, judged.zombie.action) {
        (Some((folder, seen)), ZombieAction::Reap) => {
            let evidence = &judged.zombie.evidence;
            let moved = trash.put(scanner, folder, *seen, evidence)?;
            if matches!(moved, MoveOutcome::Trashed(_)) {
                end_state_of(scanner, folder);
                if folder.is_ours() {
                    journal::reaped_team(scanner, &folder.dir, &judged.zombie);
                    keep_journal_of(folder);
                }
            }
            Ok(Some(moved))
        }
        _ => Ok(None),
    }
}

/// Ends the state that viewers see of the session that led a team, since no member is left to do so. If the lock of the
/// state is held, the change is left for its holder to apply.
fn end_state_of(scanner: &ZombieScanner<'_>, folder: &TeamFolder) {
    let Some(config) = folder.config() else {
        return;
    };
    let (Some(project), session) = (config.project(), config.lead_session()) else {
        return;
    };
    if session.is_empty() {
        return;
    }
    let layout = scanner.options.layout.of_project(Path::new(project));
    let end = StateChange::new(session, scanner.options.now, vec![Op::CleanUp]);
    StateFiles::of(&layout)
        .apply_or_leave(end, Duration::ZERO)
        .or_trace("end the state of a team that was removed");
}

/// Keeps the journal of a team with the reports of its project, so that its run can be replayed after the trash was
/// emptied.
fn keep_journal_of(team: &TeamFolder) {
    let project = team.config().and_then(TeamConfig::project);
    if let (true, Some(project), Ok(name)) =
        (team.is_ours(), project, team.name.parse::<TeamName>())
    {
        keep_journal(project, &name, &team.dir).or_trace("keep the journal of a team");
    }
}

/// Releases the tasks of a dead teamster worker in a team of Claude Code, and removes it from the registry there.
/// Processes that it left running are ended only if that was requested.
fn dismiss(
    scanner: &ZombieScanner<'_>,
    guest: &DeadGuest,
    options: ReapOptions,
    zombie: Zombie,
) -> ReapResult {
    let ended = guest.launch.as_deref().filter(|_| options.kill);
    let put_in_order = || -> std::result::Result<(), StoreError> {
        let clock = Arc::new(SystemClock);
        let store = FileStore::open(scanner.options.layout, clock, FileStoreSettings::default())?;
        let (machine, actor) = (scanner.options.machine, EventActor::System);
        reclaim::reclaim(&store, machine, &guest.team, &guest.worker, ended, &actor)?;
        let Some(project) = Dir::open_root(&guest.project)? else {
            return Ok(());
        };
        let launch = guest.launch.as_deref();
        reclaim::remove_launch(&store, &project, &guest.team, &guest.worker, launch)
    };
    match put_in_order() {
        Ok(()) => ReapResult {
            reaped: true,
            ..ReapResult::untouched(zombie)
        },
        Err(error) => ReapResult {
            problem: Some(error.to_string()),
            ..ReapResult::untouched(zombie)
        },
    }
}

fn file(scanner: &ZombieScanner<'_>, place: &FileLocation, zombie: Zombie) -> ReapResult {
    match place.remove(scanner) {
        Ok(reaped) => ReapResult {
            reaped,
            ..ReapResult::untouched(zombie)
        },
        Err(error) => ReapResult {
            problem: Some(error.to_string()),
            ..ReapResult::untouched(Zombie {
                command: place.command(),
                ..zombie
            })
        },
    }
}
