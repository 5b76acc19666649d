//! The names by which users choose an agent: `claude`, `mcp-codex`, `command:make check`, `scripted:demo.toml`, or a name
//! from the configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use teamster_types::routing::default_capabilities;
use thiserror::Error;

use crate::client::Client;
use crate::driver::{CREDENTIALS, Driver};
use crate::{ClaudeDriver, CodexDriver, CommandDriver, GeminiDriver, ScriptedDriver};

/// The driver of a provider, with its argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderKind {
    /// The client Claude Code.
    Claude,
    /// The client Codex.
    Codex,
    /// The client Gemini CLI.
    Gemini,
    /// A shell command.
    Command(String),
    /// A script, by its absolute path.
    Scripted(PathBuf),
}

impl ProviderKind {
    /// Returns the driver's name: `claude`, `codex`, `gemini`, `command`, `scripted`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Command(_) => "command",
            Self::Scripted(_) => "scripted",
        }
    }

    /// Returns whether it is a vendor's agent, which can lead and review, and not a program or a script.
    pub fn is_client(&self) -> bool {
        Client::find(self.word()).is_some()
    }

    fn parse(word: &str, base: &Path) -> Result<Option<Self>, ProviderError> {
        let (head, argument) = match word.split_once(':') {
            Some((head, argument)) => (head, Some(argument)),
            None => (word, None),
        };
        let plain = |kind: Self| match argument {
            None => Ok(Some(kind)),
            Some(_) => Err(ProviderError::NoArgument(head.to_owned())),
        };
        let needed = || {
            argument
                .filter(|argument| !argument.trim().is_empty())
                .ok_or_else(|| ProviderError::NeedsArgument(head.to_owned()))
        };
        if let Some(client) = Client::find(head) {
            return plain(client.kind.clone());
        }
        match head {
            "command" => Ok(Some(Self::Command(needed()?.to_owned()))),
            "scripted" => Ok(Some(Self::Scripted(base.join(needed()?)))),
            "claude-native" => Err(ProviderError::Native),
            _ => Ok(None),
        }
    }
}

/// A provider that a worker can be started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// The name that the user gave.
    pub name: String,
    /// The driver that runs it.
    pub kind: ProviderKind,
    /// The model of its workers, unless a worker has its own.
    pub model: Option<String>,
    /// The capabilities of its workers.
    pub capabilities: Vec<String>,
    /// Credentials that a command may see.
    pub secrets: Vec<String>,
}

impl Provider {
    /// Returns the driver of the provider.
    pub fn driver(&self) -> Box<dyn Driver> {
        match &self.kind {
            ProviderKind::Claude => Box::new(ClaudeDriver),
            ProviderKind::Codex => Box::new(CodexDriver::default()),
            ProviderKind::Gemini => Box::new(GeminiDriver),
            ProviderKind::Command(command) => {
                Box::new(CommandDriver::new(command, self.secrets.clone()))
            }
            ProviderKind::Scripted(file) => Box::new(ScriptedDriver::new(file)),
        }
    }
}

/// A section `[providers.NAME]` of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// The driver's name; `None` when the section's name is one.
    pub kind: Option<String>,
    /// The shell command, for `kind = "command"`.
    pub command: Option<String>,
    /// The script, for `kind = "scripted"`.
    pub file: Option<PathBuf>,
    /// The model of its agents.
    pub model: Option<String>,
    /// The capabilities of its workers.
    pub capabilities: Option<Vec<String>>,
    /// Names of variables with credentials that a command may see.
    pub secrets: Vec<String>,
}

/// All known providers.
#[derive(Clone, Debug, Default)]
pub struct Providers {
    base: PathBuf,
    configured: BTreeMap<String, ProviderConfig>,
}

impl Providers {
    /// Creates the built-in providers. Relative file names are resolved against `base`.
    pub fn new(base: &Path) -> Self {
        Self {
            base: base.to_owned(),
            configured: BTreeMap::new(),
        }
    }

    /// Adds a provider from the configuration. A later one of the same name replaces an earlier one.
    pub fn configure(&mut self, name: &str, section: ProviderConfig) -> Result<(), ProviderError> {
        is_name(name)?;
        let before = self.configured.insert(name.to_owned(), section);
        // An invalid section is reported now, and not when the first worker is started.
        self.find(name).map(drop).inspect_err(|_| {
            match before {
                Some(before) => self.configured.insert(name.to_owned(), before),
                None => self.configured.remove(name),
            };
        })
    }

