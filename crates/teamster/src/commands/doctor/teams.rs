//! Checks the teams' files, and finds what dead processes left behind.

use std::fmt::Write as _;

use teamster_fs::layout::{TASKS, TEAMS, staged, temp_owner};
use teamster_fs::{Dir, FileKind, FsError};
use teamster_gc::shell::readable;
use teamster_store::ReadStore;
use teamster_types::claim_lock::{FoundClaimLock, LockUse};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::{TaskId, TeamName, Time};

use super::DoctorCheck;
use crate::context::Context;

const HEALS: &str = "nothing to do: the next change of the team fixes it";

/// Runs all checks of the teams. Nothing is changed.
pub(super) fn checks(context: &Context) -> Vec<DoctorCheck> {
    let found = context.read().and_then(|read| Ok((read, read.teams()?)));
    let (read, teams) = match found {
        Ok(found) => found,
        Err(error) => return vec![DoctorCheck::from_error("teams", &error)],
    };
    let mut registries = Vec::new();
    let mut files = Vec::new();
    let mut locks = Vec::new();
    let mut leftovers = Vec::new();
    for entry in &teams {
        if let Err(error) = &entry.config {
            registries.push(format!("{}: {error}", entry.name));
        }
        let Ok(team) = entry.name.parse::<TeamName>() else {
            continue;
        };
        files.extend(damaged_files(read, &team));
        let left = left_behind(&context.layout.claude, read, &team);
        match left {
            Ok(left) => {
                locks.extend(left.locks);
                leftovers.extend(left.files);
            }
            Err(error) => files.push(error.to_string()),
        }
    }
    let odd = odd_names(&context.layout.claude);
    let mut checks = vec![
        verdict(
            "registries",
            &registries,
            "repair or remove these teams' config.json; other teams are not affected",
        ),
        verdict(
            "team files",
            &files,
            "repair or remove these files; other tasks are not affected",
        ),
        verdict("claim locks", &locks, HEALS).optional(),
        verdict("temp files", &leftovers, HEALS).optional(),
    ];
    if !odd.is_empty() {
        let hint =
            "rename or remove them: no team can have such a name, and they are never touched";
        checks.push(verdict("names", &odd, hint).optional());
    }
    checks
}

/// Returns entries beside the teams and their tasks whose names are not UTF-8.
fn odd_names(claude: &std::path::Path) -> Vec<String> {
    let Ok(Some(root)) = Dir::open_root(claude) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for parent in [TEAMS, TASKS] {
        if let Ok(Some(folder)) = root.child(parent) {
            let names = folder.odd_names().unwrap_or_default();
            found.extend(
                names
                    .iter()
                    .map(|name| format!("{parent}/{}", readable(name))),
            );
        }
    }
    found
}

fn verdict(name: &'static str, wrong: &[String], hint: &str) -> DoctorCheck {
    const SHOWN: usize = 10;
    match wrong.len() {
        0 => DoctorCheck::fine(name, "in order"),
        count => {
            let mut detail = wrong[..count.min(SHOWN)].join("; ");
            if count > SHOWN {
                let _ = write!(detail, "; and {} more", count - SHOWN);
            }
            DoctorCheck::wrong(name, detail, hint)
        }
    }
}

fn damaged_files(read: &dyn ReadStore, team: &TeamName) -> Vec<String> {
    let tasks = read.tasks(team).map(|list| list.problems);
    let beats = read.heartbeats(team).map(|(_, problems)| problems);
    let mut found = Vec::new();
    for part in [tasks, beats] {
        match part {
            Ok(problems) => {
                let named = |file: &teamster_store::Damaged| {
                    format!("{team}/{}: {}", file.file, file.error)
                };
                found.extend(problems.iter().map(named));
            }
            Err(error) => found.push(format!("{team}: {error}")),
        }
    }
    found
}

#[derive(Default)]
struct LeftFiles {
    locks: Vec<String>,
    files: Vec<String>,
}

/// Finds what dead processes left in a team's two folders.
fn left_behind(
    claude: &std::path::Path,
    read: &dyn ReadStore,
    team: &TeamName,
) -> Result<LeftFiles, FsError> {
    let mut left = LeftFiles::default();
    let Some(root) = Dir::open_root(claude)? else {
        return Ok(left);
    };
    for parent in [TEAMS, TASKS] {
        let folder = root.child(parent)?.map(|dir| dir.child(team.as_str()));
        let Some(folder) = folder.transpose()?.flatten() else {
            continue;
        };
        for entry in folder.entries()? {
            let name = &entry.name;
            let abandoned =
                temp_owner(name).is_some_and(|pid| is_gone(read, pid)) || staged(name).is_some();
            if abandoned {
                left.files.push(format!("{parent}/{team}/{name}"));
            } else if parent == TASKS && is_stale_lock(&folder, name, read)? {
                left.locks.push(format!("{parent}/{team}/{name}"));
            }
        }
    }
    Ok(left)
}

fn is_gone(read: &dyn ReadStore, pid: u32) -> bool {
    read.process_state(&ProcessId {
        pid,
        process_start_time: 0,
        boot_id: String::new(),
        pid_ns: String::new(),
        host: String::new(),
    }) == ProcessState::Gone
}

/// Returns whether a file is a claim lock that nobody holds any more.
fn is_stale_lock(folder: &Dir, name: &str, read: &dyn ReadStore) -> Result<bool, FsError> {
    let is_claim_lock = name
        .strip_suffix(".lock")
        .is_some_and(|id| id.parse::<TaskId>().is_ok());
    if !is_claim_lock {
        return Ok(false);
    }
    // Claude Code's own locks are folders; they are not judged.
    if folder
        .stamp(name)?
        .is_none_or(|stamp| stamp.kind != FileKind::File)
    {
        return Ok(false);
    }
    let Some((bytes, stamp)) = folder.read(name)? else {
        return Ok(false);
    };
    let written = Time::from_millis(stamp.modified / 1_000_000);
    let state = FoundClaimLock::parse(&bytes, written)
        .state(read.now(), |process| read.process_state(process));
    Ok(state == LockUse::Abandoned)
}
