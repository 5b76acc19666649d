//! Payloads about a run: its start, its stages, its plan, and its end.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use teamster_types::TaskId;
use teamster_types::flow::{Outcome, Stage};
use teamster_types::json::Object;
use teamster_types::phrase::{PhraseKeys, Wording};

use super::{RunSpec, list, text_or_null};

/// The payload of `run.started`, `run.resumed` and `run.ordered`: the fields of [`RunSpec`], and facts about the moment
/// of the event.
#[derive(Clone, Debug, PartialEq)]
pub struct RunStarted {
    /// The specification of the run.
    pub spec: RunSpec,
    /// Replaced objects, grafts and shallow boundaries of the repository, recorded when a run begins.
    pub replacements: Option<Vec<String>>,
}

const REPLACEMENTS: &str = "replacements";

// `#[serde(flatten)]` does not support arbitrary-precision numbers, which the journal preserves.
impl Serialize for RunStarted {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = Object::new();
        if let Ok(Value::Object(spec)) = serde_json::to_value(&self.spec) {
            fields = spec;
        }
        if let Some(replacements) = &self.replacements {
            fields.insert(REPLACEMENTS.to_owned(), serde_json::json!(replacements));
        }
        fields.serialize(to)
    }
}

impl<'de> Deserialize<'de> for RunStarted {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields = Object::deserialize(from)?;
        let replacements = fields.get(REPLACEMENTS).map(Vec::deserialize);
        Ok(Self {
            spec: RunSpec::deserialize(&fields).map_err(serde::de::Error::custom)?,
            replacements: replacements.transpose().map_err(serde::de::Error::custom)?,
        })
    }
}

impl JsonSchema for RunStarted {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RunStarted".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        RunSpec::json_schema(generator)
    }
}

/// The payload of `run.refs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RefsRecorded {
    /// The user's branches, tags and stash by their full names, and the checked-out `HEAD`.
    pub refs: BTreeMap<String, String>,
}

/// The payload of `run.files`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilesRecorded {
    /// The files, as a git tree.
    pub tree: String,
}

/// The payload of `run.stage`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StageEntered {
    /// The previous stage; `null` for the first.
    pub from: Option<String>,
    /// The stage that was entered.
    pub to: String,
    /// The same stage, under the key that viewers read.
    pub stage: String,
    /// The fix round.
    pub round: u32,
    /// Why it was entered.
    pub reason: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
}

impl StageEntered {
    /// Returns the stage, or `None` when this version does not know it.
    pub fn stage(&self) -> Option<Stage> {
        self.to.parse().ok()
    }
}

/// The payload of `flow.phase`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PhaseEntered {
    /// The flow whose phase it is: `party` or `pdca`.
    pub flow: String,
    /// The previous phase; `null` for the first.
    pub from: Option<String>,
    /// The phase that was entered, as the flow calls it.
    pub to: String,
    /// The round that it belongs to, counted from 1.
    pub round: u32,
    /// Why it was entered.
    pub reason: String,
}

/// The payload of `run.asked`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LeaderAsked {
    /// The leader.
    pub leader: String,
    /// The id of the launched process, so that the next host can find it.
    pub launch: String,
}

/// The payload of `run.plan`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlanMade {
    /// Where the plan comes from: `file`, `leader`, `preset`, `session` or `sentence`.
    pub source: String,
    /// The plan file, if there is one.
    pub path: Option<String>,
    /// Its tasks, in order.
    #[serde(deserialize_with = "list")]
    pub tasks: Vec<PlannedTaskEntry>,
}

/// A task of a plan, as it was created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlannedTaskEntry {
    /// Its id in the team.
    pub id: Option<TaskId>,
    /// Its label in the plan.
    #[serde(deserialize_with = "text_or_null")]
    pub label: String,
    /// Its subject.
    pub subject: String,
    /// The worker it is assigned to.
    pub owner: Option<String>,
    /// The tasks that it waits for.
    pub blocked_by: Vec<String>,
}

