//! The parent process of a bridge. It ends the worker's agent when the bridge is killed, so that no other process has to.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use teamster_fs::proc::Machine;
use teamster_isolate::STORE;
use teamster_isolate::child::ChildExit;
use teamster_isolate::guard::GuardedProgram;
use teamster_isolate::process_tree::{GUARD, LAUNCH};

use crate::launch::BRIDGE;
use crate::process;
use crate::record::WorkerSpec;

/// The variable that tells a guard which bridge it guards: the team and the worker, joined by a slash.
///
/// A guard has [`GUARD`] and this variable, but neither [`LAUNCH`] nor [`BRIDGE`]: those two mark the processes below a
/// guard, and the bridge itself must not look like a descendant of a bridge.
pub const GUARDED: &str = "TEAMSTER_GUARDED";

/// How long processes that a killed bridge left behind have to exit before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// The exit code of a program that a signal ended is that signal's number added to this, as in a shell.
const SIGNALLED: i32 = 128;

/// Returns the variables that make teamster's own program the guard of a worker's launch.
pub(crate) fn variables(wanted: &WorkerSpec, launch: &str) -> [(OsString, OsString); 2] {
    let worker = format!("{}/{}", wanted.team, wanted.worker);
    [
        (GUARD.into(), launch.into()),
        (GUARDED.into(), worker.into()),
    ]
}

/// Runs `program` with `args` as the bridge of a launch, ends the processes that it leaves behind, and returns its exit code.
/// `guarded` is the value of [`GUARDED`].
pub fn guard(
    launch: &str,
    guarded: &OsStr,
    program: &Path,
    args: &[OsString],
) -> std::io::Result<i32> {
    let mut set: Vec<(OsString, OsString)> = vec![
        (LAUNCH.into(), launch.into()),
        (BRIDGE.into(), guarded.into()),
    ];
    // Only the bridge, which is teamster's own program, inherits the address of the store.
    set.extend(std::env::var_os(STORE).map(|address| (STORE.into(), address)));
    let bridge = GuardedProgram {
        program,
        args,
        set: &set,
        unset: &[GUARD, GUARDED],
        number: launch,
    };
    let exit = bridge.run(&Machine::read(), GRACE);
    process::remove_temp_folder(launch);
    Ok(match exit? {
        ChildExit::Code(code) => code,
        ChildExit::Signal(signal) => SIGNALLED + signal,
        ChildExit::Unknown => SIGNALLED,
    })
}
