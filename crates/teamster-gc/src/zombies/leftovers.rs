//! Leftovers in teams that stay, and of teams that are gone: locks and temp files of dead processes, folders of teams
//! that were only partly created, heartbeats of dead workers, and workers that still run without their run or team.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use teamster_fs::{Dir, FileKind, FsError, Lock, LockWait, Stamp, layout, remove_tree};
use teamster_types::claim_lock::{ABANDONED_AFTER, LockUse};
use teamster_types::heartbeat::Heartbeat;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::task::{Status, Task};
use teamster_types::team::TeamConfig;
use teamster_types::time::say_span;
use teamster_types::{TeamName, WorkerName};

use super::folder::TeamFolder;
use super::heartbeats::{self, HeartbeatVerdict};
use super::lock_files;
use super::scanner::ZombieScanner;
use super::verdict::{self, RunProgress};
use super::{REAP_AND_KILL, REAP_COMMAND, Zombie, ZombieAction, ZombieKind};
use crate::shell;

/// The location of a leftover, to be opened again for its removal.
#[derive(Clone, Debug)]
pub(super) struct FileLocation {
    root: PathBuf,
    folders: Vec<String>,
    name: String,
    stamp: Stamp,
    /// The team whose lock must be held during the removal; empty when none is needed.
    team: String,
}

/// A leftover and its location.
#[derive(Debug)]
pub(super) struct Leftover {
    pub(super) zombie: Zombie,
    pub(super) place: Option<FileLocation>,
    /// A process that is proven to be one of teamster's workers.
    pub(super) process: Option<ProcessId>,
    /// A dead teamster worker in a team of Claude Code.
    pub(super) guest: Option<DeadGuest>,
}

/// A teamster worker that died in a team of Claude Code, where no run's host cleans up after it.
#[derive(Clone, Debug)]
pub(super) struct DeadGuest {
    pub(super) project: PathBuf,
    pub(super) team: TeamName,
    pub(super) worker: WorkerName,
    pub(super) launch: Option<String>,
}

/// Returns the locks and temp files in a team's folders.
pub(super) fn locks(
    scanner: &ZombieScanner<'_>,
    team: &TeamFolder,
) -> Result<Vec<Leftover>, FsError> {
    let mut found = Vec::new();
    let inboxes = team.dir.child(layout::NATIVE_INBOXES)?;
    let folders = [
        (Some(&team.dir), vec![layout::TEAMS, &team.name]),
        (team.tasks.as_ref(), vec![layout::TASKS, &team.name]),
        (
            inboxes.as_ref(),
            vec![layout::TEAMS, &team.name, layout::NATIVE_INBOXES],
        ),
    ];
    for (dir, folders) in folders {
        let Some(dir) = dir else { continue };
        let left = lock_files::in_folder(scanner, dir)?;
        for lock in left
            .into_iter()
            .filter(|lock| lock.state == LockUse::Abandoned)
        {
            let zombie = Zombie {
                kind: ZombieKind::Lock,
                name: lock.name.clone(),
                team: team.name.clone(),
                age: lock.age,
                evidence: vec![lock.what],
                action: ZombieAction::Reap,
                command: REAP_COMMAND.to_owned(),
            };
            let place = FileLocation {
                root: scanner.options.layout.claude.clone(),
                folders: folders.iter().map(ToString::to_string).collect(),
                name: lock.name,
                stamp: lock.stamp,
                team: team.name.clone(),
            };
            found.push(Leftover {
                zombie,
                place: Some(place),
                process: None,
                guest: None,
            });
        }
    }
    Ok(found)
}

