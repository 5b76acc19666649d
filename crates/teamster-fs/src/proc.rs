//! The identity of this process, and whether another process is alive.
//!
//! [`Machine::process_state`] is the only function that decides whether a process is alive. A pid alone proves nothing, because
//! the kernel reuses it, so a record also has the start time, the boot and the pid namespace. A process that cannot be
//! seen from here (another machine, another container) is [`ProcessState::Unknown`], and no action may be based on that.
//!
//! Whether a worker is dead is decided one level above, by `teamster_types::health::judge`, which uses this answer.

use std::fmt::Write as _;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use teamster_types::process::{ProcessId, ProcessState};

/// The identity of this process and its machine, read once.
#[derive(Clone, Debug)]
pub struct Machine {
    me: ProcessId,
    /// Whether `/proc` is available.
    has_proc: bool,
}

impl Machine {
    /// Reads the identity of this process and its machine.
    pub fn read() -> Self {
        let pid = std::process::id();
        let boot_id = text("/proc/sys/kernel/random/boot_id");
        let pid_ns = std::fs::read_link("/proc/self/ns/pid")
            .map(|link| link.to_string_lossy().into_owned())
            .unwrap_or_default();
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let stat = stat_of(pid);
        let process_start_time = stat.as_ref().map_or(0, |stat| stat.start_time);
        let me = ProcessId {
            pid,
            process_start_time,
            boot_id,
            pid_ns,
            host,
        };
        Self {
            me,
            has_proc: stat.is_some(),
        }
    }

    /// Returns the record of this process.
    pub fn me(&self) -> &ProcessId {
        &self.me
    }

    /// Returns the record of the process that has this pid now; `None` when there is none. The record stays unambiguous
    /// when the pid is reused.
    pub fn process(&self, pid: u32) -> Option<ProcessId> {
        let stat = stat_of(pid)?;
        Some(self.record(pid, stat.start_time))
    }

    /// Returns the record of a process on this machine.
    pub(crate) fn record(&self, pid: u32, process_start_time: u64) -> ProcessId {
        ProcessId {
            pid,
            process_start_time,
            ..self.me.clone()
        }
    }

    /// Returns the boot id of the machine.
    pub fn boot_id(&self) -> &str {
        &self.me.boot_id
    }

    /// Returns whether `process` is alive. It is only reported as gone on proof.
    pub fn process_state(&self, process: &ProcessId) -> ProcessState {
        let same_boot = process.boot_id.is_empty() || process.boot_id == self.me.boot_id;
        if !same_boot {
            // The same machine has rebooted since; the processes of another machine cannot be seen.
            let same_host = process.host.is_empty() || process.host == self.me.host;
            return if same_host {
                ProcessState::Gone
            } else {
                ProcessState::Unknown
            };
        }
        // Without a boot id the machine is known by its host name only; a local process with the same pid is a
        // different one.
        let elsewhere = !process.host.is_empty() && process.host != self.me.host;
        if process.boot_id.is_empty() && elsewhere {
            return ProcessState::Unknown;
        }
        if !process.pid_ns.is_empty() && process.pid_ns != self.me.pid_ns {
            return ProcessState::Unknown;
        }
        if process.pid == 0 {
            return ProcessState::Unknown;
        }
        if !self.has_proc {
            return signal_zero(process.pid);
        }
        match stat_of(process.pid) {
            None => ProcessState::Gone,
            Some(stat) if stat.is_over() => ProcessState::Gone,
            Some(stat)
                if process.process_start_time != 0
                    && stat.start_time != process.process_start_time =>
            {
                ProcessState::Gone
            }
            Some(_) => ProcessState::Alive,
        }
    }
}

