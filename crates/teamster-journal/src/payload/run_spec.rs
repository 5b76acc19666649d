//! The specification of a run: everything that was requested when it was started.
//!
//! It is recorded with the team and with every host, so that a host that takes over after a crash needs nothing else. A
//! specification from a journal is read leniently, like every payload; [`RunSpec::strict`] is for a host that is about to act
//! on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use teamster_types::WorkerName;
use teamster_types::flow::FlowKind;
use teamster_types::routing::role_ability;

use super::{Budget, Check, PlanDraft, ReviewMode, list};

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
pub enum PlanOrigin {
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
    pub by: PlanOrigin,
    /// The plan, in the words of the run.
    pub plan: PlanDraft,
}

/// Where the plan of a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanSource<'a> {
    /// A file of the user, at this path.
    File(&'a str),
    /// The run itself, which was given a plan.
    Given(PlanOrigin),
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
            Self::Given(PlanOrigin::Preset) => "preset",
            Self::Given(PlanOrigin::Session) => "session",
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

#[cfg(test)]
mod tests {
    use super::*;

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
