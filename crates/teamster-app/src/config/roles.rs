//! `[roles]`: which agent a role of a team stands for. The project's entry of a name replaces the user's.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use teamster_fs::layout::Layout;
use teamster_run::request::check_word;

use super::file::{PROVIDER, Raw, Section};
use super::layers::Layers;
use super::providers::all;
use super::{Problem, ProviderSetting, Source, at};

/// Words that mean a provider wherever one is named, so that they cannot mean anything else.
const TAKEN: [&str; 8] = [
    "claude",
    "codex",
    "gemini",
    "mcp-codex",
    "mcp-gemini",
    "claude-native",
    "command",
    "scripted",
];
const SCRIPTED: &str = "scripted:";

/// A role of the configuration.
#[derive(Clone, Debug)]
pub struct RoleSetting {
    /// How it is called.
    pub name: String,
    /// What `worker start --provider` would be told.
    pub provider: String,
    /// Which model, instead of the provider's.
    pub model: Option<String>,
    /// Where it stands.
    pub source: Source,
}

impl RoleSetting {
    /// In one line, as `config show` shows it.
    pub fn words(&self) -> String {
        match &self.model {
            Some(model) => format!("{}, model {model}", self.provider),
            None => self.provider.clone(),
        }
    }

    /// As `config show --json` has it.
    pub fn json(&self) -> Value {
        json!({
            "name": self.name,
            "provider": self.provider,
            "model": self.model,
            "source": self.source.word(),
            "from": self.source.to_string(),
        })
    }
}

impl Layers {
    /// The roles of both files; whatever makes no sense is a problem with its line.
    pub(super) fn roles(
        &mut self,
        layout: &Layout,
        providers: &[ProviderSetting],
    ) -> Vec<RoleSetting> {
        let known = all(providers, &layout.project);
        let mut found = BTreeMap::new();
        for (file, is_project) in [(&self.user, false), (&self.project, true)] {
            for section in &file.roles {
                let mut wrong = false;
                let mut role = read(section, |line, error, fatal| {
                    wrong |= fatal;
                    self.problems.push(Problem {
                        place: at(&file.path, line),
                        error,
                        fatal,
                    });
                });
                if wrong {
                    continue;
                }
                if !is_project {
                    role.provider = seen_from(layout.user_folder(), &role.provider);
                }
                if let Err(error) = known.find(&role.provider) {
                    self.problems.push(Problem {
                        place: at(&file.path, section.line),
                        error: format!("`roles.{}`: {error}", section.name),
                        fatal: true,
                    });
                    continue;
                }
                let source = if is_project {
                    Source::Project(file.path.clone(), section.line)
                } else {
                    Source::User(file.path.clone(), section.line)
                };
                found.insert(section.name.clone(), RoleSetting { source, ..role });
            }
        }
        found.into_values().collect()
    }
}

/// A script is named from where the reader looks for it. Without more it is looked for in the project; what the user's
/// own files name lies in their folder.
pub fn seen_from(base: &Path, word: &str) -> String {
    match word.strip_prefix(SCRIPTED) {
        Some(file) => format!("{SCRIPTED}{}", base.join(file).display()),
        None => word.to_owned(),
    }
}

/// A section with what it means; `wrong` hears of a line, what is wrong there, and whether it stops everything.
fn read(section: &Section, mut wrong: impl FnMut(usize, String, bool)) -> RoleSetting {
    let mut role = RoleSetting {
        name: section.name.clone(),
        provider: String::new(),
        model: None,
        source: Source::Default,
    };
    if let Err(why) = check_word(&section.name, "role") {
        wrong(section.line, why, true);
    } else if TAKEN.contains(&section.name.as_str()) {
        let error = format!(
            "`roles.{0}`: {0} is a provider, and cannot stand for another one",
            section.name
        );
        wrong(section.line, error, true);
    }
    for (key, raw, line) in &section.fields {
        let name = match key.as_str() {
            // A role that is only a text has no key of its own.
            PROVIDER if *line == section.line => format!("roles.{}", section.name),
            key => format!("roles.{}.{key}", section.name),
        };
        match (key.as_str(), raw) {
            (PROVIDER, Raw::Text(text)) => role.provider.clone_from(text),
            ("model", Raw::Text(text)) => role.model = Some(text.clone()),
            (PROVIDER | "model", other) => {
                wrong(*line, format!("`{name}` is {other}, expected a text"), true);
            }
            _ => wrong(
                *line,
                format!("nobody knows the setting `{name}`; a role has provider and model"),
                false,
            ),
        }
    }
    if section.fields.iter().all(|(key, ..)| key != PROVIDER) {
        let error = format!("`roles.{}` names no `provider`", section.name);
        wrong(section.line, error, true);
    }
    role
}
