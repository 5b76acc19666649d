//! Programs that outlive this process, and operations on this process itself: a new session, another program, a sudden
//! end.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Signal, getpid, kill_process};

use crate::spawn::{is_of_git, spawn, without_callers_git};

/// What to start, and how.
#[derive(Debug)]
pub struct DetachedProgram<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// The working directory.
    pub folder: &'a Path,
    /// Environment variables to set.
    pub set: &'a [(OsString, OsString)],
    /// Environment variables that it must not inherit.
    pub unset: &'a [&'a str],
}

impl DetachedProgram<'_> {
    /// Starts the program. It has to create its own session with [`own_session`], which only the process itself can do.
    pub fn start(&self, output: File) -> io::Result<Child> {
        let errors = output.try_clone()?;
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        for name in self.unset {
            command.env_remove(name);
        }
        command.envs(self.set.iter().map(|(name, value)| (name, value)));
        spawn(&mut command)
    }
}

/// Moves this process into a new session, so that it survives its terminal. A process that already leads a session or
/// group, as in a pane, does not need one.
pub fn own_session() -> bool {
    rustix::process::setsid().is_ok()
}

/// Replaces this process by another program, with exactly this environment except git's variables. Only teamster's own
/// program may be given the address of a store. It returns only on failure.
pub fn become_program(
    program: &Path,
    args: &[OsString],
    environment: &[(OsString, OsString)],
) -> io::Error {
    let kept = environment.iter().filter(|(name, _)| !is_of_git(name));
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(kept.map(|(name, value)| (name, value)));
    without_callers_git(&mut command);
    command.exec()
}

/// Runs a program that starts another one and exits, and returns its output. It gets no input, and no other open stream
/// of this process that the program it leaves behind could keep open.
pub fn start_and_leave(program: &Path, args: &[OsString]) -> io::Result<String> {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let output = spawn(&mut command)?.wait_with_output()?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(io::Error::other(format!("it ended with {}", output.status)))
    }
}

/// Starts a program without waiting for it, and returns its pid.
pub fn leave(program: &Path, args: &[OsString]) -> io::Result<u32> {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(spawn(&mut command)?.id())
}

/// Kills this process at once, like the kernel when it is out of memory: no clean-up, no core file. It returns only if
/// the process may not signal itself.
pub fn die() -> ExitCode {
    let _ = kill_process(getpid(), Signal::KILL);
    ExitCode::FAILURE
}

/// Makes this process survive SIGINT and SIGTERM from now on. Programs that it starts do not inherit that.
pub fn ignore_soft_signals() -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM] {
        // The handler only sets a flag, which is never read.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}
