//! Casting: turns the request, the presets, the roles and the available agents into named members.
//!
//! ```text
//! crew, preset or neither ─▶ members with agent words ─▶ each word a provider that can be started ─▶ Cast
//! ```
//!
//! A crew is taken as it was asked for. Without one a preset decides; if none matches, or several match equally well, a
//! team is proposed, and a person accepts or declines. The agents that can be started are passed in; nothing is
//! searched here.

use std::fmt::Write as _;

use teamster_agents::{ProviderError, Providers};
use teamster_journal::payload::{Member, PlanDraft};
use teamster_types::WorkerName;

use crate::preset::{
    AvailableAgent, NoAgents, PlaceholderValues, Preset, PresetChoice, PresetFlow, PresetPrompts,
    choose, fill_plan, propose,
};
use crate::request::{Crew, CrewGroup};

mod agent;
mod fit;

use agent::{AgentWords, ResolvedAgent};
pub use fit::{misfits, nobody_can};

/// A role from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The name of the role.
    pub name: String,
    /// The provider that it stands for, as `worker start --provider` takes it.
    pub provider: String,
    /// The model.
    pub model: Option<String>,
}

/// The input for casting a team.
#[derive(Clone, Copy, Debug)]
pub struct Casting<'a> {
    /// The task in the words of the user.
    pub task: &'a str,
    /// The name of the team, for the prompts of a preset.
    pub team: &'a str,
    /// The crew that was asked for.
    pub crew: Option<&'a Crew>,
    /// The preset that was asked for.
    pub preset: Option<&'a str>,
    /// All presets; a later one replaces an earlier one of the same name.
    pub presets: &'a [Preset],
    /// The roles of the configuration.
    pub roles: &'a [Role],
    /// The providers of the configuration.
    pub providers: &'a Providers,
    /// Providers for this run alone, `NAME=KIND:ARGUMENT`.
    pub defined: &'a [String],
    /// Clients that were found on this machine and can be run, such as `claude`.
    pub found: &'a [String],
}

/// A team, or a proposal that a person has to accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CastOutcome {
    /// The team is settled.
    Ready(Cast),
    /// The team is a proposal that the user has not asked for.
    Ask(Cast),
}

/// A team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cast {
    /// The team in short: `2:codex,1:claude:reviewer`.
    pub agents: String,
    /// The preset that it was made from, or whose flow and commands it takes.
    pub preset: Option<String>,
    /// The members; never empty.
    pub members: Vec<Member>,
    /// Commands of the preset that verify the result.
    pub verify: Vec<String>,
    /// The flow of the preset.
    pub flow: Option<PresetFlow>,
    /// The preset's own plan, filled in for this run.
    pub plan: Option<PlanDraft>,
    /// The leader, where the preset names an agent for it.
    pub leader: Option<CastLeader>,
    /// The preset's text for the leader.
    pub leader_prompt: String,
    /// Why the team was cast like this, in words.
    pub how: String,
}

/// The agent that leads the team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CastLeader {
    /// The provider, as `worker start --provider` takes it.
    pub provider: String,
    /// The model, instead of the provider's.
    pub model: Option<String>,
}

