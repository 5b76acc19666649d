//! All processes of one launch, even those that try to escape.
//!
//! Agents start their tools in separate sessions, tools leave children behind, and an orphan gets another parent. So a
//! process counts as part of the launch when any of these holds:
//!
//! - it is a descendant of the launched process, or of another member;
//! - it has the launch id in its environment, which every child inherits;
//! - it is in the launch's control group, where the system permits one.
//!
//! No other process is ever signalled, and every signal goes through a handle that cannot reach the wrong process
//! (`ProcessHandle`).

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitOptions, waitpid};
use teamster_fs::OrTrace as _;
use teamster_fs::cgroup::Cgroup;
use teamster_fs::proc::Machine;
use teamster_fs::processes::{self, ProcessEntry};
use teamster_types::process::{ProcessId, ProcessState};

use crate::process_handle::ProcessHandle;

/// The environment variable with the launch id.
pub const LAUNCH: &str = "TEAMSTER_LAUNCH";

/// The environment variable with the launch id in the process that guards the launch ([`crate::guard`]). A launch is
/// over when its guard has ended.
pub const GUARD: &str = "TEAMSTER_GUARD";

/// The poll interval for the end of killed processes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long to wait for killed processes, which only the kernel can still delay.
const TAKING_DOWN: Duration = Duration::from_secs(10);
/// The poll interval and the time limit for the stop of processes, which takes long only if they wait for the kernel or
/// for a processor.
const STOPPING: Duration = Duration::from_millis(2);
const STOPPING_TIMEOUT: Duration = Duration::from_millis(500);

/// All processes of one launch.
#[derive(Clone, Debug)]
pub struct ProcessTree<'a> {
    machine: &'a Machine,
    number: &'a str,
    root: Option<&'a ProcessId>,
    spared: Option<u32>,
}

/// Processes that did not end although they were killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurvivingProcesses {
    /// The records of the processes.
    pub processes: Vec<ProcessId>,
}

impl fmt::Display for SurvivingProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pids: Vec<String> = self
            .processes
            .iter()
            .map(|process| process.pid.to_string())
            .collect();
        write!(f, "killed, but still running: {}", pids.join(", "))
    }
}

impl<'a> ProcessTree<'a> {
    /// Returns the tree of the launch with this id, including `root` and its descendants if it is known.
    pub fn of_launch(machine: &'a Machine, number: &'a str, root: Option<&'a ProcessId>) -> Self {
        Self {
            machine,
            number,
            root,
            spared: None,
        }
    }

    /// Returns the tree of this process's descendants, without this process itself.
    pub fn below_me(machine: &'a Machine, number: &'a str) -> Self {
        Self {
            machine,
            number,
            root: Some(machine.me()),
            spared: Some(machine.me().pid),
        }
    }

    /// Returns the live processes of the tree.
    pub fn members(&self) -> Vec<ProcessId> {
        let all = processes::all(self.machine);
        let roots = self.roots(&all);
        let below = processes::descendants(&all, &roots);
        all.into_iter()
            .filter(|seen| !seen.over && !self.is_spared(seen.id.pid))
            .filter(|seen| roots.contains(&seen.id.pid) || below.contains(&seen.id.pid))
            .map(|seen| seen.id)
            .collect()
    }

    fn is_spared(&self, pid: u32) -> bool {
        pid <= 1 || pid == self.machine.me().pid || self.spared == Some(pid)
    }

    fn roots(&self, all: &[ProcessEntry]) -> BTreeSet<u32> {
        let in_group: BTreeSet<u32> = group_of(self.number)
            .map(|group| group.members().into_iter().collect())
            .unwrap_or_default();
        // For the tree below this process, the guard is an ancestor and not part of it.
        let signs: &[&str] = match self.spared {
            Some(_) => &[LAUNCH],
            None => &[LAUNCH, GUARD],
        };
        let is_root = |seen: &&ProcessEntry| {
            self.root.is_some_and(|root| *root == seen.id)
                || in_group.contains(&seen.id.pid)
                || (!self.number.is_empty()
                    && processes::carries_one_of(seen.id.pid, signs, self.number))
        };
        all.iter().filter(is_root).map(|seen| seen.id.pid).collect()
    }

