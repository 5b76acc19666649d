//! A process that stands above another one, and ends what that one leaves running when it is killed.
//!
//! ```text
//! guard ─starts─► guarded program ─starts─► agent ─starts─► tools …
//!   ▲                    ╳ kill -9            │
//!   └───── adopts them ───────────────────────┘  and ends them
//! ```
//!
//! Whoever is killed cannot clean up, and nobody else need be there to see it. The guard only waits, so there is nothing that
//! could end it but a signal of its own. Orphans of the guarded program become its children, so they are found even if they made
//! sessions of their own and forgot their environment.

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

/// What is guarded. It runs in the folder of the guard and has the same streams.
#[derive(Debug)]
pub struct GuardedProgram<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Variables that are set for it.
    pub set: &'a [(OsString, OsString)],
    /// Variables that it must not inherit.
    pub unset: &'a [&'a str],
    /// The number of its launch, by which everything it starts is found again.
    pub number: &'a str,
}

impl GuardedProgram<'_> {
    /// Runs the program and returns how it ended, once nothing that it started is left. Processes that it left are asked to
    /// end, and killed after `grace`.
    ///
    /// The guard makes a session of its own, and survives every signal that can be survived. Those that are sent to it alone
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
                    // The keys of a terminal reach the whole group.
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
