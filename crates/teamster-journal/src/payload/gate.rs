//! Payloads about the gate of a run: what a person is shown, and what was decided.
//!
//! The host builds this record once, when it opens the gate, and writes it to the journal as `approval.shown`. The
//! terminal and every viewer read it from there, so everyone who decides was shown the same thing.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use teamster_types::TaskId;
use teamster_types::flow::DecisionChannel;
use teamster_types::json::Object;
use teamster_types::phrase::PhraseKeys;

use super::{Base, text_or_lines, text_or_null};

/// The maximum number of files that are listed.
pub const MOST_FILES: usize = 200;
/// The maximum length of one finding, in characters. The full text is in the project.
pub const LONGEST_FINDING: usize = 32 * 1024;

/// What a person is shown at the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Shown {
    /// Whether the work was verified, in one sentence that never overstates the evidence.
    pub verification: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(
        rename = "verificationCodes",
        skip_serializing_if = "PhraseKeys::is_empty"
    )]
    pub verification_codes: PhraseKeys,
    /// Checks that do not count as passed, and why.
    pub unverified: Vec<Unverified>,
    /// The findings of workers and reviewers.
    pub findings: Vec<Finding>,
    /// The files that would change, at most 200.
    pub files: Vec<FileChange>,
    /// How many files would change in all.
    pub file_count: u64,
    /// Tasks that failed permanently, or that wait for such a task.
    pub failed: Vec<GivenUp>,
    /// Requests of agents that were denied, the unanswered ones first.
    pub denied: Vec<DeniedRequest>,
    /// The workers' own summaries of their tasks.
    pub said: Vec<WorkerWords>,
    /// Tasks that changed files which they had not reserved.
    pub outside: Vec<Outside>,
    /// Uncommitted files of the user that the work would overwrite.
    pub in_the_way: Vec<String>,
    /// How the user's branches and tags changed during the run, one sentence each. teamster did not make these changes.
    pub references: Vec<String>,
    /// The message codes of these sentences, in the same order; empty in journals of older versions.
    #[serde(
        rename = "referenceCodes",
        skip_serializing_if = "PhraseKeys::is_empty"
    )]
    pub reference_codes: PhraseKeys,
    /// Messages to workers that no client accepted, one sentence each.
    pub untaken: Vec<String>,
    /// The message codes of these sentences, in the same order; empty in journals of older versions.
    #[serde(rename = "untakenCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub untaken_codes: PhraseKeys,
}

/// A request of an agent that was denied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeniedRequest {
    /// The worker.
    pub worker: String,
    /// The task that the request was for.
    pub task_id: Option<TaskId>,
    /// What the agent wanted to do; if settings deny it, the reason as well.
    pub what: String,
    /// Who denied it.
    pub by: DeniedBy,
    /// The reason, as text; empty if none was given.
    pub why: String,
}

/// Who denied a request of an agent.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DeniedBy {
    /// No person answered in time.
    #[default]
    Nobody,
    /// A person denied it.
    Person,
    /// The settings deny it.
    Settings,
}

impl DeniedRequest {
    /// Returns a sentence that says who was denied what, in which task, and why.
    pub fn words(&self) -> String {
        let task = match &self.task_id {
            Some(task) => format!(" in task {task}"),
            None => String::new(),
        };
        let why = match (self.by, self.why.as_str()) {
            (DeniedBy::Settings, _) => String::new(),
            (DeniedBy::Nobody, "") => " (nobody answered)".to_owned(),
            (DeniedBy::Nobody, why) => format!(" ({why})"),
            (DeniedBy::Person, "") => " (you denied it)".to_owned(),
            (DeniedBy::Person, why) => format!(" (you denied it: {why})"),
        };
        format!("{} was not allowed{task}: {}{why}", self.worker, self.what)
    }
}

/// A check that does not count as passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unverified {
    /// The command.
    pub command: String,
    /// The reason, as text.
    pub why: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(
        default,
        rename = "whyCodes",
        skip_serializing_if = "PhraseKeys::is_empty"
    )]
    pub why_codes: PhraseKeys,
}

/// A finding about the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The name of its file in `.party/findings`.
    pub name: String,
    /// What it says, at most 32,768 characters.
    pub text: String,
}

/// A file that would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// Its path.
    pub path: String,
    /// The number of added lines; `null` for a binary file.
    pub added: Option<u64>,
    /// The number of removed lines; `null` for a binary file.
    pub removed: Option<u64>,
}

/// A task that will not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GivenUp {
    /// The task.
    pub task_id: TaskId,
    /// The subject of the task.
    pub subject: String,
    /// The reason, as text.
    pub why: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(
        default,
        rename = "whyCodes",
        skip_serializing_if = "PhraseKeys::is_empty"
    )]
    pub why_codes: PhraseKeys,
}

