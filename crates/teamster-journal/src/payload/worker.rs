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
    /// The id of this launch of the worker.
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
    /// The client's own session, if it reported one.
    pub session: Option<String>,
}

/// The payload of `worker.launch_failed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerLaunchFailed {
    /// The number of attempts to start the agent for this task.
    pub launch: u32,
    /// Why it failed.
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
    /// Its original path, relative to the root of the project.
    pub path: String,
    /// The pattern that denies its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The line that contains a key of a well-known format, if the path itself is not denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Where the file is kept; absent for a deleted file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// The payload of `worker.paused`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerPaused {
    /// How long it waits, in seconds.
    pub seconds: u64,
    /// Why it waits.
    pub reason: String,
    /// What is known about the limit of its provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<ProviderLimit>,
}

/// The payload of `worker.resumed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerResumed {
    /// The actor that resumed it.
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
    /// The evidence for the verdict.
    #[serde(deserialize_with = "list")]
    pub evidence: Vec<String>,
    /// The message codes of these sentences, in the same order; empty in journals of older versions.
    #[serde(rename = "evidenceCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub evidence_codes: PhraseKeys,
    /// How many attempts failed in a row.
    pub errors: u32,
    /// Why the last attempt failed.
    pub reason: String,
}

/// The payload of `worker.stopped`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerStopped {
    /// The worker, if it is not the event's actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How it was terminated from outside: `killed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// Why it ended.
    pub reason: String,
}

/// The payload of `worker.dead`, `worker.hung`, `worker.silent` and `worker.beat_lost`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkerVerdict {
    /// The worker, if it is not the event's actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The verdict.
    pub verdict: String,
    /// The evidence for the verdict.
    #[serde(deserialize_with = "list")]
    pub evidence: Vec<String>,
    /// The message codes of these sentences, in the same order; empty in journals of older versions.
    #[serde(rename = "evidenceCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub evidence_codes: PhraseKeys,
    /// Tasks that were taken from a dead worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<TaskId>>,
    /// How many processes of a dead worker were terminated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_processes: Option<usize>,
    /// The reason, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The payload of `worker.restarted`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerRestarted {
    /// The worker.
    pub worker: String,
    /// How often it has been restarted so far.
    pub times: u32,
}

/// The payload of `agent.event`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentEventRecorded {
    /// What happened: the agent used a `tool`, a request of it was `allowed` or `denied` by settings, it `asked` a person
    /// for permission, was `answered`, met an `error`, or `finished`.
    #[schemars(with = "String")]
    pub what: AgentAction,
    /// The id of a permission request, for the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Whether the request was allowed; present in a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<bool>,
    /// Who decided about the request; present in a reply: `user`, `lead`, or `nobody` when no answer came in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why the request was denied; present in a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the agent said or requested, shortened and redacted.
    pub text: String,
}

impl AgentEventRecorded {
    /// The value of [`AgentEventRecorded::by`] when no answer came in time.
    pub const NOBODY: &'static str = "nobody";
}

/// What an agent did, or what was done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum AgentAction {
    /// It used a tool.
    Tool,
    /// The settings allowed its request.
    Allowed,
    /// The settings denied its request.
    Denied,
    /// It asks a person for permission.
    Asked,
    /// Its request was decided by a person, or because no answer came in time.
    Answered,
    /// It met an error.
    Error,
    /// Its client reported the end of the turn.
    Finished,
    /// A word that this version does not know.
    Other(String),
}

impl AgentAction {
    const KNOWN: [Self; 7] = [
        Self::Tool,
        Self::Allowed,
        Self::Denied,
        Self::Asked,
        Self::Answered,
        Self::Error,
        Self::Finished,
    ];

    /// Returns its name in the journal.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tool => "tool",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Asked => "asked",
            Self::Answered => "answered",
            Self::Error => "error",
            Self::Finished => "finished",
            Self::Other(word) => word,
        }
    }
}

impl Default for AgentAction {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl From<String> for AgentAction {
    fn from(word: String) -> Self {
        let mut known = Self::KNOWN.into_iter();
        let known = known.find(|action| action.as_str() == word);
        known.unwrap_or(Self::Other(word))
    }
}

impl From<AgentAction> for String {
    fn from(action: AgentAction) -> Self {
        action.as_str().to_owned()
    }
}
