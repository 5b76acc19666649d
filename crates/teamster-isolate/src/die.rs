//! The end of one's own process by a signal, and its refusal to end by one.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Signal, getpid, kill_process};

/// Dies at once, like a process that the system kills for its memory: no clean-up, no core file.
pub fn die() -> ExitCode {
    let _ = kill_process(getpid(), Signal::KILL);
    // Only a process that may not signal itself comes here.
    ExitCode::FAILURE
}

/// From now on this process does not end by SIGINT or SIGTERM. Programs that it starts do.
pub fn ignore_polite_signals() -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM] {
        // Whoever sets a flag does nothing else; nobody reads it.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}
