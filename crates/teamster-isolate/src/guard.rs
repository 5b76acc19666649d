//! A process that supervises another one, and ends its descendants when it is killed.
//!
//! ```text
//! guard ─starts─► guarded program ─starts─► agent ─starts─► tools …
//!   ▲                    ╳ kill -9            │
//!   └───── adopts them ───────────────────────┘  and ends them
//! ```
//!
//! A killed process cannot clean up, and no other process may be there to notice. The guard only waits, so nothing but
//! a signal to the guard itself could end it. Orphans of the guarded program become its children, so they are found
//! even if they created their own sessions and cleared their environment.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use teamster_fs::OrTrace as _;
use teamster_fs::proc::Machine;

use crate::child::{ChildExit, wait_for};
use crate::process_handle::ProcessHandle;
use crate::process_tree::{ProcessTree, adopt_orphans};
use crate::spawn::spawn;

/// The program to guard. It runs in the guard's working directory and shares its streams.
#[derive(Debug)]
pub struct GuardedProgram<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Environment variables to set.
    pub set: &'a [(OsString, OsString)],
    /// Environment variables that it must not inherit.
    pub unset: &'a [&'a str],
    /// The launch id, by which all its descendants are found again.
    pub number: &'a str,
}

impl GuardedProgram<'_> {
    /// Runs the program and returns how it ended, once none of its descendants is left. Those that outlive it are asked
    /// to end, and killed after `grace`.
    ///
    /// The guard creates its own session, and survives every signal that can be caught. Those that are sent to it alone
    /// (SIGTERM, and SIGHUP from a terminal that is closed) are passed on.
    pub fn run(&self, machine: &Machine, grace: Duration) -> io::Result<ChildExit> {
        crate::detached::own_session();
        adopt_orphans();
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .envs(self.set.iter().map(|(name, value)| (name, value)));
        for name in self.unset {
            command.env_remove(name);
        }
        let mut child = spawn(&mut command)?;
        let pid = child.id();
        wait_for(pid, true);
        let id = machine.process(pid);
        let held = id.and_then(|id| ProcessHandle::open(machine, &id).ok().flatten());
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let passed_on = match signal {
                    SIGHUP => Signal::HUP,
                    SIGTERM => Signal::TERM,
                    // Signals from the terminal's keys reach the whole process group anyway.
                    _ => continue,
                };
                if let Some(held) = &held {
                    held.signal(passed_on).or_trace("pass a signal on");
                }
            }
        });
        let status = child.wait();
        wait_for(pid, false);
        let tree = ProcessTree::below_me(machine, self.number);
        if let Err(left) = tree.end(grace) {
            tracing::warn!("{left}");
        }
        status.map(exit_of)
    }
}

/// Returns how a program ended.
pub(crate) fn exit_of(status: ExitStatus) -> ChildExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => ChildExit::Code(code),
        (None, Some(signal)) => ChildExit::Signal(signal),
        (None, None) => ChildExit::Unknown,
    }
}
