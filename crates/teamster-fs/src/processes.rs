//! All visible processes, their parents and their environments.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;

use teamster_types::process::ProcessId;

use crate::proc::{Machine, stat_of};

/// A process at the moment of the scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEntry {
    /// The record of the process.
    pub id: ProcessId,
    /// The pid of its parent; for an orphan, of the process that adopted it.
    pub parent: u32,
    /// Whether it has ended and only waits to be reaped by its parent.
    pub over: bool,
}

/// Returns every visible process. A process that starts or ends meanwhile may be missing.
pub fn all(machine: &Machine) -> Vec<ProcessEntry> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = stat_of(pid)?;
        Some(ProcessEntry {
            id: machine.record(pid, stat.start_time),
            parent: stat.parent,
            over: stat.is_over(),
        })
    })
    .collect()
}

/// Returns whether all threads of a process are stopped, by a signal or by a debugger, or the process has ended.
pub fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    let threads = threads
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A thread that has just ended has no state.
    threads
        .filter_map(stat_of)
        .all(|stat| stat.is_stopped() || stat.is_over())
}

/// Returns the pids among `all` that descend from one of `roots`, without the roots themselves.
pub fn descendants(all: &[ProcessEntry], roots: &BTreeSet<u32>) -> BTreeSet<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for seen in all {
        children.entry(seen.parent).or_default().push(seen.id.pid);
    }
    let mut found = BTreeSet::new();
    let mut open: Vec<u32> = roots.iter().copied().collect();
    while let Some(pid) = open.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if !roots.contains(child) && found.insert(*child) {
                open.push(*child);
            }
        }
    }
    found
}

/// Returns whether a process was started with the environment variable `name` set to `value`; false for a process whose
/// environment is not visible, such as another user's.
pub fn carries(pid: u32, name: &str, value: &str) -> bool {
    carries_one_of(pid, &[name], value)
}

/// Returns whether a process was started with one of the environment variables `names` set to `value`.
pub fn carries_one_of(pid: u32, names: &[&str], value: &str) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    let value_of = |variable: &[u8], name: &str| {
        let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(value.to_vec())
    };
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| {
        let mut values = names.iter().filter_map(|name| value_of(variable, name));
        values.any(|found| found == value.as_bytes())
    })
}

/// Returns whether a process or one of its ancestors was started with the environment variable `name`.
pub fn is_below_carrier(pid: u32, name: &str) -> bool {
    carried(pid, name).is_some()
}

/// Returns the value of the environment variable `name` that a process, or else its nearest ancestor that has it, was
/// started with.
pub fn carried(pid: u32, name: &str) -> Option<OsString> {
    let mut pid = pid;
    // The depth is bounded in case reused pids form a cycle.
    for _ in 0..1_000 {
        if let Some(value) = variable_of(pid, name) {
            return Some(value);
        }
        pid = parent_of(pid)?;
    }
    None
}

/// Returns the value of the environment variable `name` of the outermost process that was started with it, among `pid`
/// and its ancestors. A descendant process can change its own environment, but not that of its ancestors.
pub fn carried_by_outermost(pid: u32, name: &str) -> Option<OsString> {
    let mut outermost = None;
    let mut pid = Some(pid);
    // The depth is bounded in case reused pids form a cycle.
    for _ in 0..1_000 {
        let Some(looked_at) = pid else { break };
        outermost = variable_of(looked_at, name).or(outermost);
        pid = parent_of(looked_at);
    }
    outermost
}

/// Returns the parent of a process; `None` for the init process and for a process that is gone.
pub fn parent_of(pid: u32) -> Option<u32> {
    stat_of(pid)
        .map(|stat| stat.parent)
        .filter(|parent| *parent > 0)
}

/// Returns the value of an environment variable that a process was started with.
fn variable_of(pid: u32, name: &str) -> Option<OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let wanted = format!("{name}=");
    let value = environment
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(wanted.as_bytes()))?;
    Some(OsString::from_vec(value.to_vec()))
}

/// Returns whether a process is a descendant of `ancestor`. An orphan is a descendant of the process that adopted it.
pub fn is_below(pid: u32, ancestor: u32) -> bool {
    let mut pid = pid;
    for _ in 0..1_000 {
        match stat_of(pid) {
            Some(stat) if stat.parent == ancestor => return true,
            Some(stat) if stat.parent > 0 => pid = stat.parent,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pid: u32, parent: u32) -> ProcessEntry {
        let id = ProcessId {
            pid,
            process_start_time: 1,
            boot_id: String::new(),
            pid_ns: String::new(),
            host: String::new(),
        };
        ProcessEntry {
            id,
            parent,
            over: false,
        }
    }

    #[test]
    fn descendants_are_found_over_generations_and_nobody_else_is() {
        let all = [seen(1, 0), seen(2, 1), seen(3, 2), seen(4, 3), seen(5, 1)];
        let found = descendants(&all, &BTreeSet::from([2]));
        assert_eq!(found, BTreeSet::from([3, 4]));
        assert_eq!(descendants(&all, &BTreeSet::from([9])), BTreeSet::new());
    }

    #[test]
    fn a_circle_of_parents_ends() {
        // Pids that were reused between two reads can form such a cycle.
        let all = [seen(2, 3), seen(3, 2)];
        assert_eq!(descendants(&all, &BTreeSet::from([2])), BTreeSet::from([3]));
    }

    #[test]
    fn this_process_is_among_all_and_its_child_carries_what_it_was_given() {
        let machine = Machine::read();
        let value = crate::random_hex();
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .env("TEAMSTER_TEST_MARK", &value)
            .spawn()
            .unwrap();
        let all = all(&machine);
        assert!(all.iter().any(|seen| seen.id == *machine.me()));
        let me = BTreeSet::from([machine.me().pid]);
        assert!(descendants(&all, &me).contains(&child.id()));
        // Until it executes the program, the child still has this process's environment.
        while !carries(child.id(), "TEAMSTER_TEST_MARK", &value) {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        assert!(!carries(child.id(), "TEAMSTER_TEST_MARK", &value[1..]));
        assert!(!carries(child.id(), "TEAMSTER_TEST", &value));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
