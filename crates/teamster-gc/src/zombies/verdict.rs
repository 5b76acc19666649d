//! The verdict on one team: whether it is removed, and the evidence.
//!
//! The rules are in the documentation of [`zombies`](super); the facts come from [`life_signs`](super::life_signs).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use teamster_fs::{OrTrace as _, layout};
use teamster_journal::{EventType, RunState, TeamState};
use teamster_store::{FileStore, FileStoreSettings, ReadStore, SystemClock};
use teamster_types::created_at::created_at;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::process::ProcessState;
use teamster_types::team::TeamConfig;
use teamster_types::time::say_span;
use teamster_types::{TeamName, Time};

use super::folder::{
    self, FolderFingerprint, ScanInterrupted, TeamFolder, TeamFolderEntry, TeamRegistry,
};
use super::life_signs::{self, LifeSigns};
use super::scanner::ZombieScanner;
use super::{Zombie, ZombieAction, ZombieKind, reap_command};
use crate::shell;

/// The event types whose last occurrence alone decides whether a team was removed.
const TEAM_TURNING_POINTS: [EventType; 3] = [
    EventType::TeamCreated,
    EventType::TeamDeleted,
    EventType::TeamRestored,
];

/// A team to be listed.
#[derive(Debug)]
pub(super) struct TeamVerdict {
    pub(super) zombie: Zombie,
    /// Its members that still run without a lead, and dead panes.
    pub(super) members: Vec<Zombie>,
    /// Its folders and their state, if they can be moved.
    pub(super) folder: Option<(Box<TeamFolder>, FolderFingerprint)>,
}

/// The progress of a team's run, according to its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunProgress {
    /// There was no run, or the journal cannot be read.
    None,
    /// A run started or was resumed, and has not finished.
    Started,
    /// Its last run finished.
    Finished,
    /// The team's deletion is recorded, but its files still exist.
    Deleted,
}

/// Judges the team `name`; `None` when there is nothing to report.
pub(super) fn judge(
    scanner: &ZombieScanner<'_>,
    name: &str,
) -> Result<Option<TeamVerdict>, ScanInterrupted> {
    match folder::open(scanner, name) {
        TeamFolderEntry::Nothing => Ok(None),
        TeamFolderEntry::Odd(why) => Ok(Some(odd(scanner, name, why))),
        TeamFolderEntry::Team(team) => judge_folder(scanner, team),
    }
}

fn judge_folder(
    scanner: &ZombieScanner<'_>,
    team: Box<TeamFolder>,
) -> Result<Option<TeamVerdict>, ScanInterrupted> {
    let now = scanner.options.now;
    let created = match &team.registry {
        TeamRegistry::Read(config) => Some(created_at(config.as_object().get("createdAt"), now)),
        TeamRegistry::Missing => None,
        TeamRegistry::Unreadable(problem) => {
            let why = Phrase::new(PhraseCode::RegistryUnreadable, [("error", problem)]);
            return Ok(Some(odd(scanner, &team.name, why)));
        }
    };
    let is_young = |time: Time| now.since(time) < scanner.options.ttl;
    let created_young = matches!(created, Some(Ok(time)) if is_young(time));
    let lead_gone = !team.is_ours() && life_signs::lead_gone(scanner, &team).is_some();
    let stalled = team.is_ours() && scanner.is_thorough() && is_stalled(scanner, &team);
    if created_young && !lead_gone && !stalled {
        return Ok(None);
    }
    let ttl = i64::try_from(scanner.options.ttl.as_millis()).unwrap_or(i64::MAX);
    let threshold = now
        .as_millis()
        .saturating_sub(ttl)
        .saturating_mul(1_000_000);
    let enough = (!lead_gone && !stalled).then_some(threshold);
    let seen = team.seen(&scanner.options.budget, enough)?;
    let newest = Time::from_millis(seen.newest / 1_000_000);
    // The later of both is used: an implausible value never removes a team that is just being created.
    let since = match created {
        Some(Ok(time)) => time.max(newest),
        _ => newest,
    };
    let is_old = !is_young(since);
    if !is_old && !lead_gone && !stalled {
        return Ok(None);
    }
    let mut evidence = Vec::new();
    if let Some(Err(odd)) = created {
        evidence.push(Phrase::new(PhraseCode::OddTime, [("odd", &odd)]));
    }
    let signs = life_signs::gather(scanner, &team)?;
    let age = now.since(since);
    let action = if team.is_ours() {
        match ours(scanner, &team, &signs, age, is_old, &mut evidence) {
            Some(action) => action,
            None => return Ok(None),
        }
    } else {
        native(&team, &signs, age, is_old, &mut evidence)
    };
    // A member with a lead is no orphan; dead panes are listed in any case.
    let keeps = |found: &Zombie| found.kind == ZombieKind::Pane || signs.lead_gone.is_some();
    let mut members: Vec<Zombie> = signs.members.iter().filter(|f| keeps(f)).cloned().collect();
    for member in &mut members {
        member.age = age;
        member.evidence.extend(signs.lead_gone.clone());
    }
    Ok(Some(TeamVerdict {
        zombie: Zombie {
            kind: ZombieKind::Team,
            name: team.name.clone(),
            team: team.name.clone(),
            age,
            evidence,
            action,
            command: match action {
                ZombieAction::Reap => reap_command(scanner.options.ttl),
                ZombieAction::Keep => by_hand(scanner, &team),
            },
        },
        members,
        folder: Some((team, seen)),
    }))
}