/// How a run ended. Its name, its last stage and its exit code follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The work is done, and has landed if there was anything to land.
    Complete,
    /// The completed work has landed, but some tasks failed permanently.
    CompleteInPart,
    /// A person rejected the work; it is kept.
    Rejected,
    /// A person rejected the work, and it was rolled back.
    RolledBack,
    /// Too many tasks failed permanently.
    TasksFailed,
    /// Checks fail that did not fail before.
    Unverified,
    /// Checks fail that did not fail before, and all fix rounds are used up: more rounds are needed to continue.
    FixRoundsUsedUp,
    /// The leader was asked twice, and produced no usable plan.
    Unplanned,
    /// Planning failed for another reason, or no worker could be started.
    Failed,
    /// A limit of the budget was reached.
    BudgetExhausted,
    /// A person stopped it.
    Cancelled,
}

impl RunEnd {
    /// Every end.
    pub const ALL: [Self; 11] = [
        Self::Complete,
        Self::CompleteInPart,
        Self::Rejected,
        Self::RolledBack,
        Self::TasksFailed,
        Self::Unverified,
        Self::FixRoundsUsedUp,
        Self::Unplanned,
        Self::Failed,
        Self::BudgetExhausted,
        Self::Cancelled,
    ];

    /// Returns its name in the journal and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::CompleteInPart | Self::TasksFailed => "tasks_failed",
            Self::Rejected => "rejected",
            Self::RolledBack => "rolled_back",
            Self::Unverified | Self::FixRoundsUsedUp | Self::Unplanned | Self::Failed => "failed",
            Self::BudgetExhausted => "budget_exhausted",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns how the run ended, for people: the rest of a sentence such as "the run has ended: …".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::CompleteInPart | Self::TasksFailed => "some tasks failed permanently",
            Self::Rejected => "rejected",
            Self::RolledBack => "rejected and rolled back",
            Self::Unverified | Self::FixRoundsUsedUp | Self::Unplanned | Self::Failed => "failed",
            Self::BudgetExhausted => "the budget is used up",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the corresponding outcome in the state machine of the run.
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::Complete | Self::CompleteInPart => Outcome::Complete,
            Self::Rejected => Outcome::Rejected,
            Self::RolledBack => Outcome::RolledBack,
            Self::TasksFailed
            | Self::Unverified
            | Self::FixRoundsUsedUp
            | Self::Unplanned
            | Self::Failed
            | Self::BudgetExhausted => Outcome::Failed,
            Self::Cancelled => Outcome::Cancelled,
        }
    }

    /// Returns the last stage of the run.
    pub const fn stage(self) -> Stage {
        Stage::End(self.outcome())
    }

    /// Returns the exit code of `teamster run`.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Failed => 1,
            Self::Rejected | Self::RolledBack => 10,
            Self::Unverified | Self::FixRoundsUsedUp | Self::Unplanned => 11,
            Self::BudgetExhausted => 12,
            Self::Cancelled => 13,
            Self::CompleteInPart | Self::TasksFailed => 14,
        }
    }

    /// Returns whether a run that ended this way can be resumed.
    pub const fn is_resumable(self) -> bool {
        !matches!(
            self.outcome(),
            Outcome::Complete | Outcome::Rejected | Outcome::RolledBack
        )
    }

    /// Returns whether the merged work of a run that ended this way is still on the team's branch.
    pub const fn keeps_branch(self) -> bool {
        !matches!(
            self,
            Self::Complete | Self::CompleteInPart | Self::RolledBack
        )
    }
}

/// How urgently a run is asked to stop. Each level includes the one before it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StopLevel {
    /// The run continues.
    #[default]
    GoOn,
    /// Current tasks are finished first.
    Drain,
    /// Current tasks are interrupted; their work so far is kept.
    Stop,
    /// Every process of the run is killed immediately.
    Kill,
}

