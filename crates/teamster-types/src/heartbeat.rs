//! A worker's heartbeat: `{worker}.heartbeat.json`, replaced every few seconds.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::phrase::{Phrase, PhraseCode};
use crate::process::ProcessId;
use crate::{TaskId, TeamName, Time, WorkerName};

/// What a bridge says it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerStatus {
    /// Started, nothing asked yet.
    Ready,
    /// Looking for a task.
    Polling,
    /// Working on `currentTaskId`.
    Executing,
    /// It is ending.
    Shutdown,
    /// Takes no task until a person resumes it.
    Quarantined,
}

impl WorkerStatus {
    /// Returns the word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Polling => "polling",
            Self::Executing => "executing",
            Self::Shutdown => "shutdown",
            Self::Quarantined => "quarantined",
        }
    }
}

/// Why a provider cannot be used for now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitCause {
    /// A limit of the account is reached, or too much was asked at once.
    #[default]
    RateLimit,
    /// The model's server or the way to it is out of order.
    Outage,
    /// The client is not signed in.
    SignIn,
}

/// A provider that cannot be used before a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderLimit {
    /// The provider, as the user calls it.
    pub provider: String,
    /// Why it cannot be used.
    #[serde(default)]
    pub cause: LimitCause,
    /// The window that is used up, in words, where that is known.
    #[serde(default)]
    pub window: Option<String>,
    /// When it can be used again, or is tried again.
    pub until: Time,
}

impl ProviderLimit {
    /// Returns what is known about it, as a sentence.
    pub fn phrase(&self) -> Phrase {
        let (provider, until) = (&self.provider, &self.until);
        match (self.cause, &self.window) {
            (LimitCause::RateLimit, Some(window)) => Phrase::new(
                PhraseCode::LimitedWindow,
                [("provider", provider), ("until", until), ("window", window)],
            ),
            (LimitCause::RateLimit, None) => Phrase::new(
                PhraseCode::Limited,
                [("provider", provider), ("until", until)],
            ),
            (LimitCause::Outage, _) => Phrase::new(
                PhraseCode::ProviderDown,
                [("provider", provider), ("until", until)],
            ),
            (LimitCause::SignIn, _) => Phrase::new(
                PhraseCode::ProviderSignedOut,
                [("provider", provider), ("until", until)],
            ),
        }
    }
}

/// The word for a worker whose provider cannot be used for now.
pub const LIMITED: &str = "limited";

/// One heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// Whose heart.
    pub worker_name: WorkerName,
    /// In which team.
    pub team_name: TeamName,
    /// Which client it drives.
    #[serde(default)]
    pub provider: String,
    /// The bridge's process id.
    pub pid: u32,
    /// When the bridge last looked for signals and work.
    pub last_poll_at: Time,
    /// The task it works on.
    #[serde(default)]
    pub current_task_id: Option<TaskId>,
    /// Errors since the last success.
    #[serde(default)]
    pub consecutive_errors: u32,
    /// What it says it is doing.
    pub status: WorkerStatus,
    /// Start time of the process, to tell it from a later one with the same pid.
    #[serde(default)]
    pub process_start_time: Option<u64>,
    /// Boot of the machine.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// The pid namespace the pid is valid in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_ns: Option<String>,
    /// The machine.
    #[serde(default)]
    pub host: Option<String>,
    /// The agent's own session.
    #[serde(default)]
    pub agent_session_id: Option<String>,
    /// When the agent itself last said anything.
    #[serde(default)]
    pub last_event_at: Option<Time>,
    /// The limit of its provider that it waits for. Whoever does not know this key sees a worker that polls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<ProviderLimit>,
    /// The number of the bridge's launch, which everything it started carries in its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<String>,
}

impl Heartbeat {
    /// Returns what the worker does, in one word: what it says, or that it waits for its provider.
    pub fn word(&self) -> &'static str {
        match self.limit {
            Some(_) => LIMITED,
            None => self.status.as_str(),
        }
    }

    /// Returns whether it proves its worker alive now. One from far ahead proves nothing: the clock was set back since,
    /// and a living worker would have written a newer one.
    pub fn is_fresh(&self, now: Time, stale: Duration) -> bool {
        now.since(self.last_poll_at) < stale && self.last_poll_at.since(now) < stale
    }

    /// Returns the process behind it by its pid and, where it is told, its machine: enough to prove that it is gone, and not
    /// to tell it from another.
    pub fn pid_alone(&self) -> ProcessId {
        ProcessId {
            pid: self.pid,
            process_start_time: 0,
            boot_id: String::new(),
            pid_ns: self.pid_ns.clone().unwrap_or_default(),
            host: self.host.clone().unwrap_or_default(),
        }
    }

    /// Returns the process behind it, when the file says enough to tell it from another.
    pub fn process(&self) -> Option<ProcessId> {
        Some(ProcessId {
            pid: self.pid,
            process_start_time: self.process_start_time?,
            boot_id: self.boot_id.clone()?,
            pid_ns: self.pid_ns.clone().unwrap_or_default(),
            host: self.host.clone().unwrap_or_default(),
        })
    }
}
