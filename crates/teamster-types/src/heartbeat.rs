//! A worker's heartbeat: `{worker}.heartbeat.json`, replaced every few seconds.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::phrase::{Phrase, PhraseCode};
use crate::process::ProcessId;
use crate::{TaskId, TeamName, Time, WorkerName};

/// The status that a bridge reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerStatus {
    /// Started, and not polled yet.
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
    /// Returns the name used in the file.
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

/// Why a provider is temporarily unusable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitCause {
    /// A usage limit of the account is reached, or requests were too frequent.
    #[default]
    RateLimit,
    /// The model's server or the connection to it is down.
    Outage,
    /// The client is not signed in.
    SignIn,
}

/// A provider that is unusable until a given time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderLimit {
    /// The provider, as the user calls it.
    pub provider: String,
    /// Why it cannot be used.
    #[serde(default)]
    pub cause: LimitCause,
    /// The usage window that is exhausted, in words, if known.
    #[serde(default)]
    pub window: Option<String>,
    /// When it is usable again, or is tried again.
    pub until: Time,
}

impl ProviderLimit {
    /// Returns the limit as a sentence.
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

/// How long a refused change says something about the next try. A worker for which there is a task tries to claim it
/// again after 5 seconds, and tries to write a result again after 10 at the latest.
const REFUSAL_LASTS: Duration = Duration::from_secs(15);

fn long_ago() -> Time {
    Time::from_millis(0)
}

/// Why the store did not let a worker claim a task or write the result of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreRefusal {
    /// When the worker tried.
    #[serde(default = "long_ago")]
    pub at: Time,
    /// What the worker cannot do, and why: a sentence about the worker without its name.
    pub message: String,
    /// What to do now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The status name of a worker whose provider is temporarily unusable.
pub const LIMITED: &str = "limited";

/// One heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The worker.
    pub worker_name: WorkerName,
    /// The team of the worker.
    pub team_name: TeamName,
    /// The provider of its agent.
    #[serde(default)]
    pub provider: String,
    /// The bridge's process id.
    pub pid: u32,
    /// When the bridge last polled for signals and work.
    pub last_poll_at: Time,
    /// The task it works on.
    #[serde(default)]
    pub current_task_id: Option<TaskId>,
    /// Errors since the last success.
    #[serde(default)]
    pub consecutive_errors: u32,
    /// The status that it reports.
    pub status: WorkerStatus,
    /// The start time of the process, which distinguishes it from a later one with the same pid.
    #[serde(default)]
    pub process_start_time: Option<u64>,
    /// The boot id of the machine.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// The pid namespace the pid is valid in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_ns: Option<String>,
    /// The name of the machine.
    #[serde(default)]
    pub host: Option<String>,
    /// The id of the agent's own session.
    #[serde(default)]
    pub agent_session_id: Option<String>,
    /// When the agent itself last produced an event.
    #[serde(default)]
    pub last_event_at: Option<Time>,
    /// The provider limit that it waits for. A reader that does not know this key sees a polling worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<ProviderLimit>,
    /// Why its last try to claim a task or to write a result failed, if the store was the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_refusal: Option<StoreRefusal>,
    /// The id of the bridge's launch, which all of its descendant processes carry in their environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<String>,
}

impl Heartbeat {
    /// Returns the worker's status in one word: the one it reports, or `limited`.
    pub fn word(&self) -> &'static str {
        match self.limit {
            Some(_) => LIMITED,
            None => self.status.as_str(),
        }
    }

    /// Returns a worker that the store keeps from working, and why: it was refused a moment ago, and no other worker with a
    /// fresh heartbeat works or is still starting. Workers that only wait, for a task or for their provider, do not hide it.
    /// Nor does a worker that has a task whose result the store refuses.
    pub fn blocking_refusal(
        beats: &[Self],
        now: Time,
        stale: Duration,
    ) -> Option<(&WorkerName, &StoreRefusal)> {
        let fresh = || beats.iter().filter(|beat| beat.is_fresh(now, stale));
        if fresh().any(|beat| beat.is_busy_or_starting() && beat.current_refusal(now).is_none()) {
            return None;
        }
        fresh().find_map(|beat| Some((&beat.worker_name, beat.current_refusal(now)?)))
    }

    fn is_busy_or_starting(&self) -> bool {
        let is_busy = self.current_task_id.is_some() && self.limit.is_none();
        is_busy || matches!(self.status, WorkerStatus::Ready | WorkerStatus::Executing)
    }

    /// Returns why the store refused the last change of the worker, if that was a moment ago.
    fn current_refusal(&self, now: Time) -> Option<&StoreRefusal> {
        let refusal = self.store_refusal.as_ref()?;
        (now.since(refusal.at) < REFUSAL_LASTS).then_some(refusal)
    }

    /// Returns whether it proves that its worker is alive now. A heartbeat from the far future proves nothing: the
    /// clock was set back since, and a living worker would have written a newer one.
    pub fn is_fresh(&self, now: Time, stale: Duration) -> bool {
        now.since(self.last_poll_at) < stale && self.last_poll_at.since(now) < stale
    }

    /// Returns the process behind it by its pid and, if recorded, its machine: enough to prove that it is gone, but not
    /// to distinguish it from another process.
    pub fn pid_alone(&self) -> ProcessId {
        ProcessId {
            pid: self.pid,
            process_start_time: 0,
            boot_id: String::new(),
            pid_ns: self.pid_ns.clone().unwrap_or_default(),
            host: self.host.clone().unwrap_or_default(),
        }
    }

    /// Returns the process behind it, if the file identifies it uniquely.
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
