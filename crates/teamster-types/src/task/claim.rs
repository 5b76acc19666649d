//! The claim on a task, and its proof.

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;
use crate::{Time, WorkerName};

/// The secret that proves a claim. Its holder may finish the task until the claim is taken over.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// Returns a token made of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the secret itself, for its holder.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The claim on a task: its worker, its token and its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The worker that claimed it.
    pub worker: WorkerName,
    /// The same name under the key that locks and heartbeats use. Older versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker_name: Option<WorkerName>,
    /// The secret token. Never shown, never journalled.
    pub token: Token,
    /// Identifies this claim without proving it. Older versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nonce: Option<String>,
    /// When the lease expires: another worker may then take the task over if this one is dead.
    pub leased_until: Time,
    /// The pid of the process that claimed it.
    pub pid: u32,
    /// The start time of that process, in clock ticks since boot.
    #[serde(default)]
    pub process_start_time: u64,
    /// The boot that the process belongs to.
    #[serde(default)]
    pub boot_id: String,
    /// The pid namespace of the process.
    #[serde(default)]
    pub pid_ns: String,
    /// The machine that the process runs on.
    #[serde(default)]
    pub host: String,
}

impl Claim {
    /// Returns a claim by `worker`, made by `process`.
    pub fn new(
        worker: WorkerName,
        (token, nonce): (Token, String),
        leased_until: Time,
        process: ProcessId,
    ) -> Self {
        Self {
            worker_name: Some(worker.clone()),
            worker,
            token,
            nonce: Some(nonce),
            leased_until,
            pid: process.pid,
            process_start_time: process.process_start_time,
            boot_id: process.boot_id,
            pid_ns: process.pid_ns,
            host: process.host,
        }
    }

    /// Returns the process that claimed it.
    pub fn process(&self) -> ProcessId {
        ProcessId {
            pid: self.pid,
            process_start_time: self.process_start_time,
            boot_id: self.boot_id.clone(),
            pid_ns: self.pid_ns.clone(),
            host: self.host.clone(),
        }
    }
}