/// Returns the folders in `teams` left by an interrupted `team create`.
pub(super) fn unfinished_teams(scanner: &ZombieScanner<'_>, names: &[String]) -> Vec<Leftover> {
    let Some(teams) = &scanner.teams else {
        return Vec::new();
    };
    let made = names.iter().filter(|name| name.starts_with(".new-"));
    made.filter_map(|name| {
        let pid = layout::temp_owner(name)?;
        let stamp = teams.stamp(name).ok()??;
        let age = scanner.age(stamp.modified);
        let is_left = stamp.kind == FileKind::Folder
            && age >= ABANDONED_AFTER
            && lock_files::is_gone(scanner, pid)
            && teams.child(name).ok()??.owner().ok()? == scanner.user;
        is_left.then(|| Leftover {
            zombie: Zombie {
                kind: ZombieKind::Lock,
                name: name.clone(),
                team: String::new(),
                age,
                evidence: vec![Phrase::new(PhraseCode::TeamHalfMade, [("pid", &pid)])],
                action: ZombieAction::Reap,
                command: REAP_COMMAND.to_owned(),
            },
            place: Some(FileLocation {
                root: scanner.options.layout.claude.clone(),
                folders: vec![layout::TEAMS.to_owned()],
                name: name.clone(),
                stamp,
                team: String::new(),
            }),
            process: None,
            guest: None,
        })
    })
    .collect()
}

/// Returns the heartbeats of workers that are gone, and workers that outlived their run. While a run is active it takes
/// care of its own workers.
pub(super) fn workers(
    scanner: &ZombieScanner<'_>,
    team: &TeamFolder,
) -> Result<Vec<Leftover>, FsError> {
    let config = team.config();
    let host = config.and_then(TeamConfig::host);
    if host.is_some_and(|host| scanner.options.machine.process_state(&host) != ProcessState::Gone) {
        return Ok(Vec::new());
    }
    let project = config.and_then(TeamConfig::project);
    let (Some(project), Ok(name)) = (project, team.name.parse::<TeamName>()) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let mut orphaned = None;
    for (file, beat) in heartbeats::of_team(Path::new(project), &name)? {
        match heartbeats::judge(scanner, &beat) {
            HeartbeatVerdict::Dead if !team.is_ours() => {
                found.push(dead_guest(scanner, Path::new(project), team, &beat)?);
            }
            HeartbeatVerdict::Dead => {
                let task = held_task(team, &beat)?;
                found.extend(dead_worker(
                    scanner,
                    Path::new(project),
                    &file,
                    &beat,
                    task,
                )?);
            }
            HeartbeatVerdict::Alive if is_running(scanner, &beat) => {
                if orphaned.is_none() {
                    orphaned = Some(without_run(scanner, team)?);
                }
                if let Some(Some(why)) = &orphaned {
                    found.push(orphan(scanner, &beat, *why));
                }
            }
            HeartbeatVerdict::Alive | HeartbeatVerdict::Unsure | HeartbeatVerdict::Silent => {}
        }
    }
    Ok(found)
}

/// Returns why the workers of a team have no run any more. A team that was created by hand never had one, and its
/// workers may be in use.
fn without_run(
    scanner: &ZombieScanner<'_>,
    team: &TeamFolder,
) -> Result<Option<PhraseCode>, FsError> {
    if Lock::is_held(&team.dir, layout::HOST_LOCK)? {
        return Ok(None);
    }
    Ok(match verdict::run_of(scanner, team) {
        RunProgress::None => None,
        RunProgress::Started => Some(PhraseCode::RunHostGone),
        RunProgress::Finished => Some(PhraseCode::RunFinished),
        RunProgress::Deleted => Some(PhraseCode::TeamRemoved),
    })
}

fn is_running(scanner: &ZombieScanner<'_>, beat: &Heartbeat) -> bool {
    let process = beat.process();
    process.is_some_and(|process| {
        scanner.options.machine.process_state(&process) == ProcessState::Alive
    })
}

