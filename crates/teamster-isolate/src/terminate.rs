//! Ends one recorded process, and proves that it is gone.
//!
//! A pid alone does not identify a process, because the kernel reuses it. So a process is ended only by a complete
//! record (pid, start time, boot, pid namespace), and only through a kernel handle that stays bound to the process it
//! was opened for:
//!
//! ```text
//! record whole? ─► open the handle ─► does the record still fit? ─► TERM, up to the grace ─► KILL ─► seen to end
//! ```
//!
//! The order matters. The recorded process existed before the handle was opened; if it still has its pid afterwards, it
//! had it all the time, and the handle is the right one. From then on a signal reaches this process or none.

use std::fmt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;
use teamster_fs::proc::{self, Machine};
use teamster_types::process::{ProcessId, ProcessState};

use crate::process_handle::ProcessHandle;

/// How long a process may take to end after SIGTERM.
pub const GRACE: Duration = Duration::from_secs(5);

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// It was already gone; no signal was sent.
    Before,
    /// It ended after SIGTERM.
    Asked,
    /// It did not, and was killed.
    Killed,
}

/// Why a process was not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminateError {
    /// The record does not identify the process unambiguously, for this reason. No signal was sent.
    Unproven(&'static str),
    /// It belongs to another user, or is the caller itself. No signal was sent.
    NotOurs(&'static str),
    /// The system refused, with this message.
    Refused(String),
    /// It was killed but still exists.
    Survived,
}

impl fmt::Display for TerminateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unproven(why) | Self::NotOurs(why) => f.write_str(why),
            Self::Refused(why) => write!(f, "the system refuses to end it: {why}"),
            Self::Survived => f.write_str("it was killed but is still running"),
        }
    }
}

/// Ends the recorded process: asks it, waits up to `grace`, kills it, and checks that it is gone.
pub fn terminate(
    machine: &Machine,
    process: &ProcessId,
    grace: Duration,
) -> Result<Termination, TerminateError> {
    prove(machine, process)?;
    if machine.process_state(process) != ProcessState::Alive {
        return Ok(Termination::Before);
    }
    terminate_held(machine, process, grace)
}

/// Fails unless the record identifies its process unambiguously at this moment.
fn prove(machine: &Machine, process: &ProcessId) -> Result<(), TerminateError> {
    let me = machine.me();
    if process.boot_id.is_empty() || process.process_start_time == 0 || process.pid_ns.is_empty() {
        return Err(TerminateError::Unproven(
            "its record has no start time, boot or pid namespace, so its pid may mean another process",
        ));
    }
    // The same pid in another container, or after a reboot, is another process.
    if process.boot_id != me.boot_id || process.pid_ns != me.pid_ns {
        return Err(TerminateError::Unproven(
            "it was recorded on another machine, boot or pid namespace",
        ));
    }
    if process.pid <= 1 || process.pid == me.pid {
        return Err(TerminateError::NotOurs(
            "it is the system's first process or this one",
        ));
    }
    Ok(())
}

fn is_of_this_user(process: &ProcessId) -> bool {
    proc::user_of(process.pid).is_some_and(|user| user == proc::user())
}

/// How long to wait for the end of a killed process.
const TAKING_DOWN: Duration = Duration::from_secs(5);

fn terminate_held(
    machine: &Machine,
    process: &ProcessId,
    grace: Duration,
) -> Result<Termination, TerminateError> {
    let Some(held) = ProcessHandle::open(machine, process).map_err(refused)? else {
        return Ok(Termination::Before);
    };
    if !is_of_this_user(process) {
        return Err(TerminateError::NotOurs("it belongs to another user"));
    }
    held.signal(Signal::TERM).map_err(refused)?;
    // A stopped process does not handle a signal before it is continued.
    held.signal(Signal::CONT).map_err(refused)?;
    if held.is_over(grace).map_err(refused)? {
        return Ok(Termination::Asked);
    }
    held.signal(Signal::KILL).map_err(refused)?;
    if held.is_over(TAKING_DOWN).map_err(refused)? {
        Ok(Termination::Killed)
    } else {
        Err(TerminateError::Survived)
    }
}