    /// Adds a provider from the command line: `NAME=command:…`.
    pub fn define(&mut self, definition: &str) -> Result<(), ProviderError> {
        let (name, word) = definition
            .split_once('=')
            .ok_or_else(|| ProviderError::Definition(definition.to_owned()))?;
        let mut section = ProviderConfig::default();
        match ProviderKind::parse(word, &self.base)? {
            Some(ProviderKind::Command(command)) => section.command = Some(command),
            Some(ProviderKind::Scripted(file)) => section.file = Some(file),
            Some(_) => {}
            None => return Err(self.unknown(word)),
        }
        section.kind = word.split(':').next().map(str::to_owned);
        self.configure(name, section)
    }

    /// Returns the provider that a name denotes.
    pub fn find(&self, word: &str) -> Result<Provider, ProviderError> {
        if let Some(section) = self.configured.get(word) {
            return self.of_section(word, section);
        }
        let kind = ProviderKind::parse(word, &self.base)?.ok_or_else(|| self.unknown(word))?;
        // The settings of a kind apply to all its providers with an argument as well.
        let section = self.configured.get(kind.word());
        let section = section.cloned().unwrap_or_default();
        Ok(Provider {
            name: word.to_owned(),
            model: section.model,
            capabilities: capabilities(&kind, section.capabilities),
            secrets: section.secrets,
            kind,
        })
    }

    /// Returns the provider that an argument of the command line denotes: a name for [`Self::find`], or a definition that is used
    /// at once, `NAME=command:…`.
    pub fn named(&mut self, word: &str) -> Result<Provider, ProviderError> {
        match word.split_once('=') {
            // `command:A=1 make` is a command and not a definition.
            Some((name, _)) if !name.contains(':') => {
                self.define(word)?;
                self.find(name)
            }
            _ => self.find(word),
        }
    }

    /// Returns every name that needs no argument.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Client::names()
            .map(str::to_owned)
            .chain(self.configured.keys().cloned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn of_section(&self, name: &str, section: &ProviderConfig) -> Result<Provider, ProviderError> {
        let wrong = |what: &str| ProviderError::Section(name.to_owned(), what.to_owned());
        let word = section.kind.as_deref().unwrap_or(name);
        let built_in = Client::find(word).is_some();
        let kind = match (word, &section.command, &section.file) {
            ("command", Some(command), None) if !command.trim().is_empty() => {
                ProviderKind::Command(command.clone())
            }
            ("command", ..) => {
                return Err(wrong("kind \"command\" needs `command`, and no `file`"));
            }
            ("scripted", None, Some(file)) => ProviderKind::Scripted(self.base.join(file)),
            ("scripted", ..) => {
                return Err(wrong("kind \"scripted\" needs `file`, and no `command`"));
            }
            (_, None, None) if built_in => {
                ProviderKind::parse(word, &self.base)?.ok_or_else(|| self.unknown(word))?
            }
            _ if built_in => return Err(wrong("`command` and `file` are for other kinds")),
            _ => {
                let clients = Client::names().collect::<Vec<_>>().join(", ");
                return Err(wrong(&format!(
                    "`kind` must be {clients}, command or scripted"
                )));
            }
        };
        if let Some(secret) = section
            .secrets
            .iter()
            .find(|secret| !CREDENTIALS.contains(&secret.as_str()))
        {
            return Err(wrong(&format!(
                "`{secret}` is not withheld from agents, so it need not be named in `secrets`"
            )));
        }
        Ok(Provider {
            name: name.to_owned(),
            model: section.model.clone(),
            capabilities: capabilities(&kind, section.capabilities.clone()),
            secrets: section.secrets.clone(),
            kind,
        })
    }

    fn unknown(&self, word: &str) -> ProviderError {
        ProviderError::Unknown(word.to_owned(), self.names().join(", "))
    }
}

fn capabilities(kind: &ProviderKind, configured: Option<Vec<String>>) -> Vec<String> {
    configured.unwrap_or_else(|| {
        default_capabilities(kind.word())
            .iter()
            .map(|capability| (*capability).to_owned())
            .collect()
    })
}

fn is_name(name: &str) -> Result<(), ProviderError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.len() <= 64 && name.chars().all(plain) {
        Ok(())
    } else {
        Err(ProviderError::Name(name.to_owned()))
    }
}

