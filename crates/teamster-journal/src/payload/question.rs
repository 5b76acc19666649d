//! Payloads about the questions, findings and progress reports of agents.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use teamster_types::TaskId;
use teamster_types::phrase::PhraseKeys;

use super::{Severity, list, text_or_null};

/// The id of a question: `q17` is the question asked by the event at position 17.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(u64);

impl QuestionId {
    /// Returns the id of the question asked by the event at this position.
    pub const fn at(seq: u64) -> Self {
        Self(seq)
    }

    /// Returns the position of the event that asked it.
    pub const fn seq(self) -> u64 {
        self.0
    }
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "q{}", self.0)
    }
}

/// A text that is not a question id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoQuestionId(String);

impl fmt::Display for NoQuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not the id of a question, such as q17", self.0)
    }
}

impl std::error::Error for NoQuestionId {}

impl FromStr for QuestionId {
    type Err = NoQuestionId;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let number = word.strip_prefix('q').filter(|digits| {
            // The number parser would also accept a sign.
            digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        number
            .and_then(|digits| digits.parse().ok())
            .map(Self)
            .ok_or_else(|| NoQuestionId(word.to_owned()))
    }
}

impl Serialize for QuestionId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for QuestionId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        word.parse().map_err(serde::de::Error::custom)
    }
}

/// The kind of a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// A question whose asker waits for the answer.
    #[default]
    Ask,
    /// Something that a task needs before it can continue; the task was given back and waits.
    Blocked,
    /// Something that a leader needs to know before it plans.
    Plan,
    /// A task that a worker proposes. The worker does not wait for the answer.
    Proposal,
}

impl QuestionKind {
    /// Returns the name in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Blocked => "blocked",
            Self::Plan => "plan",
            Self::Proposal => "proposal",
        }
    }
}

/// The addressee of a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Addressee {
    /// The agent that leads the run.
    Leader,
    /// A person, who may be absent.
    #[default]
    Person,
}

impl Addressee {
    /// Returns the name in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Person => "person",
        }
    }
}

/// A task that a worker proposes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProposedTask {
    /// What the task is about, in one line.
    pub subject: String,
    /// What is to be done.
    #[serde(deserialize_with = "text_or_null")]
    pub description: String,
    /// Globs of the files that it may change.
    #[serde(deserialize_with = "list")]
    pub paths: Vec<String>,
    /// Tasks that it waits for.
    #[serde(deserialize_with = "list")]
    pub blocked_by: Vec<TaskId>,
}

/// The payload of `question.asked`. The event's actor asks; its task, if any, is the subject of the question. The
/// question's id is `q` followed by the position of this event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuestionAsked {
    /// The kind of the question.
    pub kind: QuestionKind,
    /// The text of the question.
    pub text: String,
    /// The addressee.
    pub to: Addressee,
    /// The proposed task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<ProposedTask>,
}

/// The payload of `question.forwarded`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuestionForwarded {
    /// The question.
    #[schemars(with = "String")]
    pub question: QuestionId,
    /// The new addressee.
    pub to: Addressee,
    /// Why the question was forwarded.
    pub reason: String,
    /// The message codes of this text, for translation; empty if teamster did not write it.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
}

/// The payload of `question.answered`. The event's actor answers; only the first answer counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuestionAnswered {
    /// The question.
    #[schemars(with = "String")]
    pub question: QuestionId,
    /// The text of the answer.
    pub answer: String,
}

/// The payload of `question.expired`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuestionExpired {
    /// The question.
    #[schemars(with = "String")]
    pub question: QuestionId,
    /// Why the answer is no longer needed.
    pub reason: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
}

/// The payload of `finding.added`. The event's actor found it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FindingAdded {
    /// How bad it is.
    pub severity: Severity,
    /// The file that it concerns, relative to the project; empty for the work as a whole.
    pub path: String,
    /// The line in that file, counted from 1.
    pub line: Option<u32>,
    /// What is wrong.
    pub claim: String,
    /// The evidence for it.
    pub evidence: String,
    /// The suggested fix.
    pub suggestion: String,
    /// The phase of a session that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

impl FindingAdded {
    /// Returns the location: `src/a.rs:12`, `src/a.rs`, or nothing.
    pub fn place(&self) -> String {
        match (self.path.as_str(), self.line) {
            ("", _) => String::new(),
            (path, Some(line)) => format!("{path}:{line}"),
            (path, None) => path.to_owned(),
        }
    }
}

/// The payload of `worker.progress`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerProgress {
    /// The agent's own description of its progress.
    pub text: String,
    /// The completed part of the task by the agent's own estimate, in percent from 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_id_is_written_as_it_is_read() {
        let id: QuestionId = "q17".parse().unwrap();
        assert_eq!((id.seq(), id.to_string()), (17, "q17".to_owned()));
        assert_eq!(serde_json::to_value(id).unwrap(), "q17");
        for word in ["17", "q", "q-1", "q+1", "Q17", "q1x", "q 1", ""] {
            assert!(word.parse::<QuestionId>().is_err(), "{word}");
        }
    }

    #[test]
    fn words_are_those_that_serde_writes() {
        for severity in Severity::ALL {
            assert_eq!(serde_json::to_value(severity).unwrap(), severity.as_str());
        }
        for kind in [
            QuestionKind::Ask,
            QuestionKind::Blocked,
            QuestionKind::Plan,
            QuestionKind::Proposal,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        for to in [Addressee::Leader, Addressee::Person] {
            assert_eq!(serde_json::to_value(to).unwrap(), to.as_str());
        }
    }
}
