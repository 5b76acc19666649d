//! One settings file, with the line of each value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use teamster_fs::{Dir, FsError};
use toml::de::{DeTable, DeValue};

use super::{Problem, at};

/// The table of the providers.
const PROVIDERS: &str = "providers";
/// The table of the roles.
const ROLES: &str = "roles";
/// A role that is a text is the name of its provider.
pub(super) const PROVIDER: &str = "provider";

/// A value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Raw {
    /// Text, from a file or a variable.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// A whole number that is not negative.
    Number(usize),
    /// Texts in a row.
    List(Vec<String>),
    /// Anything else, by the name of its type.
    Other(&'static str),
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(_) => f.write_str("integer"),
            Self::List(list) => write!(f, "{list:?}"),
            Self::Other(kind) => f.write_str(kind),
        }
    }
}

/// A table `[providers.NAME]` or `[roles.NAME]`.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: usize,
    /// Each key with its value and its line.
    pub(super) fields: Vec<(String, Raw, usize)>,
}

/// What a settings file says. One that is not there says nothing.
#[derive(Debug)]
pub(super) struct SettingsFile {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Why it cannot be understood.
    pub(super) problems: Vec<Problem>,
    /// Providers, in the order of their names.
    pub(super) providers: Vec<Section>,
    /// Roles, in the order of their names.
    pub(super) roles: Vec<Section>,
    /// The file as it was read.
    pub(super) bytes: Option<Vec<u8>>,
    values: BTreeMap<String, (Raw, usize)>,
}

impl SettingsFile {
    /// Reads a file. Links are followed only where the user keeps them: a project comes from elsewhere.
    pub(super) fn read(path: &Path, follow: bool) -> Self {
        let mut file = Self {
            path: path.to_owned(),
            problems: Vec::new(),
            providers: Vec::new(),
            roles: Vec::new(),
            bytes: None,
            values: BTreeMap::new(),
        };
        let real = follow.then(|| path.canonicalize().ok()).flatten();
        match content(real.as_deref().unwrap_or(path)) {
            Ok(None) => {}
            Ok(Some(text)) => {
                file.parse(&text);
                file.bytes = Some(text.into_bytes());
            }
            Err(error) => file.problems.push(Problem {
                place: path.display().to_string(),
                error,
                fatal: true,
            }),
        }
        file
    }

