//! The table of clients that have a driver, with the facts that other crates need about each.

use crate::provider::ProviderKind;

/// A client that has a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The client's driver.
    pub kind: ProviderKind,
    /// Other names of the client, such as `mcp-codex`.
    pub aliases: &'static [&'static str],
    /// How to install the client, as a hint for a person.
    pub install: &'static str,
    /// The prefix of teamster's tools as the client's model sees them.
    pub tool_prefix: &'static str,
}

/// Every client; the first is the default.
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
    /// Returns the client with this name or alias.
    pub fn find(word: &str) -> Option<&'static Self> {
        let is_meant = |client: &&Self| client.name() == word || client.aliases.contains(&word);
        CLIENTS.iter().find(is_meant)
    }

    /// Returns the client's name, which is also its program's name.
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

    /// Returns every name and alias of a client.
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
            // A client that is unknown to routing would get the weak capabilities of a generic command.
            let abilities = default_capabilities(word);
            assert_ne!(abilities, default_capabilities("command"), "{word}");
        }
        assert_eq!(Client::find("command"), None);
    }
}
