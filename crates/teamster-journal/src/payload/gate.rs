//! Payloads about the gate of a run: what a person is shown, and what was decided.
//!
//! The host makes it once, when it opens the gate, and writes it down as `approval.shown`. The terminal and every viewer
//! read it from there, so nobody can decide about something that somebody else was shown otherwise.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use teamster_types::TaskId;
use teamster_types::json::Object;
use teamster_types::phrase::PhraseKeys;

use super::{Base, text_or_lines, text_or_null};

/// Files that are named at most.
pub const MOST_FILES: usize = 200;
/// The longest text of one finding, in characters. The whole of it is in the project.
pub const LONGEST_FINDING: usize = 32 * 1024;

/// What a person is shown at the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Shown {
    /// Whether the work was verified, in one sentence that never says more than is so.
    pub verification: String,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(
        rename = "verificationCodes",
        skip_serializing_if = "PhraseKeys::is_empty"
    )]
    pub verification_codes: PhraseKeys,
    /// Checks that do not count as passed, and why.
    pub unverified: Vec<Unverified>,
    /// What was found out on the way, by reviewers too.
    pub findings: Vec<Finding>,
    /// The files that would change, at most 200.
    pub files: Vec<FileChange>,
    /// How many files would change in all.
    pub file_count: u64,
    /// What failed for good, or waits for that.
    pub failed: Vec<GivenUp>,
    /// What agents wanted to do and were not allowed: first what nobody answered.
    pub denied: Vec<DeniedRequest>,
    /// What the workers say about their tasks, in their own words.
    pub said: Vec<WorkerWords>,
    /// Tasks that changed files which they had not reserved.
    pub outside: Vec<Outside>,
    /// Files of the user's that are not committed, and that the work would have to write over.
    pub in_the_way: Vec<String>,
    /// What became of the user's branches and tags while the run was at work, one sentence each. teamster did not do it.
    pub references: Vec<String>,
    /// The codes of these sentences, in the same order; empty in a journal of an older version.
    #[serde(
        rename = "referenceCodes",
        skip_serializing_if = "PhraseKeys::is_empty"
    )]
    pub reference_codes: PhraseKeys,
    /// Messages to workers that no client took, one sentence each.
    pub untaken: Vec<String>,
    /// The codes of these sentences, in the same order; empty in a journal of an older version.
    #[serde(rename = "untakenCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub untaken_codes: PhraseKeys,
}

/// Something that an agent wanted to do and was not allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeniedRequest {
    /// The worker.
    pub worker: String,
    /// The task that it was for.
    pub task_id: Option<TaskId>,
    /// What the agent wanted to do; where settings deny it, the reason as well.
    pub what: String,
    /// Who denied it.
    pub by: DeniedBy,
    /// Why, in words; empty where nobody said so.
    pub why: String,
}

/// Who denied what an agent wanted to do.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DeniedBy {
    /// A person was asked, and nobody answered in time.
    #[default]
    Nobody,
    /// A person denied it.
    Person,
    /// The settings deny it.
    Settings,
}

impl DeniedRequest {
    /// Returns who was not allowed what, in which task, and why, in words.
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
    /// Why not, in words.
    pub why: String,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(
        default,
        rename = "whyCodes",
        skip_serializing_if = "PhraseKeys::is_empty"
    )]
    pub why_codes: PhraseKeys,
}

/// Something that was found out on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Its file, in `.party/findings`.
    pub name: String,
    /// What it says, at most 32,768 characters.
    pub text: String,
}

/// A file that would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// Its path.
    pub path: String,
    /// Lines that come; `null` when it is no text.
    pub added: Option<u64>,
    /// Lines that go; `null` when it is no text.
    pub removed: Option<u64>,
}

/// A task that will not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GivenUp {
    /// The task.
    pub task_id: TaskId,
    /// What it was about.
    pub subject: String,
    /// Why not, in words.
    pub why: String,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(
        default,
        rename = "whyCodes",
        skip_serializing_if = "PhraseKeys::is_empty"
    )]
    pub why_codes: PhraseKeys,
}

/// What a worker says about its task, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerWords {
    /// The task.
    pub task_id: TaskId,
    /// What the task is about.
    pub subject: String,
    /// Who did it.
    pub worker: Option<String>,
    /// What was done.
    pub summary: String,
    /// What was left open.
    pub problems: Vec<String>,
    /// The first sentence of the summary that says that something did not work.
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
    /// Names the opening of the gate.
    pub gate: String,
    /// What a person is shown.
    pub shown: Shown,
}

const GATE: &str = "gate";

// `#[serde(flatten)]` cannot read numbers of any precision, which the journal keeps.
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
    /// Names this opening of the gate. It is drawn when nobody of the team runs any more, so no agent can know it.
    pub gate: String,
    /// The commit that is decided about; empty where everybody works in one folder.
    #[serde(deserialize_with = "text_or_null")]
    pub commit: String,
    /// What it is compared with.
    pub base: Option<Base>,
    /// Whether checks ran on it and all passed.
    pub verified: bool,
    /// What to know, in words.
    #[serde(deserialize_with = "text_or_lines")]
    pub words: String,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(rename = "wordsCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub words_codes: PhraseKeys,
    /// Why the commit could not land when it was approved before.
    pub refused: Option<String>,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(rename = "refusedCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub refused_codes: PhraseKeys,
}

/// What somebody answers at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateAnswer {
    /// The work may land.
    Approve,
    /// The work may not land.
    Reject {
        /// Whether what was made is taken back.
        rollback: bool,
        /// Why it is rejected.
        text: String,
    },
    /// Something is to be changed first.
    Revise {
        /// What is to be changed.
        text: String,
    },
}

impl GateAnswer {
    /// Returns the word for it.
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
    /// Names the opening of the gate that is answered.
    pub gate: String,
    /// The commit that was shown.
    #[serde(deserialize_with = "text_or_null")]
    pub commit: String,
    /// How it was given: `terminal`, `studio`, `command` or `flag`.
    #[serde(deserialize_with = "text_or_null")]
    pub via: String,
    /// Who gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The codes of these words, for other languages; empty where somebody else wrote them.
    #[serde(rename = "byCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub by_codes: PhraseKeys,
    /// `approve`, `reject` or `revise`.
    pub answer: String,
    /// Whether rejected work is taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<bool>,
    /// Why it is rejected, or what is to be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl GateDecided {
    /// Returns what is written about an answer to the opening `gate` for `commit`.
    pub fn new(gate: &str, commit: &str, via: &str, by: Option<&str>, answer: &GateAnswer) -> Self {
        let (rollback, text) = match answer {
            GateAnswer::Approve => (None, None),
            GateAnswer::Reject { rollback, text } => (Some(*rollback), Some(text.clone())),
            GateAnswer::Revise { text } => (None, Some(text.clone())),
        };
        Self {
            gate: gate.to_owned(),
            commit: commit.to_owned(),
            via: via.to_owned(),
            by: by.map(str::to_owned),
            by_codes: PhraseKeys::default(),
            answer: answer.word().to_owned(),
            rollback,
            text,
        }
    }

    /// Returns the answer, or `None` when this version does not know its word.
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