/// Judges a team of Claude Code. It is removed at any age on proof that it is over, and when it is old without any sign
/// of life.
fn native(
    team: &TeamFolder,
    signs: &LifeSigns,
    age: Duration,
    is_old: bool,
    evidence: &mut Vec<Phrase>,
) -> ZombieAction {
    evidence.extend(signs.lead_gone.clone());
    let restored = !matches!(team.dir.stamp(layout::RESTORED), Ok(None));
    let over = signs.lead_gone.is_some()
        && signs.are_none(is_old)
        && signs.unread.is_empty()
        && !signs.unproven
        && signs.open_tasks == 0
        && !restored;
    if over {
        evidence.push(Phrase::new(PhraseCode::OthersStopped, []));
        return ZombieAction::Reap;
    }
    if is_old && signs.are_none(is_old) {
        evidence.push(no_sign_of_life(age));
        evidence.extend(signs.unread.iter().cloned());
        return ZombieAction::Reap;
    }
    if is_old {
        evidence.push(verdict_of_old(signs));
    }
    evidence.extend(signs.words());
    if !is_old && signs.are_none(is_old) {
        evidence.push(match (signs.open_tasks, restored) {
            (0, true) => Phrase::new(PhraseCode::WasRestored, []),
            (0, false) => Phrase::new(PhraseCode::OthersNotProven, []),
            (1, _) => Phrase::new(PhraseCode::OpenTaskOfSession, []),
            (open, _) => Phrase::new(PhraseCode::OpenTasksOfSession, [("count", &open)]),
        });
    }
    ZombieAction::Keep
}

/// Judges a team that teamster created. It is removed only when it is old, its run has finished and no task is open.
/// Returns `None` when it is alive and not old, so that there is nothing to report.
fn ours(
    scanner: &ZombieScanner<'_>,
    team: &TeamFolder,
    signs: &LifeSigns,
    age: Duration,
    is_old: bool,
    evidence: &mut Vec<Phrase>,
) -> Option<ZombieAction> {
    if !signs.are_none(is_old) {
        if !is_old {
            return None;
        }
        evidence.push(verdict_of_old(signs));
        evidence.extend(signs.words());
        return Some(ZombieAction::Keep);
    }
    let run = run_of(scanner, team);
    let open = signs.open_tasks;
    evidence.push(no_sign_of_life(age));
    let code = match run {
        RunProgress::Deleted => PhraseCode::RemovalUnfinished,
        RunProgress::Started => PhraseCode::RunUnfinished,
        RunProgress::None => PhraseCode::RunNeverFinished,
        RunProgress::Finished => PhraseCode::RunFinished,
    };
    evidence.push(Phrase::new(code, []));
    evidence.extend(match open {
        0 => None,
        1 => Some(Phrase::new(PhraseCode::OpenTask, [])),
        open => Some(Phrase::new(PhraseCode::OpenTasks, [("count", &open)])),
    });
    let over = is_old && run == RunProgress::Finished && open == 0;
    Some(if over {
        ZombieAction::Reap
    } else {
        ZombieAction::Keep
    })
}

