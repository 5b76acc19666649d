//! Payloads about workers and their agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use teamster_types::TaskId;
use teamster_types::heartbeat::ProviderLimit;
use teamster_types::phrase::PhraseKeys;
use teamster_types::process::ProcessId;

use super::list;

/// The payload of `worker.spawned`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerSpawned {
    /// The process of the worker.
    #[schemars(with = "Option<serde_json::Value>")]
    pub process: Option<ProcessId>,
    /// Names this start of the worker.
    pub launch: String,
    /// The client that it drives.
    pub provider: String,
}

/// The payload of `worker.started`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerStarted {
    /// The process of the agent.
    #[schemars(with = "Option<serde_json::Value>")]
    pub process: Option<ProcessId>,
    /// The client's own session, where it told one.
    pub session: Option<String>,
}

/// The payload of `worker.launch_failed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerLaunchFailed {
    /// How many times it was tried to start the agent for this task.
    pub launch: u32,
    /// Why it failed, in words.
    pub reason: String,
}

/// The payload of `worker.secrets_kept`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerSecretsKept {
    /// The files.
    #[serde(deserialize_with = "list")]
    pub files: Vec<SecretKept>,
}

/// A file that must not be committed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SecretKept {
    /// Where it was, from the root of the project.
    pub path: String,
    /// The pattern that denies its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The line with a key of a well-known shape, where its path is not denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Where it is kept; nothing for a file that was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// The payload of `worker.paused`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerPaused {
    /// How long it waits.
    pub seconds: u64,
    /// Why it waits, in words.
    pub reason: String,
    /// What is known about the provider that cannot be used until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<ProviderLimit>,
}

/// The payload of `worker.resumed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerResumed {
    /// Who said so.
    pub by: String,
}

/// The payload of `worker.quarantined`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerQuarantined {
    /// The worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The verdict: `quarantined`.
    pub verdict: String,
    /// What speaks for it.
    #[serde(deserialize_with = "list")]
    pub evidence: Vec<String>,
    /// The codes of these sentences, in the same order; empty in a journal of an older version.
    #[serde(rename = "evidenceCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub evidence_codes: PhraseKeys,
    /// How many attempts failed in a row.
    pub errors: u32,
    /// Why the last one failed.
    pub reason: String,
}

/// The payload of `worker.stopped`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerStopped {
    /// The worker, where it is not the event's actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How it was ended by somebody else: `killed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// Why it ended, in words.
    pub reason: String,
}

/// The payload of `worker.dead`, `worker.hung`, `worker.silent` and `worker.beat_lost`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkerVerdict {
    /// The worker, where it is not the event's actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The verdict in one word.
    pub verdict: String,
    /// What speaks for it.
    #[serde(deserialize_with = "list")]
    pub evidence: Vec<String>,
    /// The codes of these sentences, in the same order; empty in a journal of an older version.
    #[serde(rename = "evidenceCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub evidence_codes: PhraseKeys,
    /// Tasks that were taken from a dead worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<TaskId>>,
    /// How many processes of a dead worker were ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_processes: Option<usize>,
    /// Why, in words, where somebody wrote that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The payload of `worker.restarted`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerRestarted {
    /// The worker.
    pub worker: String,
    /// How often it was started again by now.
    pub times: u32,
}

/// The payload of `agent.event`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentEventRecorded {
    /// What the agent did: `said`, `used`, `asked`, `answered` and others.
    pub what: String,
    /// Names a request for permission, for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Whether a request was allowed, in its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<bool>,
    /// Who decided about a request, in its answer: `user`, `lead`, or `nobody` when no answer came in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why a request was denied, in its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it said or wants, shortened and redacted.
    pub text: String,
}

impl AgentEventRecorded {
    /// Says in [`AgentEventRecorded::by`] that no answer came in time.
    pub const NOBODY: &'static str = "nobody";
}