    fn parse(&mut self, text: &str) {
        match DeTable::parse(text) {
            Ok(table) => self.take(text, "", table.get_ref()),
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(text, span.start));
                self.problems.push(Problem {
                    place: at(&self.path, line),
                    error: format!("not valid TOML: {}", error.message()),
                    fatal: true,
                });
            }
        }
    }

    /// Settings are at most two words deep; what lies deeper belongs to a section that nobody knows here.
    fn take(&mut self, text: &str, section: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let line = line_of(text, key.span().start);
            let raw = match value.get_ref() {
                DeValue::Table(inner) if section.is_empty() && key.get_ref() == PROVIDERS => {
                    self.providers = self.sections(text, PROVIDERS, inner);
                    continue;
                }
                DeValue::Table(inner) if section.is_empty() && key.get_ref() == ROLES => {
                    self.roles = self.sections(text, ROLES, inner);
                    continue;
                }
                DeValue::Table(inner) if section.is_empty() => {
                    self.take(text, key.get_ref(), inner);
                    continue;
                }
                other => raw(other),
            };
            let name = match section {
                "" => key.get_ref().to_string(),
                section => format!("{section}.{}", key.get_ref()),
            };
            self.values.insert(name, (raw, line));
        }
    }

    /// The sections of a table in which each name is the user's own.
    fn sections(&mut self, text: &str, kind: &str, table: &DeTable<'_>) -> Vec<Section> {
        let mut sections = Vec::new();
        for (name, value) in table {
            let line = line_of(text, name.span().start);
            let fields = match value.get_ref() {
                DeValue::Table(inner) => inner
                    .iter()
                    .map(|(key, value)| {
                        let line = line_of(text, key.span().start);
                        (key.get_ref().to_string(), raw(value.get_ref()), line)
                    })
                    .collect(),
                DeValue::String(word) if kind == ROLES => {
                    vec![(PROVIDER.to_owned(), Raw::Text(word.to_string()), line)]
                }
                other => {
                    let expected = if kind == ROLES {
                        "a provider such as \"codex\", or a section with `provider` and `model`"
                    } else {
                        "a section with `kind` and what that needs"
                    };
                    self.problems.push(Problem {
                        place: at(&self.path, line),
                        error: format!(
                            "`{kind}.{}` is {}, expected {expected}",
                            name.get_ref(),
                            raw(other)
                        ),
                        fatal: true,
                    });
                    continue;
                }
            };
            sections.push(Section {
                name: name.get_ref().to_string(),
                line,
                fields,
            });
        }
        sections
    }

    /// Every key with its line.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        self.values
            .iter()
            .map(|(name, (_, line))| (name.as_str(), *line))
    }

    /// The value of a key, and its line.
    pub(super) fn get(&self, name: &str) -> Option<(Raw, usize)> {
        self.values.get(name).cloned()
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Integer(number) => {
            let parsed = usize::from_str_radix(number.as_str(), number.radix());
            parsed.map_or(Raw::Other(value.type_str()), Raw::Number)
        }
        DeValue::Array(list) => {
            let texts = list.iter().map(|item| match item.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            });
            texts
                .collect::<Option<Vec<_>>>()
                .map_or(Raw::Other("an array of more than texts"), Raw::List)
        }
        other => Raw::Other(other.type_str()),
    }
}

/// The list that a text holds, as it would stand in a file.
pub(super) fn list_of(text: &str) -> Option<Vec<String>> {
    let line = format!("list = {text}");
    let table = DeTable::parse(&line).ok()?;
    match table.get_ref().iter().next() {
        Some((_, value)) if table.get_ref().len() == 1 => match raw(value.get_ref()) {
            Raw::List(list) => Some(list),
            _ => None,
        },
        _ => None,
    }
}

fn content(path: &Path) -> Result<Option<String>, String> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(None);
    };
    let read = || -> Result<_, FsError> {
        match Dir::open_root(folder)? {
            Some(dir) => dir.read(&name.to_string_lossy()),
            None => Ok(None),
        }
    };
    match read() {
        Ok(None) => Ok(None),
        Ok(Some((bytes, _))) => String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| "it is not UTF-8 text".to_owned()),
        // Something else in the place of the folder: there is no settings file, and the store will say the rest.
        Err(error) if matches!(error.problem, teamster_fs::FsProblem::NotA("folder")) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.get(..offset).unwrap_or_default().matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> SettingsFile {
        let mut file = SettingsFile {
            path: "config.toml".into(),
            problems: Vec::new(),
            providers: Vec::new(),
            roles: Vec::new(),
            bytes: None,
            values: BTreeMap::new(),
        };
        file.parse(text);
        file
    }

    #[test]
    fn each_value_knows_its_line_however_it_is_written() {
        let file = parsed("top = 1\n\n[claim]\n# why\nlease = \"5s\"\nstore.durable = false\n");
        let names: Vec<(&str, usize)> = file.names().collect();
        assert_eq!(names, [("claim.lease", 5), ("claim.store", 6), ("top", 1)]);
        let dotted = parsed("store.durable = false");
        assert_eq!(dotted.get("store.durable"), Some((Raw::Flag(false), 1)));
    }

    #[test]
    fn what_is_no_toml_is_named_with_its_line() {
        let file = parsed("[claim]\nlease = \n");
        assert_eq!(file.problems.len(), 1);
        assert!(
            file.problems[0]
                .to_string()
                .starts_with("config.toml, line 2: not valid TOML")
        );
    }
}
