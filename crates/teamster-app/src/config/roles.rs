//! `[roles]`: the agents for the roles of a team. The project's entry replaces the user's entry of the same name.

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

/// Names that already denote providers, like those of clients, and so cannot be names of roles.
const TAKEN: [&str; 3] = ["claude-native", "command", "scripted"];
const SCRIPTED: &str = "scripted:";

/// A configured role.
#[derive(Clone, Debug)]
pub struct RoleSetting {
    /// Its name.
    pub name: String,
    /// Its provider, as for `worker start --provider`.
    pub provider: String,
    /// The model, if it differs from the provider's.
    pub model: Option<String>,
    /// The source of the definition.
    pub source: SettingSource,
}

/// A role as a table; a role that is a string is the name of its provider.
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
    /// Returns the roles of both files; an invalid one becomes a problem with its line.
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
                        role.provider = resolve_script(layout.user_folder(), &role.provider);
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

/// Resolves the path of a script against `base`. An unresolved path would be looked up in the project, but scripts
/// named in the user's own files are in the user's folder.
pub fn resolve_script(base: &Path, word: &str) -> String {
    match word.strip_prefix(SCRIPTED) {
        Some(file) => format!("{SCRIPTED}{}", base.join(file).display()),
        None => word.to_owned(),
    }
}

/// Reads a role, whose name must not be taken.
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
