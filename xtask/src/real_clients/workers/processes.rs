//! What a worker runs, and what is left of it.

use std::collections::BTreeSet;

use teamster_fs::proc::Machine;
use teamster_fs::processes;
use teamster_types::process::ProcessId;

use super::crew::Crew;

/// The variable that everything a worker starts carries.
const LAUNCH: &str = "TEAMSTER_LAUNCH";

/// A process of a worker.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) id: ProcessId,
    pub(super) command: String,
}

/// Everything that descends from the bridge or carries its launch, without the bridge itself.
pub(super) fn below(crew: &Crew) -> Vec<Seen> {
    let machine = Machine::read();
    let all = processes::all(&machine);
    let descended = processes::descendants(&all, &BTreeSet::from([crew.bridge]));
    all.into_iter()
        .filter(|seen| !seen.over && seen.id.pid != crew.bridge)
        .filter(|seen| {
            let pid = seen.id.pid;
            descended.contains(&pid) || processes::carries(pid, LAUNCH, &crew.launch)
        })
        .map(|seen| Seen {
            command: command_line(seen.id.pid),
            id: seen.id,
        })
        .collect()
}

/// Those of `known` that still run.
pub(super) fn still_there(known: &[Seen]) -> Vec<String> {
    let all = processes::all(&Machine::read());
    known
        .iter()
        .filter(|known| all.iter().any(|seen| seen.id == known.id && !seen.over))
        .map(Seen::words)
        .collect()
}

impl Seen {
    pub(super) fn words(&self) -> String {
        format!("{} {}", self.id.pid, self.command)
    }
}

fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: String = String::from_utf8_lossy(&bytes).replace('\0', " ");
    words.chars().take(120).collect()
}
