//! Payloads about the plan of a run: proposals, a person's answers, and failures to plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use teamster_types::flow::DecisionChannel;
use teamster_types::phrase::PhraseKeys;

use super::list;

/// A proposed plan. Its keys are those of a plan file, so that it can be edited and read back as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlanDraft {
    /// The planner's analysis of the work.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub analysis: String,
    /// The questions that the planner cannot decide itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// The assumptions that the planner made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// What could go wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<String>,
    /// Commands that must succeed when all tasks are merged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<String>,
    /// Checks that must pass in the end even though they failed before the work began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub must_pass: Vec<String>,
    /// The tasks, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<PlanDraftTask>,
}

/// A task of a proposed plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanDraftTask {
    /// Its label within the plan.
    pub id: String,
    /// What is to be done, in one line.
    pub subject: String,
    /// Everything that the worker needs to know.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The label that is shown while the task is in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// Labels of the tasks that must be done before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<String>,
    /// The worker that it is assigned to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The role of the members that may do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The capabilities that its worker should have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Globs of the files that it may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The acceptance criteria.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<String>,
    /// Commands that must succeed for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<String>,
}

/// The author of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanAuthor {
    /// The agent that leads the run.
    #[default]
    Leader,
    /// A person who edited the previous proposal.
    Person,
    /// A person, through a plan file.
    File,
    /// The preset that the team was taken from.
    Preset,
    /// The session of a client that started the run.
    Session,
    /// No one: the sentence itself becomes the plan.
    Sentence,
}

impl PlanAuthor {
    /// Returns the name in the journal.
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
    /// The number of the proposal within the run, counted from 1. An answer refers to it.
    pub revision: u32,
    /// The author of the plan.
    pub by: PlanAuthor,
    /// Whether a person must approve it before it is carried out.
    pub ask: bool,
    /// The plan. If it contains questions, they are answered first, and a new plan is made.
    pub plan: PlanDraft,
    /// Commands that the leader proposed and that were left out, because no person has approved them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Why this plan differs from what was last asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(rename = "problemCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub problem_codes: PhraseKeys,
}

/// The kind of a person's decision about a plan.
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
    /// The person's own plan replaces it.
    Edit,
}

/// A person's answer to a proposed plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanAnswer {
    /// The plan is carried out.
    Accept,
    /// The run ends without work.
    Reject {
        /// The reason; empty if none was given.
        why: String,
    },
    /// The leader makes another plan.
    Revise {
        /// The changes that are needed.
        words: String,
    },
    /// This plan replaces it, and needs approval in turn.
    Edit {
        /// The replacement plan, already validated.
        plan: Box<PlanDraft>,
    },
}

impl PlanAnswer {
    /// Returns the kind of the decision.
    pub const fn decision(&self) -> PlanDecision {
        match self {
            Self::Accept => PlanDecision::Accept,
            Self::Reject { .. } => PlanDecision::Reject,
            Self::Revise { .. } => PlanDecision::Revise,
            Self::Edit { .. } => PlanDecision::Edit,
        }
    }

    /// Returns the decision as the end of a sentence about the plan.
    pub const fn words(&self) -> &'static str {
        match self {
            Self::Accept => "accepted",
            Self::Reject { .. } => "rejected",
            Self::Revise { .. } => "to be changed by the leader",
            Self::Edit { .. } => "edited",
        }
    }
}

/// The payload of `plan.answered`. The event's actor decides; only the first answer to the current revision counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlanAnswered {
    /// The revision that is answered.
    pub revision: u32,
    /// The decision.
    pub decision: PlanDecision,
    /// Which changes are needed, or why the plan is rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// The plan that replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanDraft>,
    /// The channel of the answer: `terminal` or `studio`.
    pub via: String,
}

impl PlanAnswered {
    /// Creates the payload for an answer to a revision.
    pub fn new(revision: u32, via: DecisionChannel, answer: PlanAnswer) -> Self {
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
            via: via.name().to_owned(),
        }
    }

    /// Returns the answer, or `None` when part of it is missing.
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

/// An answer of a leader that is not a valid plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UnusableAnswer {
    /// The answer.
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
    /// Why there is no plan.
    pub reason: String,
    /// All answers of the leader.
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
            let written = PlanAnswered::new(3, DecisionChannel::Studio, answer.clone());
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
