//! The identity of a process: a pid alone is reused, so it is always paired with what makes it unique.

use serde::{Deserialize, Serialize};

/// A process, identified so that a later one with the same pid is not mistaken for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessId {
    /// The process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub process_start_time: u64,
    /// The boot id of its machine; a process of another boot is gone.
    #[serde(default)]
    pub boot_id: String,
    /// The pid namespace the number is valid in.
    #[serde(default)]
    pub pid_ns: String,
    /// The name of the machine.
    #[serde(default)]
    pub host: String,
}

/// The known state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs.
    Alive,
    /// It is proven to be gone.
    Gone,
    /// It cannot be judged from here (another machine, another pid namespace, no permission).
    Unknown,
}
