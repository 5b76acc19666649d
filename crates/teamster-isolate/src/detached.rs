//! Programs that outlive us, and what this process does to itself: a session of its own, another program, a sudden end.

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

/// What is started.
#[derive(Debug)]
pub struct Detached<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Where it runs.
    pub folder: &'a Path,
    /// Variables that are set for it.
    pub set: &'a [(OsString, OsString)],
    /// Variables that it must not inherit from us.
    pub unset: &'a [&'a str],
}

impl Detached<'_> {
    /// Starts it. It is to make a session of its own with [`own_session`], which nobody can do for it.
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

/// Gives this process a session of its own, so that the end of a terminal is not its end. One that leads a session or a
/// group already, as in a pane, has no need of it.
pub fn own_session() -> bool {
    rustix::process::setsid().is_ok()
}

/// Becomes another program, with this environment and no other, and without its variables of git. Our own program may have the
/// address of a store in it, nobody else. It only returns when that fails.
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

/// Runs a program that is to start another one and end, and gives what it prints. It gets no input, and inherits
/// nothing else of ours that whatever it leaves behind could hold open.
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

/// Starts a program that nobody waits for, and returns its pid.
pub fn leave(program: &Path, args: &[OsString]) -> io::Result<u32> {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(spawn(&mut command)?.id())
}

/// Dies at once, like a process that the system kills for its memory: no clean-up, no core file. It returns only in a
/// process that may not signal itself.
pub fn die() -> ExitCode {
    let _ = kill_process(getpid(), Signal::KILL);
    ExitCode::FAILURE
}

/// Makes this process survive SIGINT and SIGTERM from now on. Programs that it starts do not.
pub fn ignore_soft_signals() -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM] {
        // Whoever sets a flag does nothing else; nobody reads it.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}