    /// Sends a signal to every member.
    pub fn ask(&self, signal: Signal) {
        for member in self.members() {
            self.send(&member, signal);
        }
    }

    fn send(&self, member: &ProcessId, signal: Signal) {
        if let Ok(Some(held)) = ProcessHandle::open(self.machine, member) {
            send(&held, signal);
        }
    }

    /// Waits up to `patience` until no member is left, and returns whether that is so.
    pub fn is_over(&self, patience: Duration) -> bool {
        self.are_over(&mut BTreeSet::new(), patience)
    }

    /// Waits like [`Self::is_over`], also for the processes in `known`, to which newly found ones are added. An exiting
    /// process loses its environment before it has closed its files, so it is waited for by its record.
    fn are_over(&self, known: &mut BTreeSet<ProcessId>, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            self.reap();
            known.extend(self.members());
            known.retain(|process| self.machine.process_state(process) == ProcessState::Alive);
            let Some(first) = known.first().cloned() else {
                return true;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            match ProcessHandle::open(self.machine, &first) {
                Ok(Some(held)) => drop(held.is_over(left)),
                Ok(None) => {}
                Err(_) => std::thread::sleep(LOOK_AGAIN.min(left)),
            }
        }
    }

    /// Ends every member: asks, waits up to `grace`, then kills, until none is left.
    pub fn end(&self, grace: Duration) -> Result<(), SurvivingProcesses> {
        if grace.is_zero() {
            return self.kill();
        }
        let mut known = BTreeSet::new();
        if self.number.is_empty() {
            // Without a launch id, a child that is started now could not be recognized after the end of its parent.
            known = self.stop();
        }
        known.extend(self.members());
        for member in &known {
            self.send(member, Signal::TERM);
        }
        self.wait_or_kill(known, grace)
    }

    /// Ends several trees at the same time, each like [`Self::end`], but asks the roots alone first, by the signal
    /// `request`, and waits up to `grace` for them. A root can then end the rest of its tree itself; if all were asked at
    /// the same time, it could take their ends for failures. Returns the results in the order of the trees.
    pub fn end_from_roots(
        trees: &[Self],
        request: Signal,
        grace: Duration,
    ) -> Vec<Result<(), SurvivingProcesses>> {
        // A process that clears its environment can be recognized only as long as its parent lives.
        let known: Vec<BTreeSet<ProcessId>> = trees
            .iter()
            .map(|tree| tree.members().into_iter().collect())
            .collect();
        let roots: Vec<ProcessHandle> = trees.iter().filter_map(Self::hold_root).collect();
        for root in &roots {
            send(root, request);
        }
        let deadline = Instant::now() + grace;
        for root in &roots {
            // Whether it is over or not, whatever is left is ended now.
            let _ = root.is_over(deadline.saturating_duration_since(Instant::now()));
        }
        for tree in trees {
            tree.ask(Signal::TERM);
        }
        let deadline = Instant::now() + grace;
        let trees = trees.iter().zip(known);
        trees
            .map(|(tree, known)| {
                tree.wait_or_kill(known, deadline.saturating_duration_since(Instant::now()))
            })
            .collect()
    }

    /// Opens the root, unless it is not to be ended or has already ended.
    fn hold_root(&self) -> Option<ProcessHandle> {
        let root = self.root.filter(|root| !self.is_spared(root.pid))?;
        ProcessHandle::open(self.machine, root).ok().flatten()
    }

    /// Waits up to `grace` for all members and the processes in `known`, then kills whatever is left.
    fn wait_or_kill(
        &self,
        mut known: BTreeSet<ProcessId>,
        grace: Duration,
    ) -> Result<(), SurvivingProcesses> {
        if self.are_over(&mut known, grace) {
            self.forget();
            return Ok(());
        }
        self.kill_all(known)
    }

    /// Kills every member, until none is left.
    pub fn kill(&self) -> Result<(), SurvivingProcesses> {
        self.kill_all(BTreeSet::new())
    }

