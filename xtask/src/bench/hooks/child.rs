//! One program from its start to its end: how long it took, and how much CPU.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// What a program has used, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) wall: f64,
    /// User and system time of its first thread. Hooks and the floor have no other; a program that has is taken for
    /// cheaper than it is.
    pub(super) cpu: f64,
}

/// A program that is about to be started.
pub(super) struct Call {
    command: Command,
    input: Option<String>,
}

impl Call {
    pub(super) fn new(mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        Self {
            command,
            input: None,
        }
    }

    /// What it reads from a pipe, as from the client.
    pub(super) fn input(mut self, text: String) -> Self {
        self.command.stdin(Stdio::piped());
        self.input = Some(text);
        self
    }

    /// Starts it and waits for its end.
    pub(super) fn run(self) -> Result<Used> {
        self.start()?.end()
    }

    pub(super) fn start(mut self) -> Result<Started> {
        let began = Instant::now();
        let mut child = self
            .command
            .spawn()
            .with_context(|| format!("cannot start {:?}", self.command))?;
        if let (Some(mut pipe), Some(input)) = (child.stdin.take(), self.input) {
            pipe.write_all(input.as_bytes())?;
        }
        Ok(Started { child, began })
    }
}

/// A program that runs.
pub(super) struct Started {
    child: Child,
    began: Instant,
}

impl Started {
    /// Waits for it; an error unless it succeeds.
    pub(super) fn end(self) -> Result<Used> {
        let Self { child, began } = self;
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let id = WaitId::Pid(id.context("a program without a process id")?);
        // It is over, and not yet forgotten: only now does the kernel know all that it has used.
        while let Err(error) = waitid(id.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        let wall = began.elapsed().as_secs_f64();
        let used = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id()));
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("a measured program ended with {}: {said}", output.status);
        }
        let used = used.context("this kernel does not tell how much CPU a process has used")?;
        let nanoseconds: f64 = used
            .split_whitespace()
            .next()
            .and_then(|number| number.parse().ok())
            .context("the kernel's figures about a process are not understood")?;
        Ok(Used {
            wall,
            cpu: nanoseconds / 1e9,
        })
    }
}