/// Why a word does not denote a provider.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProviderError {
    /// No provider has this name.
    #[error("unknown provider `{0}`; known are {1}, command:… and scripted:…")]
    Unknown(String, String),
    /// The provider takes no argument.
    #[error("the provider `{0}` takes nothing after a colon")]
    NoArgument(String),
    /// The provider needs an argument.
    #[error("the provider `{0}` needs its argument after a colon, as in `command:make check`")]
    NeedsArgument(String),
    /// Teamster cannot start the provider.
    #[error(
        "`claude-native` workers are started by the user's own session, never by teamster; use `claude`"
    )]
    Native,
    /// The name is invalid.
    #[error("`{0}` is not a valid name for a provider: letters, digits, `-` and `_`, at most 64")]
    Name(String),
    /// The definition is invalid.
    #[error("`{0}` defines no provider; write NAME=command:…")]
    Definition(String),
    /// The section is invalid.
    #[error("[providers.{0}]: {1}")]
    Section(String, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn providers(toml: &str) -> Result<Providers, ProviderError> {
        let sections: BTreeMap<String, ProviderConfig> = toml::from_str(toml).unwrap();
        let mut providers = Providers::new(Path::new("/base"));
        for (name, section) in sections {
            providers.configure(&name, section)?;
        }
        Ok(providers)
    }

    fn kind(word: &str) -> Result<ProviderKind, ProviderError> {
        Providers::new(Path::new("/base"))
            .find(word)
            .map(|found| found.kind)
    }

    #[test]
    fn the_words_of_the_specification_are_understood() {
        assert_eq!(kind("claude"), Ok(ProviderKind::Claude));
        assert_eq!(kind("codex"), Ok(ProviderKind::Codex));
        assert_eq!(kind("mcp-codex"), Ok(ProviderKind::Codex));
        assert_eq!(kind("gemini"), Ok(ProviderKind::Gemini));
        assert_eq!(kind("mcp-gemini"), Ok(ProviderKind::Gemini));
        assert_eq!(
            kind("command:make a:b"),
            Ok(ProviderKind::Command("make a:b".into()))
        );
        assert_eq!(
            kind("scripted:d/x.toml"),
            Ok(ProviderKind::Scripted("/base/d/x.toml".into()))
        );
        assert_eq!(
            kind("scripted:/x.toml"),
            Ok(ProviderKind::Scripted("/x.toml".into()))
        );
        assert_eq!(kind("claude-native"), Err(ProviderError::Native));
        assert_eq!(
            kind("claude:x"),
            Err(ProviderError::NoArgument("claude".into()))
        );
        assert_eq!(
            kind("command: "),
            Err(ProviderError::NeedsArgument("command".into()))
        );
        assert_eq!(
            kind("codec").unwrap_err().to_string(),
            "unknown provider `codec`; known are claude, codex, gemini, command:… and scripted:…"
        );
    }

    #[test]
    fn a_section_makes_a_provider_or_changes_a_built_in_one() {
        let providers = providers(
        "[aider]\nkind = 'command'\ncommand = 'aider --yes'\ncapabilities = ['code-edit']\n\
         secrets = ['OPENAI_API_KEY']\n[claude]\nmodel = 'opus'\n[fast]\nkind = 'claude'\nmodel = 'haiku'",
    )
    .unwrap();
        let aider = providers.find("aider").unwrap();
        assert_eq!(aider.kind, ProviderKind::Command("aider --yes".into()));
        assert_eq!(aider.capabilities, ["code-edit"]);
        assert_eq!(aider.secrets, ["OPENAI_API_KEY"]);
        assert_eq!(aider.driver().provider(), "command");
        let claude = providers.find("claude").unwrap();
        assert_eq!(claude.model.as_deref(), Some("opus"));
        assert_eq!(claude.capabilities, ["code-edit", "testing", "general"]);
        assert_eq!(
            providers.find("fast").unwrap().model.as_deref(),
            Some("haiku")
        );
        assert_eq!(
            providers.names(),
            ["aider", "claude", "codex", "fast", "gemini"]
        );
    }

    #[test]
    fn a_section_that_makes_no_sense_is_refused() {
        for (toml, says) in [
            ("[x]\nkind = 'command'", "needs `command`"),
            ("[x]\ncommand = 'a'", "`kind` must be"),
            ("[x]\nkind = 'claude'\ncommand = 'a'", "for other kinds"),
            ("[x]\nkind = 'scripted'\ncommand = 'a'", "needs `file`"),
            ("['a b']\nkind = 'claude'", "not a valid name"),
            (
                "[x]\nkind = 'command'\ncommand = 'a'\nsecrets = ['HOME']",
                "not withheld",
            ),
        ] {
            let error = providers(toml).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn the_command_line_defines_providers_too() {
        let mut providers = Providers::new(Path::new("/base"));
        providers.define("mine=command:x=1 make").unwrap();
        providers.define("demo=scripted:a.toml").unwrap();
        providers.define("second=codex").unwrap();
        assert_eq!(
            providers.find("mine").unwrap().kind,
            ProviderKind::Command("x=1 make".into())
        );
        assert_eq!(
            providers.find("demo").unwrap().kind,
            ProviderKind::Scripted("/base/a.toml".into())
        );
        assert_eq!(providers.find("second").unwrap().kind, ProviderKind::Codex);
        for wrong in ["mine", "=command:x", "a=nothing", "a=command:"] {
            assert!(providers.define(wrong).is_err(), "{wrong}");
        }
    }
}
