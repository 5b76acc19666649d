//! Proposes a team for a task that matches no preset.

use crate::request::{Crew, CrewGroup};

use super::PresetChoice;

const REVIEWER: &str = "reviewer";
const REVIEWS: &str = "code-review";
const EDITS: [&str; 2] = ["code-edit", "general"];

/// An agent that can be started on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableAgent {
    /// Its word, such as `claude`.
    pub agent: String,
    /// What it can do.
    pub capabilities: Vec<String>,
}

/// A team that is proposed to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamProposal {
    /// The proposed crew.
    pub crew: Crew,
    /// Why the team is proposed, and why this one.
    pub reason: String,
}

/// The error that no agent could be proposed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no agent was found: install a client ({}) and sign in; or name a program of your own, \
     `3:command:PROGRAM` or `[roles] executor = \"command:PROGRAM\"` in the configuration; or play a script, \
     `3:scripted:FILE`",
    teamster_agents::Client::any_of()
)]
pub struct NoAgents;

/// Proposes three workers from the available agents, in the order of preference: two that change code, and one that
/// reviews it, where a second agent can.
pub fn propose(
    choice: &PresetChoice<'_>,
    available: &[AvailableAgent],
) -> Result<TeamProposal, NoAgents> {
    let can = |agent: &AvailableAgent, wanted: &[&str]| {
        agent
            .capabilities
            .iter()
            .any(|have| wanted.contains(&have.as_str()))
    };
    let editor = available
        .iter()
        .find(|agent| can(agent, &EDITS))
        .or_else(|| available.first())
        .ok_or(NoAgents)?;
    let reviewer = available
        .iter()
        .find(|agent| agent.agent != editor.agent && can(agent, &[REVIEWS]));
    let group = |count, agent: &AvailableAgent, role: Option<&str>| CrewGroup {
        count,
        agent: agent.agent.clone(),
        role: role.map(str::to_owned),
    };
    let (groups, because) = match reviewer {
        Some(reviewer) => (
            vec![group(2, editor, None), group(1, reviewer, Some(REVIEWER))],
            format!("{} edits, {} reviews", editor.agent, reviewer.agent),
        ),
        None => (
            vec![group(3, editor, None)],
            format!("{} fits best", editor.agent),
        ),
    };
    let why = match choice {
        PresetChoice::Tie { between, .. } => {
            format!("presets {} match equally well", between.join(" and "))
        }
        PresetChoice::Preset { preset, .. } => format!("preset {} was declined", preset.name),
        PresetChoice::None => "no preset matches".to_owned(),
    };
    Ok(TeamProposal {
        crew: Crew { groups },
        reason: format!("{why}; {because}"),
    })
}
