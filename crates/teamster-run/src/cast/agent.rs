//! Resolves a word for an agent to a provider.
//!
//! Definitions for this run take precedence: `--provider NAME=…`. Then come the roles of the configuration, then
//! providers, then the built-in roles, which stand for the first client that was found.

use teamster_agents::{Client, ProviderError, Providers, detect};

use super::{CastError, Casting};
use crate::preset::{Agents, NoAgents};

/// The role that proposed workers get if the configuration defines it.
const EXECUTOR: &str = "executor";

/// All words that stand for an agent.
pub(super) struct AgentWords<'a> {
    casting: Casting<'a>,
    providers: Providers,
    /// The names in `defined`, in their order.
    names: Vec<&'a str>,
    agents: Agents,
}

/// An agent that can be started.
#[derive(Debug)]
pub(super) struct ResolvedAgent {
    pub(super) provider: String,
    pub(super) model: Option<String>,
    pub(super) can: Vec<String>,
    /// The agent that was chosen and why, where the word does not say it.
    pub(super) why: Option<String>,
}

impl<'a> AgentWords<'a> {
    pub(super) fn new(casting: &Casting<'a>) -> Result<Self, CastError> {
        let mut providers = casting.providers.clone();
        let mut names = Vec::new();
        for definition in casting.defined {
            providers
                .define(definition)
                .map_err(|error| CastError::Definition {
                    definition: definition.clone(),
                    error,
                })?;
            names.extend(definition.split_once('=').map(|(name, _)| name));
        }
        let mut agents = Agents::default();
        for role in casting.roles {
            agents = agents.with_role(&role.name);
        }
        for name in providers.names() {
            agents = agents.with_provider(&name);
        }
        Ok(Self {
            casting: *casting,
            providers,
            names,
            agents,
        })
    }

    pub(super) fn is_role(&self, word: &str) -> bool {
        self.agents.is_role(word)
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.agents.has(word)
    }

    /// Returns the words for agents that can do any work, the preferred one first.
    pub(super) fn preferred(&self) -> Vec<&'a str> {
        let mut words: Vec<&'a str> = Vec::new();
        if self.casting.roles.iter().any(|role| role.name == EXECUTOR) {
            words.push(EXECUTOR);
        }
        words.extend(self.clients());
        words.extend(&self.names);
        words
    }

    fn clients(&self) -> Vec<&'static str> {
        let is_found = |client: &&str| self.casting.found.iter().any(|one| one == client);
        Client::names().filter(is_found).collect()
    }

    /// Returns whether a provider is a client with a model of its own: a command or a script cannot plan.
    pub(super) fn can_lead(&self, provider: &str) -> bool {
        let found = self.providers.find(provider);
        found.is_ok_and(|found| found.kind.is_client())
    }

    /// Returns the provider that a word stands for, if it can be started.
    pub(super) fn resolve(&self, word: &str) -> Result<ResolvedAgent, CastError> {
        if self.names.contains(&word) {
            return self.provider(word, word);
        }
        if let Some(role) = self.casting.roles.iter().find(|role| role.name == word) {
            let resolved = self.provider(word, &role.provider)?;
            return Ok(ResolvedAgent {
                model: role.model.clone(),
                why: Some(format!("{}, as [roles] says", role.provider)),
                ..resolved
            });
        }
        if self.agents.provides(word) {
            return self.provider(word, word);
        }
        // It is a provider, but one that teamster cannot start.
        if let Err(error @ ProviderError::Native) = self.providers.find(word) {
            return Err(error.into());
        }
        if !self.agents.is_role(word) {
            return Err(CastError::Unknown {
                word: word.to_owned(),
                known: self.agents.list(),
            });
        }
        if let Some(client) = self.clients().first() {
            return Ok(ResolvedAgent {
                why: Some(format!("{client}, the first client that was found")),
                ..self.provider(word, client)?
            });
        }
        let Some(name) = self.names.first() else {
            return Err(NoAgents.into());
        };
        Ok(ResolvedAgent {
            why: Some(format!(
                "{name}, because no client was found and it was given"
            )),
            ..self.provider(word, name)?
        })
    }

    fn provider(&self, word: &str, name: &str) -> Result<ResolvedAgent, CastError> {
        let provider = self.providers.find(name)?;
        let client = provider.kind.word();
        if provider.kind.is_client() && !self.casting.found.iter().any(|found| found == client) {
            let mut others = self.preferred();
            others.retain(|other| *other != word);
            let others = match others.as_slice() {
                [] => "command:PROGRAM or scripted:FILE".to_owned(),
                others => others.join(", "),
            };
            let word = if word == client {
                client.to_owned()
            } else {
                format!("{word} needs {client}, which")
            };
            return Err(CastError::NotInstalled {
                word,
                hint: detect::how_to_install(client)
                    .unwrap_or("install it")
                    .to_owned(),
                others,
            });
        }
        // A worker's own process does not know the definitions of this run, so it gets the definition itself.
        let definition = self.casting.defined.iter().rev().find(|definition| {
            let defined = definition.split_once('=').map(|(name, _)| name);
            defined == Some(name)
        });
        Ok(ResolvedAgent {
            provider: definition.cloned().unwrap_or_else(|| name.to_owned()),
            model: None,
            can: provider.capabilities,
            why: None,
        })
    }
}