/// Returns whether this process has a TCP connection from the local port `from` to the address `to`.
pub fn is_connected(from: u16, to: SocketAddr) -> bool {
    let table = match to.ip() {
        IpAddr::V4(_) => ["/proc/self/net/tcp", "/proc/self/net/tcp6"],
        IpAddr::V6(_) => ["/proc/self/net/tcp6", "/proc/self/net/tcp6"],
    };
    let (from, to) = (format!(":{from:04X}"), table_entries(to));
    let lines = table.map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let inodes = lines
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (local, remote, inode) = (fields.get(1)?, fields.get(2)?, fields.get(9)?);
            let is_it = local.ends_with(&from) && to.iter().any(|to| to == remote);
            is_it.then(|| format!("socket:[{inode}]"))
        });
    let inodes: Vec<String> = inodes.collect();
    let Ok(files) = std::fs::read_dir("/proc/self/fd") else {
        return false;
    };
    !inodes.is_empty()
        && files.flatten().any(|file| {
            let link = std::fs::read_link(file.path()).unwrap_or_default();
            inodes
                .iter()
                .any(|inode| link.as_os_str() == inode.as_str())
        })
}

/// Returns an address as the kernel writes it in its connection tables: each group of four bytes as one number in
/// native byte order. An IPv6 socket can have an IPv4 address.
fn table_entries(place: SocketAddr) -> Vec<String> {
    let hex = |bytes: &[u8]| {
        let words = bytes.chunks_exact(4).filter_map(|it| it.try_into().ok());
        words.fold(String::new(), |mut text, word| {
            let _ = write!(text, "{:08X}", u32::from_ne_bytes(word));
            text
        })
    };
    let port = place.port();
    match place.ip() {
        IpAddr::V4(ip) => {
            let mapped = ip.to_ipv6_mapped().octets();
            vec![
                format!("{}:{port:04X}", hex(&ip.octets())),
                format!("{}:{port:04X}", hex(&mapped)),
            ]
        }
        IpAddr::V6(ip) => vec![format!("{}:{port:04X}", hex(&ip.octets()))],
    }
}

/// Returns the id of the user who runs this process.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns when a process started, in the ticks of [`ProcessId::process_start_time`]; `None` when it is gone or not
/// visible.
pub fn start_time(pid: u32) -> Option<u64> {
    stat_of(pid).map(|stat| stat.start_time)
}

/// Returns the effective user of a process; `None` when it is gone or not visible.
pub fn user_of(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let folder = std::fs::metadata(format!("/proc/{pid}")).ok()?;
    Some(folder.uid())
}

/// Returns the command-line arguments of a process; `None` when they are not visible.
pub fn arguments(pid: u32) -> Option<Vec<String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = bytes.split(|byte| *byte == 0);
    Some(
        words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect(),
    )
}

/// Returns the other processes of this user that have their working directory in a folder or its path as an argument;
/// `None` without `/proc`.
pub fn processes_in(folder: &Path) -> Option<Vec<u32>> {
    use std::os::unix::ffi::OsStrExt;
    let folder_bytes = folder.as_os_str().as_bytes();
    others(|pid, words| {
        words.contains(&folder_bytes)
            || std::fs::read_link(format!("/proc/{pid}/cwd"))
                .is_ok_and(|there| there.starts_with(folder))
    })
}

/// Returns whether a process has ended but was not yet reaped by its parent.
pub fn has_ended(pid: u32) -> bool {
    stat_of(pid).is_some_and(|stat| stat.is_over())
}

/// Returns the other processes whose arguments include all of these; `None` without `/proc`.
pub fn started_with(wanted: &[&str]) -> Option<Vec<u32>> {
    others(|_, words| wanted.iter().all(|word| words.contains(&word.as_bytes())))
}

