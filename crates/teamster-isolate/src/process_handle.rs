//! A kernel handle of one process (a pidfd). A signal through it reaches that process or none, never another one to
//! which the same pid was assigned meanwhile.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use teamster_fs::proc::Machine;
use teamster_types::process::{ProcessId, ProcessState};

/// A handle of a process that existed when the handle was opened.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    handle: OwnedFd,
}

impl ProcessHandle {
    /// Opens a handle of a process; `None` when it is gone.
    ///
    /// The recorded process existed before the handle was opened. If it still has its pid afterwards, it had it all the
    /// time, and the handle is the right one.
    pub(crate) fn open(machine: &Machine, process: &ProcessId) -> Result<Option<Self>, Errno> {
        let handle = match kernel::open(process.pid) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_it = machine.process_state(process) == ProcessState::Alive;
        Ok(is_it.then_some(Self { handle }))
    }

    /// Sends a signal. It is no error if the process has ended meanwhile.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Errno> {
        match kernel::send(&self.handle, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits up to `patience` for the end of the process, and returns whether it has ended.
    pub(crate) fn is_over(&self, patience: Duration) -> Result<bool, Errno> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::os::fd::OwnedFd;

    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    pub(super) fn open(pid: u32) -> Result<OwnedFd, Errno> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pidfd_open(pid.ok_or(Errno::SRCH)?, PidfdFlags::empty())
    }

    pub(super) fn send(handle: &OwnedFd, signal: Signal) -> Result<(), Errno> {
        pidfd_send_signal(handle, signal)
    }
}

/// Always fails: without pidfds a signal may reach another process to which the pid was assigned meanwhile, so none is
/// sent.
#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::os::fd::OwnedFd;

    use rustix::io::Errno;
    use rustix::process::Signal;

    pub(super) fn open(_: u32) -> Result<OwnedFd, Errno> {
        Err(Errno::NOSYS)
    }

    pub(super) fn send(_: &OwnedFd, _: Signal) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }
}
