//! What a run was ordered to do. It lies with the team from the first moment on, so that whoever takes over after a
//! crash knows everything that was wanted.

use serde::{Deserialize, Serialize};
use teamster_types::WorkerName;
use teamster_types::routing::fitness;

use crate::cast::CastMember;
use crate::cost::Budget;
use crate::plan::Plan;
use crate::verify::Check;

/// How often what the checks found wrong is worked on, unless somebody says otherwise.
pub const MAX_FIX: u32 = 3;

/// The order of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command"
)]
pub struct Order {
    /// The sentence.
    pub task: String,
    /// The team as it was asked for, such as `3:executor`.
    pub agents: String,
    /// The preset that was chosen.
    #[serde(default)]
    pub preset: Option<String>,
    /// Who works.
    pub members: Vec<Hand>,
    /// Where the work begins, and the branch that it may land on; `None` without git.
    pub base: Option<Base>,
    /// The commands that prove the work.
    #[serde(default)]
    pub verify: Vec<Check>,
    /// Commands that were found and left out, and why.
    #[serde(default)]
    pub unverified: Vec<String>,
    /// Who decides at the gate.
    #[serde(default)]
    pub approve: Approve,
    /// How often what the checks find is worked on.
    #[serde(default = "max_fix")]
    pub max_fix: u32,
    /// The flow whose words the user wants to see.
    #[serde(default = "flow")]
    pub flow: String,
    /// Who plans: `engine`, or a provider.
    #[serde(default = "leader")]
    pub leader: String,
    /// The leader's model,
    #[serde(default)]
    pub leader_model: Option<String>,
    /// and what the preset tells it.
    #[serde(default)]
    pub leader_prompt: String,
    /// Why this team, in words.
    #[serde(default)]
    pub how: String,
    /// Whether what is wanted is written down before it is worked on.
    #[serde(default)]
    pub requirements: bool,
    /// The plan file.
    #[serde(default)]
    pub plan: Option<String>,
    /// Whether a person says yes to the plan first.
    #[serde(default)]
    pub approve_plan: bool,
    /// Whether everybody works in the project's own folder.
    #[serde(default)]
    pub in_place: bool,
    /// Whether workers run in panes of our own tmux.
    #[serde(default)]
    pub tmux: bool,
    /// What it may cost.
    #[serde(default)]
    pub budget: Budget,
    /// So many files of the user's are not committed, and no part of the base.
    #[serde(default)]
    pub uncommitted: usize,
}

impl Order {
    /// A task that nobody of the team may take would never be done, and the run would wait for it.
    pub fn nobody_can(&self, plan: &Plan) -> Option<String> {
        let members = self.members.iter();
        let names: Vec<&str> = members.map(|member| member.name.as_str()).collect();
        for (label, planned) in plan.labels.iter().zip(&plan.tasks) {
            if let Some(owner) = &planned.task.owner
                && !names.contains(&owner.as_str())
            {
                return Some(format!(
                    "task {label} of the plan is for {owner}, who is not in the team ({})",
                    names.join(", ")
                ));
            }
            let needs = &planned.task.capabilities;
            let can = |hand: &Hand| {
                let name = planned.task.owner.as_ref();
                name.is_none_or(|name| *name == hand.name) && fitness(needs, &hand.can) > 0.0
            };
            if !self.members.iter().any(can) {
                return Some(format!(
                    "task {label} of the plan needs {}, and nobody of the team can do that",
                    needs.join(", ")
                ));
            }
        }
        None
    }
}

/// One who works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hand {
    /// Its name.
    pub name: WorkerName,
    /// Its provider, as `worker start` takes it.
    pub provider: String,
    /// What it is for.
    #[serde(default)]
    pub role: Option<String>,
    /// Its model.
    #[serde(default)]
    pub model: Option<String>,
    /// What it can do, where that is not what its provider can do.
    #[serde(default)]
    pub capabilities: Option<Vec<String>>,
    /// What it can do, all in all.
    #[serde(default)]
    pub can: Vec<String>,
    /// What the preset tells it.
    #[serde(default)]
    pub prompt: String,
}

impl From<&CastMember> for Hand {
    fn from(member: &CastMember) -> Self {
        Self {
            name: member.name.clone(),
            provider: member.provider.clone(),
            role: member.role.clone(),
            model: member.model.clone(),
            capabilities: member.capabilities.clone(),
            can: member.can.clone(),
            prompt: member.prompt.clone(),
        }
    }
}

impl From<&Hand> for CastMember {
    fn from(hand: &Hand) -> Self {
        Self {
            name: hand.name.clone(),
            provider: hand.provider.clone(),
            role: hand.role.clone(),
            model: hand.model.clone(),
            capabilities: hand.capabilities.clone(),
            can: hand.can.clone(),
            prompt: hand.prompt.clone(),
        }
    }
}

/// Where the work begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The commit.
    pub commit: String,
    /// The user's branch; `None` when none was checked out.
    pub branch: Option<String>,
}

/// Who decides at the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approve {
    /// A person.
    #[default]
    Ask,
    /// The checks, if they ran and all passed.
    Auto,
    /// Nobody now: the run stops at the gate, and what it made is left there.
    Never,
}

fn max_fix() -> u32 {
    MAX_FIX
}

fn flow() -> String {
    "staged".to_owned()
}

fn leader() -> String {
    "engine".to_owned()
}
