//! A team for a task that no preset is made for.

use crate::request::{Crew, Group};

use super::Choice;

const REVIEWER: &str = "reviewer";
const REVIEWS: &str = "code-review";
const EDITS: [&str; 2] = ["code-edit", "general"];

/// An agent that can be started here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// Its word, such as `claude`.
    pub agent: String,
    /// What it can do.
    pub capabilities: Vec<String>,
}

/// A team that a person is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Who would work.
    pub crew: Crew,
    /// Why it is asked, and why so.
    pub reason: String,
}

/// There is nobody to propose.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no agent was found: install a client ({}) and sign in; or name a program of your own, \
     `3:command:PROGRAM` or `[roles] executor = \"command:PROGRAM\"` in the configuration; or play a script, \
     `3:scripted:FILE`",
    teamster_agents::Client::any_of()
)]
pub struct NoAgents;

/// Proposes three workers of those that are there, in the order in which they are to be preferred: two that change code,
/// and one that looks at it where a second agent can.
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
        Choice::None => "no word of the task calls for a team that is ready".to_owned(),
    };
    Ok(Proposal {
        crew: Crew { groups },
        reason: format!("{why}; {because}"),
    })
}
