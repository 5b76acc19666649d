//! Payloads about the plan of a run: what is proposed, what a person says to it, and why there is none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use teamster_types::phrase::PhraseKeys;

use super::list;

/// A plan as it is proposed. Its keys are those of a plan file, so that it can be edited and read again as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlanDraft {
    /// What whoever planned found out about the work.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub analysis: String,
    /// What whoever planned cannot decide.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// What whoever planned has taken for granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// What could go wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<String>,
    /// Commands that must succeed when all tasks are merged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<String>,
    /// Checks that are to pass in the end even though they failed before the work began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub must_pass: Vec<String>,
    /// The tasks, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<PlanDraftTask>,
}

/// A task of a plan that is proposed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanDraftTask {
    /// Its label in the plan.
    pub id: String,
    /// What is to be done, in one line.
    pub subject: String,
    /// All that the worker needs to know.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What is shown while it is being done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// Labels of the tasks that must be done before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<String>,
    /// The worker who gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The role of the members who may do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// What its worker should be good at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Globs of the files that it may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Sentences that hold when it is done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<String>,
    /// Commands that must succeed for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<String>,
}

/// Who made a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanAuthor {
    /// The agent that leads the run.
    #[default]
    Leader,
    /// A person, who edited the plan before it.
    Person,
    /// A person, in a file.
    File,
    /// The preset that the team was taken from.
    Preset,
    /// The session of a client that started the run.
    Session,
    /// Nobody: the sentence is taken as it is.
    Sentence,
}

impl PlanAuthor {
    /// Returns the word in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Person => "person",
            Self::File => "file",
            Self::Preset => "preset",
            Self::Session => "session",
            Self::Sentence => "sentence",
        }
    }
}

/// The payload of `plan.proposed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanProposed {
    /// The number of the proposal in the run, counted from 1. An answer names it.
    pub revision: u32,
    /// Who made the plan.
    pub by: PlanAuthor,
    /// Whether a person decides about it before it is carried out.
    pub ask: bool,
    /// The plan. With questions in it, they are answered first, and another plan is made.
    pub plan: PlanDraft,
    /// Commands that the leader would have had run, and that are left out: nobody has agreed to them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Why this is not what was asked for last, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The codes of these sentences, for other languages; empty in a journal of an older version.
    #[serde(rename = "problemCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub problem_codes: PhraseKeys,
}

/// What a person decides about a plan, as one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanDecision {
    /// The plan is carried out.
    Accept,
    /// The run ends without work.
    #[default]
    Reject,
    /// The leader makes another plan.
    Revise,
    /// The person's own plan takes its place.
    Edit,
}

/// What a person answers to a plan that is proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanAnswer {
    /// The plan is carried out.
    Accept,
    /// The run ends without work.
    Reject {
        /// Why; empty when that is not said.
        why: String,
    },
    /// The leader makes another plan.
    Revise {
        /// What is to be changed.
        words: String,
    },
    /// This plan takes its place, and is asked about in turn.
    Edit {
        /// The plan, which was checked.
        plan: Box<PlanDraft>,
    },
}

impl PlanAnswer {
    /// Returns the decision as one word.
    pub const fn decision(&self) -> PlanDecision {
        match self {
            Self::Accept => PlanDecision::Accept,
            Self::Reject { .. } => PlanDecision::Reject,
            Self::Revise { .. } => PlanDecision::Revise,
            Self::Edit { .. } => PlanDecision::Edit,
        }
    }

    /// Returns what was decided, as the rest of a sentence about the plan.
    pub const fn words(&self) -> &'static str {
        match self {
            Self::Accept => "accepted",
            Self::Reject { .. } => "rejected",
            Self::Revise { .. } => "to be changed by the leader",
            Self::Edit { .. } => "edited",
        }
    }
}

/// The payload of `plan.answered`. The event's actor decides; only the first answer to the present revision counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlanAnswered {
    /// The proposal that is answered.
    pub revision: u32,
    /// What is decided.
    pub decision: PlanDecision,
    /// What is to be changed, or why the plan is rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// The plan that takes its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanDraft>,
    /// How it was given: `terminal` or `studio`.
    pub via: String,
}

impl PlanAnswered {
    /// Returns what is written about an answer to a revision.
    pub fn new(revision: u32, via: &str, answer: PlanAnswer) -> Self {
        let decision = answer.decision();
        let (words, plan) = match answer {
            PlanAnswer::Accept => (None, None),
            PlanAnswer::Reject { why } => (Some(why).filter(|why| !why.is_empty()), None),
            PlanAnswer::Revise { words } => (Some(words), None),
            PlanAnswer::Edit { plan } => (None, Some(*plan)),
        };
        Self {
            revision,
            decision,
            words,
            plan,
            via: via.to_owned(),
        }
    }

    /// Returns the answer, or `None` when something of it is missing.
    pub fn answer(&self) -> Option<PlanAnswer> {
        let words = self.words.clone();
        Some(match self.decision {
            PlanDecision::Accept => PlanAnswer::Accept,
            PlanDecision::Reject => PlanAnswer::Reject {
                why: words.unwrap_or_default(),
            },
            PlanDecision::Revise => PlanAnswer::Revise { words: words? },
            PlanDecision::Edit => PlanAnswer::Edit {
                plan: Box::new(self.plan.clone()?),
            },
        })
    }
}

/// An answer of a leader that is no plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UnusableAnswer {
    /// What it said.
    pub text: String,
    /// What is wrong with it.
    #[serde(deserialize_with = "list")]
    pub faults: Vec<String>,
}

/// The payload of `plan.failed`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlanFailed {
    /// The leader.
    pub leader: String,
    /// Why there is no plan, in words.
    pub reason: String,
    /// Everything that it answered.
    #[serde(deserialize_with = "list")]
    pub answers: Vec<UnusableAnswer>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_that_was_written_is_read_again() {
        let plan = PlanDraft {
            tasks: vec![PlanDraftTask {
                id: "a".to_owned(),
                subject: "A".to_owned(),
                ..PlanDraftTask::default()
            }],
            ..PlanDraft::default()
        };
        for answer in [
            PlanAnswer::Accept,
            PlanAnswer::Reject { why: String::new() },
            PlanAnswer::Revise {
                words: "fewer".to_owned(),
            },
            PlanAnswer::Edit {
                plan: Box::new(plan),
            },
        ] {
            let written = PlanAnswered::new(3, "studio", answer.clone());
            let read: PlanAnswered =
                serde_json::from_value(serde_json::to_value(&written).unwrap()).unwrap();
            assert_eq!((read.revision, read.answer()), (3, Some(answer)));
        }
        let words_missing = PlanAnswered {
            decision: PlanDecision::Revise,
            ..PlanAnswered::default()
        };
        assert_eq!(words_missing.answer(), None);
    }
}
