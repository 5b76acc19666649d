//! `[roles]`: which agent a role of a team stands for. The project's entry of a name replaces the user's.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use teamster_agents::Client;
use teamster_document::{DocumentKey, DocumentNode, Fault, TextOr};
use teamster_fs::layout::Layout;
use teamster_run::request::check_word;

use super::file::ROLES;
use super::layers::Layers;
use super::providers::all;
use super::{ProviderSetting, SettingSource};

/// Words that, as those of clients, mean a provider wherever one is named, so that they cannot mean anything else.
const TAKEN: [&str; 3] = ["claude-native", "command", "scripted"];
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
    pub source: SettingSource,
}

/// A role as a table; a role that is a text is the name of its provider.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleTable {
    provider: String,
    model: Option<String>,
}

impl RoleSetting {
    /// Returns it in one line, as `config show` shows it.
    pub fn words(&self) -> String {
        match &self.model {
            Some(model) => format!("{}, model {model}", self.provider),
            None => self.provider.clone(),
        }
    }

    /// Returns it as `config show --json` has it.
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
        for file in [&self.user, &self.project] {
            for (key, node) in file.sections(ROLES) {
                let mut faults = Vec::new();
                let read = read(key, node, &mut faults).and_then(|mut role| {
                    if !file.is_project {
                        role.provider = seen_from(layout.user_folder(), &role.provider);
                    }
                    let provider = known.find(&role.provider);
                    provider
                        .map(|_| role)
                        .map_err(|error| {
                            let why = format!("`{ROLES}.{}`: {error}", key.name);
                            faults.push(Fault::new(key.line, why));
                        })
                        .ok()
                });
                self.problems
                    .extend(faults.into_iter().map(|fault| file.problem(fault)));
                if let Some(role) = read {
                    let setting = RoleSetting {
                        name: key.name.clone(),
                        provider: role.provider,
                        model: role.model,
                        source: file.source(key.line),
                    };
                    found.insert(key.name.clone(), setting);
                }
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

/// Reads a role, whose name must not mean anything else.
fn read(key: &DocumentKey, node: &DocumentNode, faults: &mut Vec<Fault>) -> Option<RoleTable> {
    let name = &key.name;
    let wrong = if TAKEN.contains(&name.as_str()) || Client::find(name).is_some() {
        let error =
            format!("`{ROLES}.{name}`: {name} is a provider, and cannot stand for another one");
        Err(error)
    } else {
        check_word(name, "role")
    };
    if let Err(why) = wrong {
        faults.push(Fault::new(key.line, why));
        return None;
    }
    match node.read(&format!("`{ROLES}.{name}`"), faults)? {
        TextOr::Table(role) => Some(role),
        TextOr::Text(provider) => Some(RoleTable {
            provider,
            model: None,
        }),
    }
}
