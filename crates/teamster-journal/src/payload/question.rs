//! Payloads about what agents ask, find and report while they work.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use teamster_types::TaskId;
use teamster_types::phrase::PhraseKeys;

use super::{Severity, list, text_or_null};

/// Names a question: `q17` is the one that was asked by the event at position 17.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(u64);

impl QuestionId {
    /// Returns the id of the question that was asked by the event at this position.
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

/// A word that names no question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoQuestionId(String);

impl fmt::Display for NoQuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} names no question; a question is called q17, for example",
            self.0
        )
    }
}

impl std::error::Error for NoQuestionId {}

impl FromStr for QuestionId {
    type Err = NoQuestionId;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let number = word.strip_prefix('q').filter(|digits| {
            // A sign would be read as a number, too.
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

/// What somebody who asks wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// Words: whoever asks waits for them.
    #[default]
    Ask,
    /// Something that a task cannot go on without; the task was given back and waits.
    Blocked,
    /// What a leader needs to know before it plans.
    Plan,
    /// A task that a worker proposes. Nobody waits for the answer.
    Proposal,
}

impl QuestionKind {
    /// Returns the word in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Blocked => "blocked",
            Self::Plan => "plan",
            Self::Proposal => "proposal",
        }
    }
}

/// Who is to answer a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Addressee {
    /// The agent that leads the run.
    Leader,
    /// A person. Nobody else may be there.
    #[default]
    Person,
}

impl Addressee {
    /// Returns the word in the journal.
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

/// The payload of `question.asked`. The event's actor asks; its task, if any, is what the question is about. The question
/// is called `q` and the position of this event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuestionAsked {
    /// What is wanted.
    pub kind: QuestionKind,
    /// The question in words.
    pub text: String,
    /// Who is to answer.
    pub to: Addressee,
    /// The task that is proposed.
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
    /// Who is to answer now.
    pub to: Addressee,
    /// Why somebody else is to answer, in words.
    pub reason: String,
    /// The codes of these words, for other languages; empty where somebody else wrote them.
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
    /// The answer in words.
    pub answer: String,
}

/// The payload of `question.expired`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuestionExpired {
    /// The question.
    #[schemars(with = "String")]
    pub question: QuestionId,
    /// Why nobody waits for the answer any more, in words.
    pub reason: String,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
}

/// The payload of `finding.added`. The event's actor found it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FindingAdded {
    /// How bad it is.
    pub severity: Severity,
    /// The file that it is about, relative to the project; empty for the work as a whole.
    pub path: String,
    /// The line in that file, counted from 1.
    pub line: Option<u32>,
    /// What is wrong.
    pub claim: String,
    /// What proves it.
    pub evidence: String,
    /// What to do about it.
    pub suggestion: String,
    /// The phase of a session that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

impl FindingAdded {
    /// Returns where it is: `src/a.rs:12`, `src/a.rs`, or nothing.
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
    /// What the agent says about how far it is.
    pub text: String,
    /// How much of the task is done by its own estimate, from 0 to 100.
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