fn refused(error: Errno) -> TerminateError {
    TerminateError::Refused(std::io::Error::from(error).to_string())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    use super::*;

    const SHORT: Duration = Duration::from_millis(300);

    /// A shell that is ready, and its record.
    struct ShellProcess {
        child: Child,
        record: ProcessId,
    }

    impl ShellProcess {
        fn start(script: &str) -> Self {
            let mut child = Command::new("/bin/sh")
                .args(["-c", &format!("{script} echo ready; read line")])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            let mut said = BufReader::new(child.stdout.take().unwrap());
            said.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            let record = ProcessId {
                pid: child.id(),
                process_start_time: proc::start_time(child.id()).unwrap(),
                ..Machine::read().me().clone()
            };
            Self { child, record }
        }

        fn is_running(&mut self) -> bool {
            self.child.try_wait().unwrap().is_none()
        }
    }

    impl Drop for ShellProcess {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn a_process_that_is_asked_ends_and_is_gone_when_that_is_said() {
        let machine = Machine::read();
        let worker = ShellProcess::start("");
        assert_eq!(
            terminate(&machine, &worker.record, GRACE),
            Ok(Termination::Asked)
        );
        assert_eq!(machine.process_state(&worker.record), ProcessState::Gone);
        assert_eq!(
            terminate(&machine, &worker.record, GRACE),
            Ok(Termination::Before)
        );
    }

    #[test]
    fn one_that_does_not_listen_is_killed_after_its_grace() {
        let machine = Machine::read();
        let worker = ShellProcess::start("trap '' TERM;");
        let began = Instant::now();
        assert_eq!(
            terminate(&machine, &worker.record, SHORT),
            Ok(Termination::Killed)
        );
        assert!(began.elapsed() >= SHORT);
        assert_eq!(machine.process_state(&worker.record), ProcessState::Gone);
    }

    #[test]
    fn one_that_is_stopped_ends_too() {
        let machine = Machine::read();
        let worker = ShellProcess::start("");
        let pid = i32::try_from(worker.record.pid).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        assert_eq!(
            terminate(&machine, &worker.record, GRACE),
            Ok(Termination::Asked)
        );
    }

    #[test]
    fn whoever_got_the_pid_of_a_dead_process_is_not_touched() {
        let machine = Machine::read();
        let mut stranger = ShellProcess::start("");
        let of_another = ProcessId {
            process_start_time: stranger.record.process_start_time - 1,
            ..stranger.record.clone()
        };
        assert_eq!(
            terminate(&machine, &of_another, SHORT),
            Ok(Termination::Before)
        );
        assert!(stranger.is_running());
    }

    #[test]
    fn half_a_record_ends_nobody() {
        let machine = Machine::read();
        let mut worker = ShellProcess::start("");
        let record = &worker.record;
        let halves = [
            ProcessId {
                process_start_time: 0,
                ..record.clone()
            },
            ProcessId {
                boot_id: String::new(),
                ..record.clone()
            },
            ProcessId {
                boot_id: "another".to_owned(),
                ..record.clone()
            },
            ProcessId {
                pid_ns: String::new(),
                ..record.clone()
            },
            ProcessId {
                pid_ns: "pid:[1]".to_owned(),
                ..record.clone()
            },
        ];
        for half in halves {
            let ended = terminate(&machine, &half, SHORT);
            assert!(
                matches!(ended, Err(TerminateError::Unproven(_))),
                "{half:?}: {ended:?}"
            );
        }
        assert!(worker.is_running());
        let ended = terminate(&machine, machine.me(), SHORT);
        assert!(
            matches!(ended, Err(TerminateError::NotOurs(_))),
            "{ended:?}"
        );
    }
}
