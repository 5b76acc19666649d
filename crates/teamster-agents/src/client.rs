//! The one table of clients that have a driver: what other crates must know of each by its name.

use crate::provider::ProviderKind;

/// A client that has a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its driver.
    pub kind: ProviderKind,
    /// Other words that mean it, such as `mcp-codex`.
    pub aliases: &'static [&'static str],
    /// How to install it, as a hint for a person.
    pub install: &'static str,
    /// What stands before the names of our tools where its model sees them.
    pub tool_prefix: &'static str,
}

/// Every client, the one that is preferred where nobody named one first.
pub static CLIENTS: [Client; 3] = [
    Client {
        kind: ProviderKind::Claude,
        aliases: &[],
        install: "install Claude Code: npm install -g @anthropic-ai/claude-code",
        tool_prefix: "mcp__teamster__",
    },
    Client {
        kind: ProviderKind::Codex,
        aliases: &["mcp-codex"],
        install: "install Codex: npm install -g @openai/codex",
        tool_prefix: "mcp__teamster__",
    },
    Client {
        kind: ProviderKind::Gemini,
        aliases: &["mcp-gemini"],
        install: "install Gemini CLI: npm install -g @google/gemini-cli",
        tool_prefix: "mcp_teamster_",
    },
];

impl Client {
    /// Returns the client that a word means.
    pub fn find(word: &str) -> Option<&'static Self> {
        let is_meant = |client: &&Self| client.name() == word || client.aliases.contains(&word);
        CLIENTS.iter().find(is_meant)
    }

    /// Returns its name, which is its program's.
    pub fn name(&self) -> &'static str {
        self.kind.word()
    }

    /// Returns every name of a client, the preferred one first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        CLIENTS.iter().map(Self::name)
    }

    /// Returns the names as a choice for a person: `claude, codex or gemini`.
    pub fn any_of() -> String {
        let names = Self::names().collect::<Vec<_>>().join(", ");
        match names.rsplit_once(", ") {
            Some((others, last)) => format!("{others} or {last}"),
            None => names,
        }
    }

    /// Returns every word that means a client.
    pub fn words() -> impl Iterator<Item = &'static str> {
        let aliases = CLIENTS.iter().flat_map(|client| client.aliases);
        Self::names().chain(aliases.copied())
    }
}

#[cfg(test)]
mod tests {
    use teamster_types::routing::default_capabilities;

    use super::*;

    #[test]
    fn every_word_of_a_client_is_found_and_has_abilities_of_its_own() {
        for word in Client::words() {
            assert!(Client::find(word).is_some(), "{word}");
            // A client that routing does not know would be taken for a program that can do anything half.
            let abilities = default_capabilities(word);
            assert_ne!(abilities, default_capabilities("command"), "{word}");
        }
        assert_eq!(Client::find("command"), None);
    }
}
