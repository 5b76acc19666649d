//! Running a program to its end, within a time and with an output that both have a limit.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How long the pipes of a program that has ended may stay open in the hands of what it started.
const LAST_WORDS: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_micros(300);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// What it said about itself.
    pub(crate) status: ExitStatus,
    /// What it printed, up to the limit.
    pub(crate) stdout: Vec<u8>,
    /// What it complained about, up to the limit.
    pub(crate) stderr: Vec<u8>,
    /// Whether there was more than the limit.
    pub(crate) cut: bool,
    /// Whether it was ended because its time was up.
    pub(crate) timed_out: bool,
}

/// Runs it without input, in a process group of its own that is ended when the time is up.
pub(crate) fn run(mut command: Command, patience: Duration, limit: u64) -> io::Result<Ended> {
    let deadline = Instant::now() + patience;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = crate::spawn::spawn(&mut command)?;
    let stdout = listen(child.stdout.take(), limit);
    let stderr = listen(child.stderr.take(), limit);
    let in_time = wait_until(&child, deadline);
    if !in_time {
        end_group(&child);
    }
    let ends = Instant::now() + LAST_WORDS;
    let mut heard = [receive(&stdout, ends), receive(&stderr, ends)];
    if heard.iter().any(Option::is_none) {
        // It has not been waited for yet, so that its number still means its own group and nobody else.
        end_group(&child);
        let ends = Instant::now() + LAST_WORDS;
        for (place, pipe) in heard.iter_mut().zip([&stdout, &stderr]) {
            if place.is_none() {
                *place = receive(pipe, ends);
            }
        }
    }
    let status = child.wait()?;
    let [stdout, stderr] = heard.map(Option::unwrap_or_default);
    Ok(Ended {
        status,
        cut: stdout.cut || stderr.cut,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
        timed_out: !in_time,
    })
}

#[derive(Default)]
struct Heard {
    bytes: Vec<u8>,
    cut: bool,
}

/// Reads on a thread of its own: a grandchild may keep the pipe open, and only a thread can be left behind.
fn listen(pipe: Option<impl Read + Send + 'static>, limit: u64) -> Receiver<Heard> {
    let (say, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut cut = false;
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(limit).read_to_end(&mut bytes);
            // Read on to nowhere, so that a talkative program can end.
            cut = io::copy(&mut pipe, &mut io::sink()).is_ok_and(|more| more > 0);
        }
        let _ = say.send(Heard { bytes, cut });
    });
    heard
}

fn receive(pipe: &Receiver<Heard>, until: Instant) -> Option<Heard> {
    pipe.recv_timeout(until.saturating_duration_since(Instant::now()))
        .ok()
}

/// Whether the child ends before `deadline`. It is not reaped: its number stays its own.
fn wait_until(child: &Child, deadline: Instant) -> bool {
    let Some(pid) = pid_of(child) else {
        return false;
    };
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let mut pause = FIRST_PAUSE;
    loop {
        if let Ok(Some(_)) = waitid(WaitId::Pid(pid), look) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
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

    fn shell(script: &str, patience: Duration, limit: u64) -> Ended {
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
