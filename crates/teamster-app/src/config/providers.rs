//! `[providers.NAME]`: what a user calls an agent. The project's section of a name replaces the user's as a whole:
//! half of one and half of another would be a provider that nobody wrote.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use teamster_agents::{ProviderConfig, Providers};
use teamster_fs::layout::Layout;

use super::file::{Raw, Section};
use super::layers::Layers;
use super::{Config, Problem, Source, at};

/// A provider of the configuration.
#[derive(Clone, Debug)]
pub struct ProviderSetting {
    /// How it is called.
    pub name: String,
    /// What was written about it.
    pub section: ProviderConfig,
    /// Where.
    pub source: Source,
}

impl ProviderSetting {
    /// Its kind: what is written, or what its name says.
    pub fn kind(&self) -> &str {
        self.section.kind.as_deref().unwrap_or(&self.name)
    }

    /// In one line, as `config show` shows it.
    pub fn words(&self) -> String {
        let mut words = vec![match (&self.section.command, &self.section.file) {
            (Some(command), _) => format!("{}:{command}", self.kind()),
            (None, Some(file)) => format!("{}:{}", self.kind(), file.display()),
            (None, None) => self.kind().to_owned(),
        }];
        if let Some(model) = &self.section.model {
            words.push(format!("model {model}"));
        }
        if let Some(capabilities) = &self.section.capabilities {
            words.push(format!("can {}", capabilities.join(" ")));
        }
        if !self.section.secrets.is_empty() {
            words.push(format!("may see {}", self.section.secrets.join(" ")));
        }
        words.join(", ")
    }

    /// As `config show --json` has it.
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
    /// Every provider that can be named in a project.
    pub fn providers(&self, project: &Path) -> Providers {
        all(&self.providers, project)
    }
}

/// Those that are built in, and these.
pub(super) fn all(settings: &[ProviderSetting], project: &Path) -> Providers {
    let mut providers = Providers::new(project);
    for setting in settings {
        // One that makes no sense is among the problems already.
        let _ = providers.configure(&setting.name, setting.section.clone());
    }
    providers
}

impl Layers {
    /// The providers of both files; whatever makes no sense is a problem with its line.
    pub(super) fn providers(&mut self, layout: &Layout) -> Vec<ProviderSetting> {
        let mut found = BTreeMap::new();
        let user_folder = layout.user_config.parent().unwrap_or(Path::new("/"));
        for (file, is_project) in [(&self.user, false), (&self.project, true)] {
            // A file is named from where the reader looks for it: the project, or the folder of the user's settings.
            let base = if is_project {
                &layout.project
            } else {
                user_folder
            };
            for section in &file.providers {
                let source = |line| {
                    if is_project {
                        Source::Project(file.path.clone(), line)
                    } else {
                        Source::User(file.path.clone(), line)
                    }
                };
                let known = self.problems.len();
                let mut configured = read(section, |line, error, fatal| {
                    self.problems.push(Problem {
                        place: at(&file.path, line),
                        error,
                        fatal,
                    });
                });
                if self.problems[known..].iter().any(|problem| problem.fatal) {
                    continue;
                }
                configured.file = configured.file.map(|name| base.join(name));
                let tried = Providers::new(base).configure(&section.name, configured.clone());
                if let Err(error) = tried {
                    self.problems.push(Problem {
                        place: at(&file.path, section.line),
                        error: error.to_string(),
                        fatal: true,
                    });
                    continue;
                }
                let setting = ProviderSetting {
                    name: section.name.clone(),
                    section: configured,
                    source: source(section.line),
                };
                found.insert(section.name.clone(), setting);
            }
        }
        found.into_values().collect()
    }
}

/// A section with what it means; `wrong` hears of a line, what is wrong there, and whether it stops everything.
fn read(section: &Section, mut wrong: impl FnMut(usize, String, bool)) -> ProviderConfig {
    let mut configured = ProviderConfig::default();
    for (key, raw, line) in &section.fields {
        let name = format!("providers.{}.{key}", section.name);
        let mut text = |into: &mut Option<String>| match raw {
            Raw::Text(text) => *into = Some(text.clone()),
            other => wrong(*line, format!("`{name}` is {other}, expected a text"), true),
        };
        match key.as_str() {
            "kind" => text(&mut configured.kind),
            "command" => text(&mut configured.command),
            "model" => text(&mut configured.model),
            "file" => {
                let mut file = None;
                text(&mut file);
                configured.file = file.map(Into::into);
            }
            "capabilities" | "secrets" => match raw {
                Raw::List(list) if key == "secrets" => configured.secrets.clone_from(list),
                Raw::List(list) => configured.capabilities = Some(list.clone()),
                other => wrong(
                    *line,
                    format!("`{name}` is {other}, expected a list of texts such as [\"testing\"]"),
                    true,
                ),
            },
            _ => wrong(
                *line,
                format!(
                    "nobody knows the setting `{name}`; a provider has kind, command, file, model, capabilities and secrets"
                ),
                false,
            ),
        }
    }
    configured
}