/// Returns the workers in this project whose team is gone: heartbeats of dead workers, and workers that may still run.
pub(super) fn workers_without_team(scanner: &ZombieScanner<'_>) -> Result<Vec<Leftover>, FsError> {
    let project = &scanner.options.layout.project;
    let Some(dir) = Dir::open_at(project, &layout::BRIDGES)? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in dir.entries()? {
        let Ok(team) = entry.name.parse::<TeamName>() else {
            continue;
        };
        if scanner.has_team(team.as_str()) || scanner.may_be_elsewhere(&team) {
            continue;
        }
        for (file, beat) in heartbeats::of_team(project, &team)? {
            match heartbeats::judge(scanner, &beat) {
                HeartbeatVerdict::Dead => {
                    found.extend(dead_worker(scanner, project, &file, &beat, None)?);
                }
                HeartbeatVerdict::Silent => {}
                HeartbeatVerdict::Alive | HeartbeatVerdict::Unsure => {
                    found.push(orphan(scanner, &beat, PhraseCode::TeamGone));
                }
            }
        }
    }
    Ok(found)
}

/// Describes a worker that still runs without a run or team. Only a complete record of a process on this machine proves
/// that it is teamster's.
fn orphan(scanner: &ZombieScanner<'_>, beat: &Heartbeat, why: PhraseCode) -> Leftover {
    let age = scanner.options.now.since(beat.last_poll_at);
    let is_whole = |process: &ProcessId| {
        let me = scanner.options.machine.me();
        let has_all = process.process_start_time != 0
            && (&process.boot_id, &process.pid_ns) == (&me.boot_id, &me.pid_ns)
            && !me.pid_ns.is_empty();
        has_all
            && process.pid != me.pid
            && scanner.options.machine.process_state(process) == ProcessState::Alive
    };
    let process = beat.process().filter(is_whole);
    let runs = match &process {
        Some(_) => PhraseCode::HeartbeatPidRuns,
        None => PhraseCode::HeartbeatPidMayRun,
    };
    Leftover {
        zombie: Zombie {
            kind: ZombieKind::Worker,
            name: beat.worker_name.to_string(),
            team: beat.team_name.to_string(),
            age,
            evidence: vec![
                Phrase::new(why, []),
                Phrase::new(runs, [("age", &say_span(age)), ("pid", &beat.pid)]),
            ],
            action: ZombieAction::Keep,
            command: match &process {
                Some(_) => REAP_AND_KILL.to_owned(),
                None => format!("kill {}", beat.pid),
            },
        },
        place: None,
        process,
        guest: None,
    }
}

fn gone_with_heartbeat(age: Duration, beat: &Heartbeat) -> Phrase {
    let told: [(&str, &dyn Display); 2] = [("age", &say_span(age)), ("pid", &beat.pid)];
    Phrase::new(PhraseCode::HeartbeatPidGone, told)
}

fn dead_worker(
    scanner: &ZombieScanner<'_>,
    project: &Path,
    file: &str,
    beat: &Heartbeat,
    task: Option<String>,
) -> Result<Option<Leftover>, FsError> {
    let folders = layout::heartbeat_folders(&beat.team_name);
    let Some(dir) = Dir::open_at(project, &folders)? else {
        return Ok(None);
    };
    let Some(stamp) = dir.stamp(file)? else {
        return Ok(None);
    };
    let age = scanner.options.now.since(beat.last_poll_at);
    let mut evidence = vec![gone_with_heartbeat(age, beat)];
    // While the worker still owns a task, its heartbeat is the proof of its death for workers that would take the task
    // over.
    let (action, command) = match task {
        None => (ZombieAction::Reap, REAP_COMMAND.to_owned()),
        Some(id) => {
            evidence.push(Phrase::new(PhraseCode::TaskInItsName, [("task", &id)]));
            let team = &beat.team_name;
            (
                ZombieAction::Keep,
                format!("teamster task release {id} --force --team {team}"),
            )
        }
    };
    Ok(Some(Leftover {
        zombie: Zombie {
            kind: ZombieKind::Worker,
            name: beat.worker_name.to_string(),
            team: beat.team_name.to_string(),
            age,
            evidence,
            action,
            command,
        },
        place: (action == ZombieAction::Reap).then(|| FileLocation {
            root: project.to_owned(),
            folders: folders.map(str::to_owned).into(),
            name: file.to_owned(),
            stamp,
            team: String::new(),
        }),
        process: None,
        guest: None,
    }))
}

