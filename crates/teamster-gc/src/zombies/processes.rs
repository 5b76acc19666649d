//! Processes of teams: which there are, and how one that is proven ours is ended.

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

/// Returns every process whose command line says which team it belongs to. Where there is no `/proc` nobody is found,
/// and nobody is called gone for it.
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

/// Ends all of these at once, and returns how each went: one may need all its grace, and fifty of them one after the
/// other would take minutes.
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

/// Returns what became of a process; `None` when it was gone before.
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
