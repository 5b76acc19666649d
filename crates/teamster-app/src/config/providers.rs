//! `[providers.NAME]`: the user's names for agents. The project's section replaces the user's section of the same name
//! as a whole: a mixture of both would be a provider that no one defined.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use teamster_agents::{ProviderConfig, Providers};
use teamster_document::Fault;
use teamster_fs::layout::Layout;

use super::file::PROVIDERS;
use super::layers::Layers;
use super::{Config, SettingSource};

/// A configured provider.
#[derive(Clone, Debug)]
pub struct ProviderSetting {
    /// Its name.
    pub name: String,
    /// Its definition.
    pub section: ProviderConfig,
    /// The source of the definition.
    pub source: SettingSource,
}

impl ProviderSetting {
    /// Returns its kind: the configured one, otherwise the one that its name implies.
    pub fn kind(&self) -> &str {
        self.section.kind.as_deref().unwrap_or(&self.name)
    }

    /// Returns it in one line, as `config show` shows it.
    pub fn words(&self) -> String {
        let mut parts = vec![match (&self.section.command, &self.section.file) {
            (Some(command), _) => format!("{}:{command}", self.kind()),
            (None, Some(file)) => format!("{}:{}", self.kind(), file.display()),
            (None, None) => self.kind().to_owned(),
        }];
        if let Some(model) = &self.section.model {
            parts.push(format!("model {model}"));
        }
        if let Some(capabilities) = &self.section.capabilities {
            parts.push(format!("can {}", capabilities.join(" ")));
        }
        if !self.section.secrets.is_empty() {
            parts.push(format!("may see {}", self.section.secrets.join(" ")));
        }
        parts.join(", ")
    }

    /// Returns it as `config show --json` has it.
    pub fn json(&self) -> Value {
        json!({
            "name": self.name,
            "kind": self.kind(),
            "command": self.section.command,
            "file": self.section.file,
            "model": self.section.model,
            "capabilities": self.section.capabilities,
            "secrets": self.section.secrets,
            "source": self.source.word(),
            "from": self.source.to_string(),
        })
    }
}

impl Config {
    /// Returns every provider that is available in a project.
    pub fn providers(&self, project: &Path) -> Providers {
        all(&self.providers, project)
    }
}

/// Returns the built-in providers, and these.
pub(super) fn all(settings: &[ProviderSetting], project: &Path) -> Providers {
    let mut providers = Providers::new(project);
    for setting in settings {
        // An invalid one has already been reported as a problem.
        let _ = providers.configure(&setting.name, setting.section.clone());
    }
    providers
}

impl Layers {
    /// Returns the providers of both files; an invalid one becomes a problem with its line.
    pub(super) fn providers(&mut self, layout: &Layout) -> Vec<ProviderSetting> {
        let mut found = BTreeMap::new();
        let user_folder = layout.user_config.parent().unwrap_or(Path::new("/"));
        for file in [&self.user, &self.project] {
            // A relative path is resolved from the project, or from the folder of the user's settings.
            let base = if file.is_project {
                &layout.project
            } else {
                user_folder
            };
            for (key, node) in file.sections(PROVIDERS) {
                let mut faults = Vec::new();
                let who = format!("`{PROVIDERS}.{}`", key.name);
                let read = node.read::<ProviderConfig>(&who, &mut faults);
                let configured = read.and_then(|mut section| {
                    section.file = section.file.map(|name| base.join(name));
                    let tried = Providers::new(base).configure(&key.name, section.clone());
                    tried
                        .map(|()| section)
                        .map_err(|error| faults.push(Fault::new(key.line, error.to_string())))
                        .ok()
                });
                self.problems
                    .extend(faults.into_iter().map(|fault| file.problem(fault)));
                if let Some(section) = configured {
                    let setting = ProviderSetting {
                        name: key.name.clone(),
                        section,
                        source: file.source(key.line),
                    };
                    found.insert(key.name.clone(), setting);
                }
            }
        }
        found.into_values().collect()
    }
}
