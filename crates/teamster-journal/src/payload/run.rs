//! Payloads about a run: its specification, its stages, its plan, and its end.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use teamster_types::flow::{FlowKind, Outcome, Stage};
use teamster_types::json::Object;
use teamster_types::phrase::{PhraseKeys, Wording};
use teamster_types::routing::role_ability;
use teamster_types::{TaskId, WorkerName};

use super::{Budget, Check, PlanDraft, ReviewMode, list, text_or_null};

/// The default maximum number of fix rounds.
pub const MAX_FIX: u32 = 3;

/// The specification of a run. It is recorded with the team from the start, so that the host that takes over after a
/// crash knows everything that was requested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command"
)]
pub struct RunSpec {
    /// The task in one sentence.
    pub task: String,
    /// The team as it was requested, such as `3:executor`.
    pub agents: String,
    /// The preset that was chosen.
    pub preset: Option<String>,
    /// The workers.
    #[serde(deserialize_with = "list")]
    pub members: Vec<Member>,
    /// The commit where the work begins, and the branch that it may land on; `null` without git.
    pub base: Option<Base>,
    /// The commands that verify the work.
    #[serde(deserialize_with = "list")]
    pub verify: Vec<Check>,
    /// Commands that were found and left out, and why.
    pub unverified: Vec<String>,
    /// Who decides at the gate.
    pub approve: Approve,
    /// The maximum number of fix rounds.
    pub max_fix: u32,
    /// Whether the merged work is reviewed before the gate opens.
    #[serde(skip_serializing_if = "ReviewMode::is_off")]
    pub review: ReviewMode,
    /// The flow that the run follows: `staged`, `party` or `pdca`.
    pub flow: String,
    /// The planner: `engine`, or a provider.
    pub leader: String,
    /// The leader's model.
    pub leader_model: Option<String>,
    /// The preset's instructions for the leader.
    pub leader_prompt: String,
    /// How a sentence without a plan is distributed among the workers.
    #[serde(skip_serializing_if = "Distribution::is_one")]
    pub distribution: Distribution,
    /// Why this team was chosen.
    pub how: String,
    /// Whether requirements are written before the work begins.
    pub requirements: bool,
    /// The plan file.
    pub plan: Option<String>,
    /// A plan that was given with the run instead of in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<GivenPlan>,
    /// Whether a person must approve the plan first.
    pub approve_plan: bool,
    /// Whether the leader makes its own assumptions instead of asking a person.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub assume: bool,
    /// Whether all workers work in the project's own folder.
    pub in_place: bool,
    /// Whether workers run in panes of teamster's own tmux server.
    pub tmux: bool,
    /// The budget.
    pub budget: Budget,
    /// How many files of the user are uncommitted, and so not part of the base.
    pub uncommitted: usize,
    /// The URL of the repository through which the work of other machines is exchanged; without one they push to the
    /// host's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Whether the run only collects the finished work of workers without a run: no worker is started or stopped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub collects: bool,
}

impl Default for RunSpec {
    fn default() -> Self {
        Self {
            task: String::new(),
            agents: String::new(),
            preset: None,
            members: Vec::new(),
            base: None,
            verify: Vec::new(),
            unverified: Vec::new(),
            approve: Approve::default(),
            max_fix: MAX_FIX,
            review: ReviewMode::default(),
            flow: "staged".to_owned(),
            leader: Self::ENGINE.to_owned(),
            leader_model: None,
            leader_prompt: String::new(),
            distribution: Distribution::default(),
            how: String::new(),
            requirements: false,
            plan: None,
            given: None,
            approve_plan: false,
            assume: false,
            in_place: false,
            tmux: false,
            budget: Budget::default(),
            uncommitted: 0,
            repo: None,
            collects: false,
        }
    }
}

/// The origin of a plan that was not given as a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GivenBy {
    /// The preset that the team was taken from.
    #[default]
    Preset,
    /// The session of a client that started the run and leads it.
    Session,
}

/// A plan that was given with a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GivenPlan {
    /// The origin of the plan.
    pub by: GivenBy,
    /// The plan, in the words of the run.
    pub plan: PlanDraft,
}

/// Where the plan of a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanSource<'a> {
    /// A file of the user, at this path.
    File(&'a str),
    /// The run itself, which was given a plan.
    Given(GivenBy),
    /// The agent of this provider.
    Leader(&'a str),
    /// The sentence that the run was started with.
    Sentence,
}

impl PlanSource<'_> {
    /// Returns the name in the journal.
    pub const fn word(self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Given(GivenBy::Preset) => "preset",
            Self::Given(GivenBy::Session) => "session",
            Self::Leader(_) => "leader",
            Self::Sentence => "sentence",
        }
    }
}

impl RunSpec {
    /// The value of `leader` for a run that no agent leads.
    pub const ENGINE: &str = "engine";

    /// Returns the provider of the agent that leads the run, or `None` when no agent does.
    pub fn leading_agent(&self) -> Option<&str> {
        (self.leader != Self::ENGINE).then_some(self.leader.as_str())
    }

    /// Returns the flow that the run follows.
    pub fn flow_kind(&self) -> FlowKind {
        FlowKind::of(&self.flow)
    }

