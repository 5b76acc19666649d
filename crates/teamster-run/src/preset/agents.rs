//! The words that stand for an agent.

use std::collections::BTreeSet;

use teamster_agents::Client;

/// Roles that need no configuration: each stands for the first client that is found, unless `[roles]` says otherwise.
const ROLES: [&str; 9] = [
    "executor",
    "tester",
    "reviewer",
    "architect",
    "designer",
    "writer",
    "researcher",
    "planner",
    "debugger",
];
/// Providers whose word contains the command or script that they run.
const WITH_ARGUMENT: [&str; 2] = ["command:", "scripted:"];

/// The agents that a preset or a request may name.
#[derive(Clone, Debug)]
pub struct Agents {
    roles: BTreeSet<String>,
    providers: BTreeSet<String>,
}

impl Default for Agents {
    fn default() -> Self {
        Self {
            roles: ROLES.map(str::to_owned).into(),
            providers: Client::words().map(str::to_owned).collect(),
        }
    }
}

impl Agents {
    /// Adds a role of the configuration, `[roles] NAME = …`.
    #[must_use]
    pub fn with_role(mut self, name: &str) -> Self {
        self.roles.insert(name.to_owned());
        self
    }

    /// Adds a provider of the configuration, `[providers.NAME]`.
    #[must_use]
    pub fn with_provider(mut self, name: &str) -> Self {
        self.providers.insert(name.to_owned());
        self
    }

    /// Returns whether a word is a role.
    pub fn is_role(&self, word: &str) -> bool {
        self.roles.contains(word)
    }

    /// Returns whether a word is an agent: a role or a provider.
    pub fn has(&self, word: &str) -> bool {
        self.roles.contains(word) || self.provides(word)
    }

    /// Returns whether a word is a provider.
    pub fn provides(&self, word: &str) -> bool {
        let carries = |begin: &&str| {
            word.strip_prefix(begin)
                .is_some_and(|rest| !rest.trim().is_empty())
        };
        self.providers.contains(word) || WITH_ARGUMENT.iter().any(carries)
    }

    /// Returns all of them, for people.
    pub fn list(&self) -> String {
        let roles = self.roles.iter().cloned().collect::<Vec<_>>().join(", ");
        format!("{roles}, {}", self.list_providers())
    }

    pub(super) fn list_providers(&self) -> String {
        let names = self
            .providers
            .iter()
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        format!("{names}, command:…, scripted:…")
    }
}