/// Returns the pids of the other live processes that match `is`, which gets the pid and the arguments.
fn others(is: impl Fn(u32, &[&[u8]]) -> bool) -> Option<Vec<u32>> {
    let me = std::process::id();
    let all = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = pids.filter(|pid: &u32| {
        let lives = || stat_of(*pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X' | 'x'));
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        *pid != me && is(*pid, &words) && lives()
    });
    Some(found.collect())
}

/// Returns the milliseconds since the machine booted, by a clock that cannot be set.
pub fn uptime() -> i64 {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// Probes a pid with signal 0. Without `/proc` (macOS) a reused pid cannot be detected, so the conservative answer is
/// "alive".
fn signal_zero(pid: u32) -> ProcessState {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    match pid.map(rustix::process::test_kill_process) {
        Some(Err(rustix::io::Errno::SRCH)) => ProcessState::Gone,
        Some(_) => ProcessState::Alive,
        None => ProcessState::Unknown,
    }
}

/// The fields of `/proc/PID/stat` that are used.
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) start_time: u64,
}

impl Stat {
    /// Returns whether the process has ended and only waits to be reaped by its parent.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Returns whether the process is stopped, by a signal or by a debugger.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

/// Reads the used fields of `/proc/PID/stat`, which follow the command name; that may contain any character.
pub(crate) fn stat_of(pid: u32) -> Option<Stat> {
    // The command name has at most 64 bytes, so all used fields are well within the first 512.
    let mut bytes = [0; 512];
    let mut file = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    let filled = file.read(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes[..filled]);
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    // The next field is field 5; the start time is field 22.
    let start_time = fields.nth(17)?.parse().ok()?;
    Some(Stat {
        state,
        parent,
        start_time,
    })
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_of_this_process_is_known_by_both_of_its_ends() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let stream = std::net::TcpStream::connect(place).unwrap();
        let from = stream.local_addr().unwrap().port();
        assert!(is_connected(from, place));
        let elsewhere = SocketAddr::new(place.ip(), place.port() ^ 1);
        assert!(!is_connected(from, elsewhere));
        drop((stream, listener));
        assert!(!is_connected(from, place));
    }

    #[test]
    fn address_is_written_as_the_kernel_writes_it() {
        let entries = table_entries("127.0.0.1:5432".parse().unwrap());
        assert_eq!(
            entries,
            ["0100007F:1538", "0000000000000000FFFF00000100007F:1538"]
        );
        let entries = table_entries("[::1]:80".parse().unwrap());
        assert_eq!(entries, ["00000000000000000000000001000000:0050"]);
    }

    #[test]
    fn this_process_lives_and_one_with_another_start_time_does_not() {
        let machine = Machine::read();
        assert_eq!(machine.process_state(machine.me()), ProcessState::Alive);
        let reused = ProcessId {
            process_start_time: machine.me().process_start_time + 1,
            ..machine.me().clone()
        };
        assert_eq!(
            machine.process_state(&reused),
            ProcessState::Gone,
            "a reused pid is not the old process"
        );
    }

    #[test]
    fn what_cannot_be_seen_from_here_is_unknown() {
        let machine = Machine::read();
        let me = machine.me();
        let elsewhere = ProcessId {
            boot_id: "another".into(),
            host: "another".into(),
            ..me.clone()
        };
        assert_eq!(machine.process_state(&elsewhere), ProcessState::Unknown);
        let before = ProcessId {
            boot_id: "before".into(),
            ..me.clone()
        };
        assert_eq!(
            machine.process_state(&before),
            ProcessState::Gone,
            "the machine was started anew"
        );
        let by_name = ProcessId {
            boot_id: String::new(),
            host: "another".into(),
            ..me.clone()
        };
        assert_eq!(machine.process_state(&by_name), ProcessState::Unknown);
        let container = ProcessId {
            pid_ns: "pid:[1]".into(),
            ..me.clone()
        };
        assert_eq!(machine.process_state(&container), ProcessState::Unknown);
    }

    #[test]
    fn a_zombie_counts_as_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let machine = Machine::read();
        let id = ProcessId {
            pid: child.id(),
            process_start_time: 0,
            ..machine.me().clone()
        };
        while machine.process_state(&id) != ProcessState::Gone {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
