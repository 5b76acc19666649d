//! Proposes a team for a task that matches no preset.

use crate::request::{Crew, Group};

use super::Choice;

const REVIEWER: &str = "reviewer";
const REVIEWS: &str = "code-review";
const EDITS: [&str; 2] = ["code-edit", "general"];

/// An agent that can be started on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// Its word, such as `claude`.
    pub agent: String,
    /// What it can do.
    pub capabilities: Vec<String>,
}

/// A team that is proposed to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
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
pub fn propose(choice: &Choice<'_>, available: &[Available]) -> Result<Proposal, NoAgents> {
    let can = |agent: &Available, wanted: &[&str]| {
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
    let group = |count, agent: &Available, role: Option<&str>| Group {
        count,
        agent: agent.agent.clone(),
        role: role.map(str::to_owned),
    };
    let (groups, because) = match reviewer {
        Some(reviewer) => (
            vec![group(2, editor, None), group(1, reviewer, Some(REVIEWER))],
            format!(
                "{} changes code, and {} looks at it",
                editor.agent, reviewer.agent
            ),
        ),
        None => (
            vec![group(3, editor, None)],
            format!("{} is the agent that was found for it", editor.agent),
        ),
    };
    let why = match choice {
        Choice::Tie { between, count } => format!(
            "{} fit alike (each has {count} of its words in the task)",
            between.join(" and ")
        ),
        Choice::Preset { preset, .. } => format!("{} fits, but was not wanted", preset.name),
        Choice::None => "no word of the task matches a team preset".to_owned(),
    };
    Ok(Proposal {
        crew: Crew { groups },
        reason: format!("{why}; {because}"),
    })
}