/// The payload of `run.stop_requested`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunStopRequested {
    /// How urgent it is: `drain`, `stop` or `kill`.
    pub level: StopLevel,
    /// Whether the run ends as cancelled in any stage. Otherwise a run that waits at its gate stays there, without a
    /// host.
    pub cancel: bool,
    /// How long the workers have to stop by themselves, in milliseconds; `null` for the host's default.
    pub deadline_ms: Option<u64>,
}

/// The payload of `run.finished`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunFinished {
    /// The stage that it was in.
    pub from: Option<String>,
    /// The last stage.
    pub to: String,
    /// The name of the end: `complete`, `rejected`, `rolled_back`, `failed`, `cancelled`, `budget_exhausted` or
    /// `tasks_failed`.
    pub outcome: String,
    /// The exit code of `teamster run`.
    pub exit_code: Option<i64>,
    /// Why it ended.
    #[serde(deserialize_with = "text_or_null")]
    pub reason: String,
    /// The message codes of this text, for translation; empty in journals of older versions.
    #[serde(rename = "reasonCodes", skip_serializing_if = "PhraseKeys::is_empty")]
    pub reason_codes: PhraseKeys,
    /// Whether the checks still failed after all fix rounds; version 0.1 does not record this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix_rounds_used_up: Option<bool>,
    /// Whether the leader produced no usable plan.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unplanned: bool,
    /// The commit with the work.
    pub commit: Option<String>,
}

/// The part of the reason by which journals of version 0.1 show that the fix rounds were used up. They have no other
/// sign of it.
const ROUNDS_OF_0_1: &str = "rounds of fixing";

impl RunFinished {
    /// Creates the payload for the end of a run.
    pub fn new(from: Option<Stage>, end: RunEnd, reason: &Wording, commit: Option<String>) -> Self {
        Self {
            from: from.map(|stage| stage.as_str().to_owned()),
            to: end.stage().as_str().to_owned(),
            outcome: end.word().to_owned(),
            exit_code: Some(end.exit_code().into()),
            reason: reason.to_string(),
            reason_codes: reason.codes().clone(),
            fix_rounds_used_up: Some(end == RunEnd::FixRoundsUsedUp),
            unplanned: end == RunEnd::Unplanned,
            commit,
        }
    }

    /// Describes the end in a few words, even if this version does not know it.
    pub fn words(&self) -> String {
        match self.end() {
            Some(end) => end.words().to_owned(),
            None => self.outcome.replace('_', " "),
        }
    }

    /// Returns the end, or `None` when this version does not know the last stage.
    pub fn end(&self) -> Option<RunEnd> {
        let Ok(Stage::End(outcome)) = self.to.parse() else {
            return None;
        };
        let used_up = self
            .fix_rounds_used_up
            .unwrap_or_else(|| self.reason.contains(ROUNDS_OF_0_1));
        Some(match (outcome, self.outcome.as_str(), self.exit_code) {
            (Outcome::Complete, "tasks_failed", _) => RunEnd::CompleteInPart,
            (Outcome::Complete, ..) => RunEnd::Complete,
            (Outcome::Rejected, ..) => RunEnd::Rejected,
            (Outcome::RolledBack, ..) => RunEnd::RolledBack,
            (Outcome::Cancelled, ..) => RunEnd::Cancelled,
            (Outcome::Failed, "tasks_failed", _) => RunEnd::TasksFailed,
            (Outcome::Failed, "budget_exhausted", _) => RunEnd::BudgetExhausted,
            (Outcome::Failed, ..) if self.unplanned => RunEnd::Unplanned,
            (Outcome::Failed, ..) if used_up => RunEnd::FixRoundsUsedUp,
            (Outcome::Failed, _, Some(11)) => RunEnd::Unverified,
            (Outcome::Failed, ..) => RunEnd::Failed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_that_was_written_is_read_again() {
        for end in RunEnd::ALL {
            let reason = Wording::new("after 3 rounds of fixing", Vec::new());
            let written = RunFinished::new(Some(Stage::Verify), end, &reason, None);
            assert_eq!(written.end(), Some(end), "{written:?}");
        }
    }
}
