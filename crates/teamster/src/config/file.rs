//! One settings file, with the line of each value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use teamster_fs::{Dir, FsError};
use toml::de::{DeTable, DeValue};

use super::{Problem, at};

/// A value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Raw {
    /// Text, from a file or a variable.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// Anything else, by the name of its type.
    Other(&'static str),
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Other(kind) => f.write_str(kind),
        }
    }
}

/// What a settings file says. One that is not there says nothing.
#[derive(Debug)]
pub(super) struct SettingsFile {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Why it cannot be understood.
    pub(super) problems: Vec<Problem>,
    values: BTreeMap<String, (Raw, usize)>,
}

impl SettingsFile {
    /// Reads a file. Links are followed only where the user keeps them: a project comes from elsewhere.
    pub(super) fn read(path: &Path, follow: bool) -> Self {
        let mut file = Self {
            path: path.to_owned(),
            problems: Vec::new(),
            values: BTreeMap::new(),
        };
        let real = follow.then(|| path.canonicalize().ok()).flatten();
        match content(real.as_deref().unwrap_or(path)) {
            Ok(None) => {}
            Ok(Some(text)) => file.parse(&text),
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
                DeValue::Table(inner) if section.is_empty() => {
                    self.take(text, key.get_ref(), inner);
                    continue;
                }
                DeValue::String(text) => Raw::Text(text.to_string()),
                DeValue::Boolean(flag) => Raw::Flag(*flag),
                other => Raw::Other(other.type_str()),
            };
            let name = match section {
                "" => key.get_ref().to_string(),
                section => format!("{section}.{}", key.get_ref()),
            };
            self.values.insert(name, (raw, line));
        }
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
        Err(error) if matches!(error.problem, teamster_fs::Problem::NotA("folder")) => Ok(None),
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