/// A worker's own summary of its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerWords {
    /// The task.
    pub task_id: TaskId,
    /// The subject of the task.
    pub subject: String,
    /// The worker that did it.
    pub worker: Option<String>,
    /// What was done.
    pub summary: String,
    /// What was left open.
    pub problems: Vec<String>,
    /// The first sentence of the summary that admits that something did not work.
    pub admission: Option<String>,
}

/// A task that changed files which it had not reserved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outside {
    /// The task.
    pub task_id: TaskId,
    /// The files.
    pub files: Vec<String>,
}

/// The payload of `approval.shown`: the fields of [`Shown`], and the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateShown {
    /// The id of this opening of the gate.
    pub gate: String,
    /// What a person is shown.
    pub shown: Shown,
}

const GATE: &str = "gate";

// `#[serde(flatten)]` does not support arbitrary-precision numbers, which the journal preserves.
impl Serialize for GateShown {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = Object::new();
        fields.insert(GATE.to_owned(), Value::String(self.gate.clone()));
        if let Ok(Value::Object(shown)) = serde_json::to_value(&self.shown) {
            fields.extend(shown);
        }
        fields.serialize(to)
    }
}

impl<'de> Deserialize<'de> for GateShown {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields = Object::deserialize(from)?;
        let gate = fields.get(GATE).and_then(Value::as_str);
        Ok(Self {
            gate: gate.unwrap_or_default().to_owned(),
            shown: Shown::deserialize(&fields).map_err(serde::de::Error::custom)?,
        })
    }
}

impl JsonSchema for GateShown {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "GateShown".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Shown::json_schema(generator)
    }
}

/// The payload of `approval.requested`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GateOpened {
    /// The id of this opening of the gate. It is generated after all workers have stopped, so no agent can know it.
    pub gate: String,
    /// The commit to decide about; empty when all workers share one folder.
    #[serde(deserialize_with = "text_or_null")]
    pub commit: String,
    /// The base that the commit is compared with.
    pub base: Option<Base>,
    /// Whether checks ran on it and all passed.
    pub verified: bool,
    /// What the person should know, as text.
    #[serde(deserialize_with = "text_or_lines")]
    pub words: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(rename = "wordsCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub words_codes: PhraseKeys,
    /// Why the commit could not land when it was approved before.
    pub refused: Option<String>,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(rename = "refusedCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub refused_codes: PhraseKeys,
}

/// An answer at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateAnswer {
    /// The work may land.
    Approve,
    /// The work may not land.
    Reject {
        /// Whether the work is rolled back.
        rollback: bool,
        /// Why it is rejected.
        text: String,
    },
    /// The work needs changes first.
    Revise {
        /// The changes that are needed.
        text: String,
    },
}

impl GateAnswer {
    /// Returns the name of the answer.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject { .. } => "reject",
            Self::Revise { .. } => "revise",
        }
    }
}

/// The payload of `approval.answered`, `approval.given`, `approval.refused` and `approval.revised`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GateDecided {
    /// The id of the opening of the gate that is answered.
    pub gate: String,
    /// The commit that was shown.
    #[serde(deserialize_with = "text_or_null")]
    pub commit: String,
    /// The channel of the answer: `terminal`, `studio` or `flag`.
    #[serde(deserialize_with = "text_or_null")]
    pub via: String,
    /// The person or program that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The message codes of this text, for translation; empty if teamster did not write it.
    #[serde(rename = "byCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub by_codes: PhraseKeys,
    /// `approve`, `reject` or `revise`.
    pub answer: String,
    /// Whether rejected work is rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<bool>,
    /// Why it is rejected, or which changes are needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl GateDecided {
    /// Creates the payload for an answer to the opening `gate` for `commit`.
    pub fn new(
        gate: &str,
        commit: &str,
        via: DecisionChannel,
        by: Option<&str>,
        answer: &GateAnswer,
    ) -> Self {
        let (rollback, text) = match answer {
            GateAnswer::Approve => (None, None),
            GateAnswer::Reject { rollback, text } => (Some(*rollback), Some(text.clone())),
            GateAnswer::Revise { text } => (None, Some(text.clone())),
        };
        Self {
            gate: gate.to_owned(),
            commit: commit.to_owned(),
            via: via.name().to_owned(),
            by: by.map(str::to_owned),
            by_codes: PhraseKeys::default(),
            answer: answer.word().to_owned(),
            rollback,
            text,
        }
    }

    /// Returns the answer, or `None` when this version does not know it.
    pub fn answer(&self) -> Option<GateAnswer> {
        let text = self.text.clone().unwrap_or_default();
        match self.answer.as_str() {
            "approve" => Some(GateAnswer::Approve),
            "reject" => Some(GateAnswer::Reject {
                rollback: self.rollback == Some(true),
                text,
            }),
            "revise" => Some(GateAnswer::Revise { text }),
            _ => None,
        }
    }
}
