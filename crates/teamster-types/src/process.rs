//! Which process: a pid alone is reused, so it is always paired with what makes it unique.

use serde::{Deserialize, Serialize};

/// A process that can be told from a later one with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessId {
    /// The process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub process_start_time: u64,
    /// The boot it belongs to; a pid of another boot is gone.
    #[serde(default)]
    pub boot_id: String,
    /// The pid namespace the number is valid in.
    #[serde(default)]
    pub pid_ns: String,
    /// The machine.
    #[serde(default)]
    pub host: String,
}

/// Tells what is known about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Alive,
    /// It is proven to be gone.
    Gone,
    /// It cannot be judged from here (another machine, another pid namespace, no permission).
    Unknown,
}
