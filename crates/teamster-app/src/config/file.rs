//! One settings file, with the line of each value.

use std::path::{Path, PathBuf};

use teamster_document::{DocumentFormat, DocumentKey, DocumentNode, DocumentValue, Fault, parse};
use teamster_fs::{Dir, FsError};

use super::{ConfigProblem, SettingSource, at};

/// The tables whose keys are chosen by the user.
pub(super) const PROVIDERS: &str = "providers";
pub(super) const ROLES: &str = "roles";

/// The content of a settings file. A missing file has no content.
#[derive(Debug)]
pub(super) struct SettingsFile {
    /// Its path.
    pub(super) path: PathBuf,
    /// Why it cannot be parsed.
    pub(super) problems: Vec<ConfigProblem>,
    /// The content as it was read.
    pub(super) bytes: Option<Vec<u8>>,
    /// Whether it is the project's file, which is not trusted, rather than the user's own.
    pub(super) is_project: bool,
    root: DocumentNode,
}

impl SettingsFile {
    fn empty(path: &Path, is_project: bool) -> Self {
        Self {
            path: path.to_owned(),
            problems: Vec::new(),
            bytes: None,
            is_project,
            root: DocumentNode {
                line: 1,
                value: DocumentValue::Map(Vec::new()),
            },
        }
    }

    /// Reads a file. Links are followed only for the user's own file, because a project is not trusted.
    pub(super) fn read(path: &Path, is_project: bool) -> Self {
        let mut file = Self::empty(path, is_project);
        let real = match path.canonicalize() {
            Ok(real) if !is_project => real,
            // Any problem with it is reported when it is read.
            _ => path.to_owned(),
        };
        match content(&real) {
            Ok(None) => {}
            Ok(Some(text)) => {
                file.parse(&text);
                file.bytes = Some(text.into_bytes());
            }
            Err(error) => file.problems.push(ConfigProblem {
                place: path.display().to_string(),
                error,
                fatal: true,
            }),
        }
        file
    }

    fn parse(&mut self, text: &str) {
        match parse(DocumentFormat::Toml, text) {
            Ok(root) => self.root = root,
            Err(fault) => self.problems.push(self.problem(fault)),
        }
    }

    /// Returns a fault as a problem of this file. An unknown key is not fatal.
    pub(super) fn problem(&self, fault: Fault) -> ConfigProblem {
        ConfigProblem {
            place: at(&self.path, fault.line),
            error: fault.message,
            fatal: !fault.is_unknown_key,
        }
    }

    /// Returns a line of this file as the source of a setting.
    pub(super) fn source(&self, line: usize) -> SettingSource {
        if self.is_project {
            SettingSource::Project(self.path.clone(), line)
        } else {
            SettingSource::User(self.path.clone(), line)
        }
    }

    /// Returns the entries of a table whose keys are chosen by the user.
    pub(super) fn sections(
        &self,
        table: &str,
    ) -> impl Iterator<Item = &(DocumentKey, DocumentNode)> {
        self.root.get(table).into_iter().flat_map(entries)
    }

    /// Returns the name of every setting, with its line. Settings are nested at most two levels deep.
    pub(super) fn names(&self) -> Vec<(String, usize)> {
        let mut names = Vec::new();
        for (section, node) in entries(&self.root) {
            match &node.value {
                DocumentValue::Map(_) if [PROVIDERS, ROLES].contains(&section.name.as_str()) => {}
                DocumentValue::Map(inner) => names.extend(
                    inner
                        .iter()
                        .map(|(key, _)| (format!("{}.{}", section.name, key.name), key.line)),
                ),
                _ => names.push((section.name.clone(), section.line)),
            }
        }
        names
    }

    /// Returns the value of a setting, and its line.
    pub(super) fn get(&self, name: &str) -> Option<(DocumentValue, usize)> {
        let mut node = Some(&self.root);
        for word in name.split('.') {
            node = node.and_then(|node| node.get(word));
        }
        node.map(|node| (node.value.clone(), node.line))
    }
}

fn entries(node: &DocumentNode) -> &[(DocumentKey, DocumentNode)] {
    match &node.value {
        DocumentValue::Map(entries) => entries,
        _ => &[],
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
        // The folder is something else, so there is no settings file; the store reports the rest.
        Err(error) if matches!(error.problem, teamster_fs::FsProblem::NotA("folder")) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> SettingsFile {
        let mut file = SettingsFile::empty(Path::new("config.toml"), true);
        file.parse(text);
        file
    }

    #[test]
    fn each_value_knows_its_line_however_it_is_written() {
        let file = parsed("top = 1\n\n[claim]\n# why\nlease = \"5s\"\nstore.durable = false\n");
        let names = file.names();
        let names: Vec<(&str, usize)> = names
            .iter()
            .map(|(name, line)| (name.as_str(), *line))
            .collect();
        assert_eq!(names, [("top", 1), ("claim.lease", 5), ("claim.store", 6)]);
        let dotted = parsed("store.durable = false");
        let flag = DocumentValue::Bool(false);
        assert_eq!(dotted.get("store.durable"), Some((flag, 1)));
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
