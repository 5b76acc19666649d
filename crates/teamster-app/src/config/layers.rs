//! The layers of the settings: variables over the project's file over the user's file.

use teamster_document::DocumentValue;
use teamster_fs::layout::Layout;

use super::file::SettingsFile;
use super::value::format_value;
use super::{ConfigProblem, KEYS, Setting, SettingKey, SettingSource, at};
use crate::env_vars;

pub(super) struct Layers {
    pub(super) project: SettingsFile,
    pub(super) user: SettingsFile,
    pub(super) problems: Vec<ConfigProblem>,
}

impl Layers {
    pub(super) fn read(layout: &Layout) -> Self {
        Self {
            project: SettingsFile::read(&layout.project_config, true),
            user: SettingsFile::read(&layout.user_config, false),
            problems: Vec::new(),
        }
    }

    pub(super) fn name_unknown_keys(&mut self) {
        for file in [&self.project, &self.user] {
            self.problems.extend(file.problems.iter().cloned());
            for (name, line) in file.names() {
                let section = name.split('.').next();
                let is_ours = KEYS.iter().any(|key| key.is_called(&name));
                let near = KEYS
                    .iter()
                    .find(|key| key.name.split('.').next() == section)
                    .map_or_else(String::new, |key| format!("; did you mean `{}`?", key.name));
                if !is_ours {
                    self.problems.push(ConfigProblem {
                        place: at(&file.path, line),
                        error: format!("unknown setting `{name}`{near}"),
                        fatal: false,
                    });
                }
            }
        }
    }

    /// Returns a text that only a variable or the user's own file may set. The project's file is not trusted, and could
    /// direct the user's team to another server. The text may be a secret, so no problem report contains it.
    pub(super) fn find_own<T>(
        &mut self,
        key: SettingKey,
        read: impl FnOnce(String) -> T,
    ) -> Setting<Option<T>> {
        if let Some((_, line)) = self.project.get(key.name) {
            self.problems.push(ConfigProblem {
                place: at(&self.project.path, line),
                error: format!(
                    "`{}` is ignored in the settings of a project; set it in your own settings or with {}",
                    key.name, key.variable
                ),
                fatal: false,
            });
        }
        let variable = env_vars::text(key.variable).map(|text| {
            let source = SettingSource::Variable(key.variable);
            (DocumentValue::Text(text), source)
        });
        let of_user = || {
            let (value, line) = self.user.get(key.name)?;
            Some((value, self.user.source(line)))
        };
        match variable.or_else(of_user) {
            Some((DocumentValue::Text(text), source)) => Setting {
                value: Some(read(text)),
                source,
            },
            Some((_, source)) => {
                self.problems.push(ConfigProblem {
                    place: source.to_string(),
                    error: format!("`{}` must be text", key.name),
                    fatal: true,
                });
                Setting {
                    value: None,
                    source: SettingSource::Default,
                }
            }
            None => Setting {
                value: None,
                source: SettingSource::Default,
            },
        }
    }

    /// Returns the value of the highest layer that has one.
    pub(super) fn find<T>(
        &mut self,
        key: SettingKey,
        default: T,
        parse: fn(&DocumentValue) -> Result<T, &'static str>,
    ) -> Setting<T> {
        let variable = env_vars::text(key.variable).map(|text| {
            (
                DocumentValue::Text(text),
                SettingSource::Variable(key.variable),
            )
        });
        let mut files = [&self.project, &self.user].into_iter();
        let of_file = |file: &SettingsFile| {
            let is_section = |value: &DocumentValue| matches!(value, DocumentValue::Map(_));
            let (value, line) = match (file.get(key.name)?, key.in_section) {
                ((value, _), Some(name)) if is_section(&value) => file.get(name)?,
                (found, _) => found,
            };
            Some((value, file.source(line)))
        };
        if let Some((value, source)) = variable.or_else(|| files.find_map(of_file)) {
            match parse(&value) {
                Ok(value) => return Setting { value, source },
                Err(expected) => self.problems.push(ConfigProblem {
                    place: source.to_string(),
                    error: format!(
                        "`{}` is {}, expected {expected}",
                        key.name,
                        format_value(&value)
                    ),
                    fatal: true,
                }),
            }
        }
        Setting {
            value: default,
            source: SettingSource::Default,
        }
    }
}