/// The reason why no team could be cast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CastError {
    /// There are no agents at all.
    #[error(transparent)]
    NoAgents(#[from] NoAgents),
    /// A client that was named is not on this machine.
    #[error("{word} is not on PATH or cannot be run; {hint}, or name another agent: {others}")]
    NotInstalled {
        /// The word that was used, and the client that it stands for.
        word: String,
        /// How to install the client.
        hint: String,
        /// The words that could be used instead.
        others: String,
    },
    /// The word is unknown.
    #[error("there is no agent {word:?}; there are {known}")]
    Unknown {
        /// The word.
        word: String,
        /// The known words.
        known: String,
    },
    /// The preset is unknown.
    #[error("there is no team preset {name:?}; there are {known}")]
    NoPreset {
        /// Its name.
        name: String,
        /// The known presets.
        known: String,
    },
    /// The definition of a provider for this run is invalid.
    #[error("--provider {definition}: {error}")]
    Definition {
        /// The definition as it was given.
        definition: String,
        /// What is wrong.
        error: ProviderError,
    },
    /// The name of a provider is invalid.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// Casts a team.
pub fn cast(casting: &Casting<'_>) -> Result<CastOutcome, CastError> {
    let known = AgentWords::new(casting)?;
    let named = casting
        .preset
        .map(|name| find(casting.presets, name))
        .transpose()?;
    if let Some(crew) = casting.crew {
        let how = match named {
            Some(preset) => format!("as you asked: {crew}, using the preset {}", preset.name),
            None => format!("as you asked: {crew}"),
        };
        return Ok(CastOutcome::Ready(cast_crew(
            casting, &known, crew, named, how,
        )?));
    }
    if let Some(preset) = named {
        let how = format!("the team {}, as you asked", preset.name);
        return Ok(CastOutcome::Ready(cast_preset(
            casting, &known, preset, how,
        )?));
    }
    match choose(casting.task, casting.presets) {
        PresetChoice::Preset { preset, matched } => {
            let how = format!(
                "the team {}, because the task says {}",
                preset.name,
                matched.join(", ")
            );
            Ok(CastOutcome::Ready(cast_preset(
                casting, &known, preset, how,
            )?))
        }
        choice => {
            let proposal = propose(&choice, &available(&known))?;
            let how = proposal.reason;
            let cast = cast_crew(casting, &known, &proposal.crew, None, how)?;
            Ok(CastOutcome::Ask(cast))
        }
    }
}

/// Returns the agent that a word after `--leader` stands for.
pub fn leader(casting: &Casting<'_>, word: &str) -> Result<CastLeader, CastError> {
    let resolved = AgentWords::new(casting)?.resolve(word)?;
    Ok(CastLeader {
        provider: resolved.provider,
        model: resolved.model,
    })
}

/// Returns the first member of a team whose client can lead it.
pub fn leader_among(
    casting: &Casting<'_>,
    members: &[Member],
) -> Result<Option<CastLeader>, CastError> {
    let known = AgentWords::new(casting)?;
    let can_lead = |member: &&Member| known.can_lead(&member.provider);
    Ok(members.iter().find(can_lead).map(|member| CastLeader {
        provider: member.provider.clone(),
        model: member.model.clone(),
    }))
}

fn find<'a>(presets: &'a [Preset], name: &str) -> Result<&'a Preset, CastError> {
    let found = presets.iter().rev().find(|preset| preset.name == name);
    found.ok_or_else(|| {
        let mut known: Vec<&str> = presets.iter().map(|preset| preset.name.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        CastError::NoPreset {
            name: name.to_owned(),
            known: known.join(", "),
        }
    })
}

/// Returns the agents that can be proposed, the preferred one first.
fn available(known: &AgentWords<'_>) -> Vec<AvailableAgent> {
    let words = known.preferred();
    words
        .into_iter()
        .filter_map(|word| {
            let resolved = known.resolve(word).ok()?;
            Some(AvailableAgent {
                agent: word.to_owned(),
                capabilities: resolved.can,
            })
        })
        .collect()
}

fn cast_crew(
    casting: &Casting<'_>,
    known: &AgentWords<'_>,
    crew: &Crew,
    preset: Option<&Preset>,
    how: String,
) -> Result<Cast, CastError> {
    let mut reasons = Reasons::new(how);
    let mut members = Vec::new();
    for member in crew.members() {
        let resolved = known.resolve(&member.agent)?;
        reasons.add(&member.agent, resolved.why);
        let role = member
            .role
            .or_else(|| known.is_role(&member.agent).then(|| member.agent.clone()));
        let word = role.as_deref().unwrap_or(&member.agent).to_owned();
        members.push(Member {
            prompt: member_prompt(casting, preset.map(|one| &one.prompts), &member.name, &word),
            name: member.name,
            provider: resolved.provider,
            role,
            model: resolved.model,
            capabilities: None,
            can: resolved.can,
        });
    }
    finish_cast(casting, known, crew, preset, members, reasons)
}