    /// Returns where the plan comes from.
    pub fn plan_source(&self) -> PlanSource<'_> {
        match (&self.plan, &self.given, self.leading_agent()) {
            (Some(file), ..) => PlanSource::File(file),
            (None, Some(given), _) => PlanSource::Given(given.by),
            (None, None, Some(leader)) => PlanSource::Leader(leader),
            (None, None, None) => PlanSource::Sentence,
        }
    }

    /// Reads a specification and rejects it if any limit, check or member cannot be read, because that part would be
    /// missing from the run. The error describes what is wrong.
    pub fn strict(value: &Value) -> Result<Self, String> {
        let spec = Self::deserialize(value).map_err(|error| error.to_string())?;
        let count = |key: &str| value.get(key).and_then(Value::as_array).map_or(0, Vec::len);
        if !spec.can_be_run() || count("members") != spec.members.len() {
            return Err("its members cannot be read".to_owned());
        }
        if count("verify") != spec.verify.len() {
            return Err("its checks cannot be read".to_owned());
        }
        let budget = value.get("budget");
        let is_given = |key: &str| {
            let limit = budget.and_then(|budget| budget.get(key));
            limit.is_some_and(|limit| !limit.is_null())
        };
        let read = &spec.budget;
        if is_given("tokens") != read.tokens.is_some()
            || is_given("usd") != read.usd.is_some()
            || is_given("minutes") != read.minutes.is_some()
        {
            return Err("its budget cannot be read".to_owned());
        }
        Ok(spec)
    }

    /// Returns the members that do unassigned tasks. Reviewers and judges are reserved for their own stages, unless
    /// there are no other members.
    pub fn working_members(&self) -> Vec<&Member> {
        let working: Vec<&Member> = self
            .members
            .iter()
            .filter(|member| !member.is_reserved())
            .collect();
        if working.is_empty() {
            self.members.iter().collect()
        } else {
            working
        }
    }

    /// Returns whether the run has members or needs none. A journal that was edited by hand may lack them.
    pub fn can_be_run(&self) -> bool {
        !self.members.is_empty() || self.collects
    }
}

/// How a sentence without a plan is distributed among the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// It becomes one task, for the first worker that claims it.
    #[default]
    One,
    /// Every worker does it separately.
    Each,
    /// Every worker does it, and the best result is chosen.
    BestOf,
}

impl Distribution {
    /// Returns whether it is one task.
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub fn is_one(&self) -> bool {
        *self == Self::One
    }
}

/// A worker of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its name.
    pub name: WorkerName,
    /// Its provider, as `worker start --provider` takes it.
    pub provider: String,
    /// Its role.
    #[serde(default)]
    pub role: Option<String>,
    /// Its model, if it differs from the provider's.
    #[serde(default)]
    pub model: Option<String>,
    /// Its capabilities, if they differ from the provider's.
    #[serde(default)]
    pub capabilities: Option<Vec<String>>,
    /// All its capabilities, by which tasks are routed.
    #[serde(default)]
    pub can: Vec<String>,
    /// The preset's instructions for it; empty if there are none.
    #[serde(default)]
    pub prompt: String,
}

impl Member {
    /// Returns what tasks are routed by: its capabilities and its role.
    pub fn abilities(&self) -> Vec<String> {
        let role = self.role.as_deref().map(role_ability);
        self.can.iter().cloned().chain(role).collect()
    }

    /// Returns the name of its provider, without the command that a run may define for it.
    pub fn provider_name(&self) -> &str {
        let defined = self.provider.split_once('=');
        defined.map_or(self.provider.as_str(), |(name, _)| name)
    }

    /// Returns whether it has this role.
    pub fn has_role(&self, role: &str) -> bool {
        let own = self.role.as_deref();
        own.is_some_and(|own| own.trim().eq_ignore_ascii_case(role.trim()))
    }

    /// Returns whether it is reserved for its own stage: a reviewer or a judge does no task unless the plan assigns one
    /// to it.
    pub fn is_reserved(&self) -> bool {
        ["reviewer", "judge"].iter().any(|kept| self.has_role(kept))
    }
}

/// The commit where the work of a run begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Base {
    /// The commit.
    pub commit: String,
    /// The user's branch; `null` when none was checked out.
    pub branch: Option<String>,
}

/// Who decides at the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Approve {
    /// A person decides.
    #[default]
    Ask,
    /// The checks decide, if they ran and all passed.
    Auto,
    /// No decision is made now: the run stops at the gate, and its work is kept there.
    Never,
}

impl Approve {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }
}

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

    #[test]
    fn spec_with_a_limit_or_a_worker_that_cannot_be_read_is_refused() {
        use serde_json::json;
        let good = json!({
            "task": "t", "agents": "1:w", "members": [{ "name": "w", "provider": "claude" }],
            "budget": { "tokens": 5, "usd": null, "minutes": 1.5 },
        });
        assert_eq!(RunSpec::strict(&good).unwrap().budget.tokens, Some(5));
        for (key, value) in [
            ("budget", json!({ "usd": "5" })),
            ("budget", json!({ "minutes": -1 })),
            ("members", json!([])),
            (
                "members",
                json!([{ "name": "w", "provider": "claude" }, { "name": 7 }]),
            ),
            ("verify", json!([{ "order": "true" }])),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(RunSpec::strict(&bad).is_err(), "{bad}");
        }
        assert!(RunSpec::strict(&json!({})).is_err());
    }
}
