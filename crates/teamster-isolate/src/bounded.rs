//! Runs a program to its end, with a time limit and an output limit.
//!
//! All output of the program itself is read, however busy the machine is: lost output would look like empty output, and
//! empty output of git means that nothing has changed. Only the output of processes that outlive the program is not
//! waited for.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How long to wait for the pipes to close once the program has ended: its descendants may keep them open.
const LAST_WORDS: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_micros(300);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
/// The read size, which is the capacity of a pipe.
const BUFFER: usize = 64 * 1024;

/// The result of a program.
#[derive(Debug)]
pub(crate) struct BoundedOutput {
    /// The exit status.
    pub(crate) status: ExitStatus,
    /// The standard output, up to the limit.
    pub(crate) stdout: Vec<u8>,
    /// The standard error, up to the limit.
    pub(crate) stderr: Vec<u8>,
    /// Whether output beyond the limit was discarded.
    pub(crate) cut: bool,
    /// Whether it was killed because its time limit was exceeded.
    pub(crate) timed_out: bool,
}

/// Runs a program without input, in its own process group, which is killed when the time limit is exceeded.
pub(crate) fn run(command: Command, patience: Duration, limit: u64) -> io::Result<BoundedOutput> {
    run_unless(command, patience, limit, &|| false)
}

/// Runs a program like [`run`], and also kills it, as if its time limit was exceeded, once `stopped` returns true.
pub(crate) fn run_unless(
    mut command: Command,
    patience: Duration,
    limit: u64,
    stopped: &dyn Fn() -> bool,
) -> io::Result<BoundedOutput> {
    let deadline = Instant::now() + patience;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = crate::spawn::spawn(&mut command)?;
    let mut stdout = Pipe::new(child.stdout.take(), limit)?;
    let mut stderr = Pipe::new(child.stderr.take(), limit)?;
    let mut pause = FIRST_PAUSE;
    let in_time = loop {
        // Checked before reading, so that the reads after its end return everything that it has written.
        let has_ended = has_ended(&child);
        let is_news = stdout.read()? | stderr.read()?;
        if has_ended {
            break true;
        }
        if Instant::now() >= deadline || stopped() {
            break false;
        }
        pause = if is_news {
            FIRST_PAUSE
        } else {
            (pause * 3 / 2).min(LONGEST_PAUSE)
        };
        wait_for_news(&stdout, &stderr, pause);
    };
    if !in_time {
        end_group(&child);
    }
    for is_last in [false, true] {
        let until = Instant::now() + LAST_WORDS;
        while (stdout.is_open() || stderr.is_open()) && Instant::now() < until {
            if !(stdout.read()? | stderr.read()?) {
                wait_for_news(&stdout, &stderr, LONGEST_PAUSE);
            }
        }
        if !is_last && (stdout.is_open() || stderr.is_open()) {
            // The child has not been reaped yet, so its pid still refers to its own group.
            end_group(&child);
        }
    }
    let status = child.wait()?;
    Ok(BoundedOutput {
        status,
        cut: stdout.is_cut || stderr.is_cut,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
        timed_out: !in_time,
    })
}

/// One output stream of a program, read without blocking.
struct Pipe<P> {
    /// The pipe; `None` once its end was reached.
    open: Option<P>,
    bytes: Vec<u8>,
    limit: usize,
    is_cut: bool,
}

impl<P: AsFd> Pipe<P> {
    fn new(pipe: Option<P>, limit: u64) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            let flags = fcntl_getfl(pipe)?;
            fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?;
        }
        Ok(Self {
            open: pipe,
            bytes: Vec::new(),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            is_cut: false,
        })
    }

    fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Reads what is available now, at most as much as a pipe can hold, and returns whether there was anything. Output
    /// beyond the limit is discarded, so that the program is not blocked.
    fn read(&mut self) -> io::Result<bool> {
        let Some(pipe) = &self.open else {
            return Ok(false);
        };
        let mut buffer = vec![0; BUFFER];
        let mut is_news = false;
        // One read more than a full pipe needs: a program that has ended writes nothing between two reads.
        for _ in 0..=16 {
            match rustix::io::read(pipe, &mut buffer) {
                Ok(0) => {
                    self.open = None;
                    return Ok(true);
                }
                Ok(count) => {
                    is_news = true;
                    let room = self.limit.saturating_sub(self.bytes.len()).min(count);
                    self.bytes.extend_from_slice(&buffer[..room]);
                    self.is_cut |= room < count;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(is_news)
    }
}

/// Waits until one of the streams is readable, but not longer than `pause`.
fn wait_for_news<A: AsFd, B: AsFd>(stdout: &Pipe<A>, stderr: &Pipe<B>, pause: Duration) {
    let mut fds: Vec<PollFd<'_>> = Vec::new();
    fds.extend(
        stdout
            .open
            .iter()
            .map(|pipe| PollFd::new(pipe, PollFlags::IN)),
    );
    fds.extend(
        stderr
            .open
            .iter()
            .map(|pipe| PollFd::new(pipe, PollFlags::IN)),
    );
    let timeout = Timespec::try_from(pause).ok();
    if fds.is_empty() || poll(&mut fds, timeout.as_ref()).is_err() {
        thread::sleep(pause);
    }
}

/// Returns whether the child has ended, without reaping it: its pid cannot be reused before that.
fn has_ended(child: &Child) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    pid_of(child).is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), look), Ok(Some(_))))
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn end_group(child: &Child) {
    if let Some(group) = pid_of(child) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, patience: Duration, limit: u64) -> BoundedOutput {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, patience, limit).unwrap()
    }

    #[test]
    fn both_streams_and_the_status_are_told() {
        let ended = shell("cat; echo out; echo err >&2; exit 3", LONG, 100);
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(
            (ended.stdout, ended.stderr),
            (b"out\n".into(), b"err\n".into())
        );
        assert!(!ended.cut && !ended.timed_out);
    }

    #[test]
    fn every_byte_is_read_however_late_we_look() {
        for size in [1, 65_536, 65_537, 1_000_000] {
            let script = format!("head -c {size} /dev/zero; head -c {size} /dev/zero >&2");
            let ended = shell(&script, LONG, 10_000_000);
            assert_eq!((ended.stdout.len(), ended.stderr.len()), (size, size));
        }
    }

    #[test]
    fn too_much_is_cut_and_said() {
        let ended = shell("head -c 100000 /dev/zero", LONG, 10);
        assert_eq!(ended.stdout.len(), 10);
        assert!(ended.cut);
    }

    #[test]
    fn what_is_left_behind_in_the_group_ends_and_nobody_waits_for_it() {
        let start = Instant::now();
        let ended = shell("sleep 600 & echo done", LONG, 100);
        assert_eq!(ended.stdout, b"done\n");
        let ended_too = shell("echo half; sleep 600", Duration::from_millis(200), 100);
        assert!(ended_too.timed_out);
        assert_eq!(ended_too.stdout, b"half\n");
        assert!(start.elapsed() < LONG);
    }
}
