//! Processes of teams: which exist, and how those that are proven to be teamster's are ended.

use std::collections::VecDeque;
use std::path::Path;
use std::thread;

use teamster_claude::native::PaneArguments;
use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_isolate::{GRACE, TerminateError, Termination};
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::process::ProcessId;

use super::Zombie;
use super::reap::ReapResult;

/// Returns every process whose command line names the team that it belongs to. Without `/proc` none is found, and none
/// is reported as gone because of that.
pub(super) fn of_teams() -> Vec<(u32, PaneArguments)> {
    let Ok(Some(all)) = Dir::open_root(Path::new("/proc")) else {
        return Vec::new();
    };
    let entries = all.entries().unwrap_or_default();
    let pids = entries
        .iter()
        .filter_map(|entry| entry.name.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, PaneArguments::of_process(pid)?)))
        .collect()
}

/// Ends all of these processes in parallel, and returns the result of each: one may use up its grace period, and fifty
/// of them in sequence would take minutes.
pub(super) fn end_all(
    machine: &Machine,
    processes: &[ProcessId],
) -> VecDeque<Result<Termination, String>> {
    thread::scope(|scope| {
        let ending: Vec<_> = processes
            .iter()
            .map(|process| scope.spawn(|| teamster_isolate::terminate(machine, process, GRACE)))
            .collect();
        ending
            .into_iter()
            .map(|ending| match ending.join() {
                Ok(ended) => ended.map_err(|error: TerminateError| error.to_string()),
                Err(_) => Err("ending it failed".to_owned()),
            })
            .collect()
    })
}

/// Returns the result for a process; `None` when it was already gone.
pub(super) fn ended(
    ending: Result<Termination, String>,
    process: &ProcessId,
    mut zombie: Zombie,
) -> Option<ReapResult> {
    let how = match ending {
        Ok(Termination::Before) => return None,
        Ok(Termination::Asked) => Phrase::new(PhraseCode::EndedWhenAsked, []),
        Ok(Termination::Killed) => {
            let limit = format!("{} s", GRACE.as_secs());
            Phrase::new(PhraseCode::KilledAfter, [("limit", &limit)])
        }
        Err(problem) => {
            return Some(ReapResult {
                problem: Some(problem),
                ..ReapResult::untouched(zombie)
            });
        }
    };
    zombie.evidence.push(how);
    Some(ReapResult {
        reaped: true,
        process: Some(process.pid),
        ..ReapResult::untouched(zombie)
    })
}