    /// Kills like [`Self::kill`], and also the processes in `known`: a process that can no longer be recognized as a
    /// member is still known by its record.
    fn kill_all(&self, mut known: BTreeSet<ProcessId>) -> Result<(), SurvivingProcesses> {
        let deadline = Instant::now() + TAKING_DOWN;
        known.extend(self.stop());
        loop {
            // If this process could not leave the group again, it must not kill itself with it.
            let me = self.machine.me().pid;
            if let Some(group) = group_of(self.number)
                && !group.members().contains(&me)
            {
                group.kill();
            }
            let members = self.members();
            let is_nobody_found = members.is_empty();
            known.extend(members);
            let found = known.clone();
            for member in &known {
                if let Ok(Some(held)) = ProcessHandle::open(self.machine, member) {
                    held.signal(Signal::KILL).or_trace("kill a process");
                }
            }
            if self.are_over(&mut known, LOOK_AGAIN) && is_nobody_found {
                self.forget();
                return Ok(());
            }
            if Instant::now() >= deadline {
                let left = if known.is_empty() { found } else { known };
                let processes = left.into_iter().collect();
                return Err(SurvivingProcesses { processes });
            }
        }
    }

    /// Stops every member first: a stopped process cannot fork, so even a tree that grows as fast as it is killed is
    /// caught completely. Returns the processes that were stopped, which must be killed or continued: one may have lost
    /// its parent, and with that what makes it a member.
    ///
    /// A member that was just starting a child when the signal came still finishes that. So all members must have been
    /// seen stopped, and no other may be found after that.
    fn stop(&self) -> BTreeSet<ProcessId> {
        let deadline = Instant::now() + STOPPING_TIMEOUT;
        let mut stopped: BTreeSet<ProcessId> = BTreeSet::new();
        let mut were_stopped = false;
        loop {
            let members = self.members();
            let mut is_new = false;
            for member in &members {
                if !stopped.contains(member)
                    && let Ok(Some(held)) = ProcessHandle::open(self.machine, member)
                {
                    is_new = true;
                    stopped.insert(member.clone());
                    held.signal(Signal::STOP).or_trace("stop a process");
                }
            }
            let are_stopped = members
                .iter()
                .all(|member| processes::is_stopped(member.pid));
            if are_stopped && were_stopped && !is_new {
                return stopped;
            }
            if Instant::now() >= deadline {
                tracing::debug!("some processes did not stop: {members:?}");
                return stopped;
            }
            if !are_stopped && !is_new {
                std::thread::sleep(STOPPING);
            }
            were_stopped = are_stopped;
        }
    }

    /// Reaps adopted orphans, if this is the tree below this process: only then can members be its children.
    fn reap(&self) {
        if self.spared == Some(self.machine.me().pid) {
            reap_adopted(self.machine);
        }
    }

    /// Removes the launch's control group, if it is empty.
    pub fn forget(&self) {
        if let Some(group) = group_of(self.number) {
            group.remove();
        }
    }
}

/// Sends a signal to a process, and wakes it: a stopped process does not handle a signal before it is continued.
fn send(held: &ProcessHandle, signal: Signal) {
    held.signal(signal).or_trace("send a signal");
    held.signal(Signal::CONT).or_trace("wake a process");
}

/// Reaps the ended children of this process that no thread waits for. Orphans of an agent become children of the
/// process that adopts them, and stay in the process table until it reaps them.
///
/// Call this only where all other threads start programs through [`crate::child`]; otherwise it would take the exit
/// status from a thread that waits for it.
pub fn reap_adopted(machine: &Machine) {
    let me = machine.me().pid;
    for seen in processes::all(machine) {
        let is_ours = seen.over && seen.parent == me && !crate::child::is_waited_for(seen.id.pid);
        let pid = i32::try_from(seen.id.pid).ok();
        if let Some(pid) = pid
            .and_then(rustix::process::Pid::from_raw)
            .filter(|_| is_ours)
        {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// Returns the control group of a launch.
fn group_of(number: &str) -> Option<Cgroup> {
    Cgroup::find(&group_name(number))
}

/// Returns the name of a launch's control group.
pub(crate) fn group_name(number: &str) -> String {
    format!("teamster-{number}")
}

/// Makes this process adopt its orphaned descendants from now on, instead of the init process.
pub fn adopt_orphans() -> bool {
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

#[cfg(test)]
mod tests;