/// Describes a teamster worker that died in a team of Claude Code.
fn dead_guest(
    scanner: &ZombieScanner<'_>,
    project: &Path,
    team: &TeamFolder,
    beat: &Heartbeat,
) -> Result<Leftover, FsError> {
    let age = scanner.options.now.since(beat.last_poll_at);
    let mut evidence = vec![gone_with_heartbeat(age, beat)];
    if let Some(id) = held_task(team, beat)? {
        evidence.push(Phrase::new(PhraseCode::TaskInItsName, [("task", &id)]));
    }
    Ok(Leftover {
        zombie: Zombie {
            kind: ZombieKind::Worker,
            name: beat.worker_name.to_string(),
            team: beat.team_name.to_string(),
            age,
            evidence,
            action: ZombieAction::Reap,
            command: REAP_COMMAND.to_owned(),
        },
        place: None,
        process: None,
        guest: Some(DeadGuest {
            project: project.to_owned(),
            team: beat.team_name.clone(),
            worker: beat.worker_name.clone(),
            launch: beat.launch.clone(),
        }),
    })
}

/// Returns the task that a worker was working on.
fn held_task(team: &TeamFolder, beat: &Heartbeat) -> Result<Option<String>, FsError> {
    let Some(tasks) = &team.tasks else {
        return Ok(None);
    };
    for entry in tasks.entries()? {
        let Some(id) = layout::task_of_file(&entry.name) else {
            continue;
        };
        let task = tasks.read(&entry.name)?;
        let task = task.and_then(|(bytes, _)| Task::parse(&id, &bytes).ok());
        let is_held = task.is_some_and(|task| {
            task.status() == Status::InProgress && task.owner() == Some(beat.worker_name.as_str())
        });
        if is_held {
            return Ok(Some(id.to_string()));
        }
    }
    Ok(None)
}

impl FileLocation {
    /// Removes the leftover if it is unchanged since it was judged; returns false when it has changed, or when the
    /// team's lock is held.
    pub(super) fn remove(&self, scanner: &ZombieScanner<'_>) -> Result<bool, FsError> {
        let folders: Vec<&str> = self.folders.iter().map(String::as_str).collect();
        let Some(dir) = Dir::open_at(&self.root, &folders)? else {
            return Ok(false);
        };
        // A process that takes over a stale claim lock holds the team's lock; two must not judge the same claim lock at
        // once.
        let tasks = match &scanner.tasks {
            Some(tasks) if !self.team.is_empty() => tasks.child(&self.team)?,
            _ => None,
        };
        let _lock = match tasks {
            Some(tasks) if tasks.stamp(layout::TEAM_LOCK)?.is_some() => {
                match Lock::wait(
                    &tasks,
                    layout::TEAM_LOCK,
                    scanner.options.budget.patience(),
                    false,
                )? {
                    LockWait::Held(lock) => Some(lock),
                    LockWait::TimedOut => return Ok(false),
                }
            }
            _ => None,
        };
        if dir.stamp(&self.name)? != Some(self.stamp) {
            return Ok(false);
        }
        match self.stamp.kind {
            FileKind::Folder if self.folders == [layout::TEAMS] => {
                remove_tree(&dir, &self.name).map(|()| true)
            }
            FileKind::Folder => dir.remove_dir(&self.name),
            _ => dir.remove(&self.name),
        }
    }

    /// Returns the shell command with which a user removes the leftover.
    pub(super) fn command(&self) -> String {
        let folder = self
            .folders
            .iter()
            .fold(self.root.clone(), |path, name| path.join(name));
        shell::remove(&[&folder.join(&self.name)])
    }
}