fn cast_preset(
    casting: &Casting<'_>,
    known: &AgentWords<'_>,
    preset: &Preset,
    how: String,
) -> Result<Cast, CastError> {
    let mut reasons = Reasons::new(how);
    let (mut members, mut groups): (Vec<Member>, Vec<CrewGroup>) = (Vec::new(), Vec::new());
    for member in &preset.members {
        let word = member.provider.as_ref().unwrap_or(&member.agent);
        let ResolvedAgent {
            provider,
            model,
            can,
            why,
        } = known.resolve(word)?;
        reasons.add(word, why);
        let own = (!member.capabilities.is_empty()).then(|| member.capabilities.clone());
        members.push(Member {
            name: member.name.clone(),
            provider,
            role: Some(member.role.clone()),
            model: member.model.clone().or(model),
            can: own.clone().unwrap_or(can),
            capabilities: own,
            prompt: member_prompt(casting, Some(&preset.prompts), &member.name, &member.role),
        });
        groups.push(CrewGroup {
            count: 1,
            agent: word.clone(),
            role: Some(member.role.clone()).filter(|role| role != word),
        });
    }
    let crew = Crew { groups };
    finish_cast(casting, known, &crew, Some(preset), members, reasons)
}

fn finish_cast(
    casting: &Casting<'_>,
    known: &AgentWords<'_>,
    crew: &Crew,
    preset: Option<&Preset>,
    members: Vec<Member>,
    reasons: Reasons,
) -> Result<Cast, CastError> {
    let leader = match preset.and_then(|preset| preset.leader.as_ref()) {
        None => None,
        // A word that is no agent is only the preset's name for the leader.
        Some(leader) if leader.provider.is_none() && !known.has(&leader.agent) => None,
        Some(leader) => {
            let resolved = known.resolve(leader.provider.as_ref().unwrap_or(&leader.agent))?;
            Some(CastLeader {
                provider: resolved.provider,
                model: leader.model.clone().or(resolved.model),
            })
        }
    };
    let filling = PlaceholderValues {
        task: casting.task,
        team: casting.team,
        member: "leader",
    };
    Ok(Cast {
        agents: crew.to_string(),
        preset: preset.map(|preset| preset.name.clone()),
        members,
        verify: preset.map_or_else(Vec::new, |preset| preset.verify.clone()),
        flow: preset.and_then(|preset| preset.flow.clone()),
        plan: preset.and_then(|preset| {
            let plan = preset.plan.as_ref()?;
            Some(fill_plan(plan, casting.task, casting.team))
        }),
        leader,
        leader_prompt: preset.map_or_else(String::new, |preset| {
            filling.fill(preset.prompts.of_leader())
        }),
        how: reasons.words(),
    })
}

fn member_prompt(
    casting: &Casting<'_>,
    prompts: Option<&PresetPrompts>,
    name: &WorkerName,
    role: &str,
) -> String {
    let filling = PlaceholderValues {
        task: casting.task,
        team: casting.team,
        member: name.as_str(),
    };
    prompts.map_or_else(String::new, |prompts| {
        filling.fill(&prompts.of(name.as_str(), role))
    })
}

/// Returns a member for a test.
#[cfg(test)]
pub(crate) fn example(name: &str, role: Option<&str>, can: &[&str]) -> Member {
    Member {
        name: name.parse().unwrap(),
        provider: "claude".to_owned(),
        role: role.map(str::to_owned),
        model: None,
        capabilities: None,
        can: can.iter().map(|word| (*word).to_owned()).collect(),
        prompt: String::new(),
    }
}

/// Collects the reasons for the composition of a team.
struct Reasons {
    how: String,
    /// The words of each explanation, so that an explanation that several words share is given once.
    agents: Vec<(String, Vec<String>)>,
}

impl Reasons {
    fn new(how: String) -> Self {
        Self {
            how,
            agents: Vec::new(),
        }
    }

    /// Notes which agent a word stands for, and why.
    fn add(&mut self, word: &str, why: Option<String>) {
        let Some(why) = why else { return };
        match self.agents.iter_mut().find(|(known, _)| *known == why) {
            Some((_, words)) if words.iter().any(|known| known == word) => {}
            Some((_, words)) => words.push(word.to_owned()),
            None => self.agents.push((why, vec![word.to_owned()])),
        }
    }

    fn words(self) -> String {
        let mut text = self.how;
        for (why, words) in self.agents {
            let is = if words.len() == 1 { "is" } else { "are" };
            let _ = write!(text, "; {} {is} {why}", words.join(" and "));
        }
        text
    }
}

#[cfg(test)]
mod tests;
