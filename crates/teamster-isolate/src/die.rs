//! The end of one's own process by a signal.

use std::process::ExitCode;

use rustix::process::{Signal, getpid, kill_process};

/// Dies at once, like a process that the system kills for its memory: no clean-up, no core file.
pub fn die() -> ExitCode {
    let _ = kill_process(getpid(), Signal::KILL);
    // Only a process that may not signal itself comes here.
    ExitCode::FAILURE
}