fn no_sign_of_life(age: Duration) -> Phrase {
    Phrase::new(PhraseCode::NoSignOfLife, [("age", &say_span(age))])
}

fn verdict_of_old(signs: &LifeSigns) -> Phrase {
    let code = if signs.alive.is_empty() && signs.unread.is_empty() {
        PhraseCode::OldPerhapsAlive
    } else {
        PhraseCode::OldAlive
    };
    Phrase::new(code, [])
}

/// Returns whether the journal says that a run is active or deleted while the process that hosted it is gone.
fn is_stalled(scanner: &ZombieScanner<'_>, team: &TeamFolder) -> bool {
    let host = team.config().and_then(TeamConfig::host);
    host.is_some_and(|host| scanner.options.machine.process_state(&host) == ProcessState::Gone)
        && matches!(
            run_of(scanner, team),
            RunProgress::Started | RunProgress::Deleted
        )
}

/// Returns the progress of a team's run by the last relevant events of its journal, however long ago they were.
pub(super) fn run_of(scanner: &ZombieScanner<'_>, team: &TeamFolder) -> RunProgress {
    let Ok(name) = team.name.parse::<TeamName>() else {
        return RunProgress::None;
    };
    let store = FileStore::open(
        scanner.options.layout,
        Arc::new(SystemClock),
        FileStoreSettings::default(),
    );
    let of_team = TEAM_TURNING_POINTS.map(EventType::name);
    let of_run = RunState::TURNING_POINTS.map(EventType::name);
    let last = store.and_then(|store| store.last_of_each(&name, &[&of_team, &of_run]));
    // Without a known end the team is kept.
    let Some(last) = last.ok_or_trace("read how a run ended") else {
        return RunProgress::None;
    };
    let mut state = TeamState::default();
    for event in last.iter().flatten() {
        state.apply(event, &event.payload());
    }
    // A kind of finish that this version does not know is a finish, too.
    let is_finished = state.run.history.finished.is_some();
    match state.run.begun {
        _ if state.is_deleted => RunProgress::Deleted,
        _ if is_finished => RunProgress::Finished,
        Some(_) => RunProgress::Started,
        None => RunProgress::None,
    }
}

/// Returns the verdict on an entry that is never touched.
pub(super) fn odd(scanner: &ZombieScanner<'_>, name: &str, why: Phrase) -> TeamVerdict {
    let stamp = scanner
        .teams
        .as_ref()
        .and_then(|teams| teams.stamp(name).ok()?);
    let path = scanner.options.layout.claude.join(layout::TEAMS).join(name);
    TeamVerdict {
        zombie: Zombie {
            kind: ZombieKind::Team,
            name: name.to_owned(),
            team: name.to_owned(),
            age: stamp.map_or(Duration::ZERO, |stamp| scanner.age(stamp.modified)),
            evidence: vec![why],
            action: ZombieAction::Keep,
            command: shell::remove(&[&path]),
        },
        members: Vec::new(),
        folder: None,
    }
}

/// Returns the shell command for a team that is left to the user's decision.
fn by_hand(scanner: &ZombieScanner<'_>, team: &TeamFolder) -> String {
    if team.is_ours() {
        return format!("teamster team delete {}", shell::word(&team.name));
    }
    let claude: &Path = &scanner.options.layout.claude;
    let folder = claude.join(layout::TEAMS).join(&team.name);
    let tasks = claude.join(layout::TASKS).join(&team.name);
    match team.tasks {
        Some(_) => shell::remove(&[&folder, &tasks]),
        None => shell::remove(&[&folder]),
    }
}
