//! A file that a person wrote in TOML, YAML or JSON, with the line of everything in it.
//!
//! The three formats become one tree, so what reads it is written once. Anything that would make a value depend on
//! where the reader looks is refused: a key that is there twice, an alias, a second document.

use std::fmt;
use std::path::Path;

pub(crate) mod form;
mod json;
mod toml;
mod yaml;

/// Nobody nests a plan deeper; a reader that follows a file without end would end with the file's author deciding how.
pub(crate) const DEEPEST: usize = 32;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Fault {
    /// A fault in a line.
    pub fn new(line: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
        }
    }
}

/// All that is wrong with one file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults {
    /// The file, as it was named.
    pub file: String,
    /// What is wrong, in the order of lines; never empty.
    pub list: Vec<Fault>,
}

impl Faults {
    pub(crate) fn new(file: &Path, mut list: Vec<Fault>) -> Self {
        list.sort();
        list.dedup();
        Self {
            file: file.display().to_string(),
            list,
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, fault) in self.list.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:{}: {}", self.file, fault.line, fault.message)?;
        }
        Ok(())
    }
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The format TOML.
    Toml,
    /// The format YAML.
    Yaml,
    /// The format JSON.
    Json,
}

impl Format {
    /// By the end of the file's name, else by how the text begins.
    pub fn of(file: &Path, text: &str) -> Self {
        match file.extension().and_then(|ext| ext.to_str()) {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            Some("json") => Self::Json,
            _ => Self::guess(text),
        }
    }

    fn guess(text: &str) -> Self {
        let first = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with('#'))
            .unwrap_or_default();
        let is_yaml = match (first.find(':'), first.find('=')) {
            (Some(colon), Some(equals)) => colon < equals,
            (colon, equals) => colon.is_some() && equals.is_none(),
        };
        if first.starts_with('{') {
            Self::Json
        } else if first == "---" || (is_yaml && !first.starts_with('[')) {
            Self::Yaml
        } else {
            Self::Toml
        }
    }
}

/// A value and the line where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The line, counted from 1.
    pub line: usize,
    /// What stands there.
    pub value: Value,
}

/// What can stand in such a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A number, by its digits.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values in the order of the file.
    Map(Vec<(Key, Node)>),
}

/// A key and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The line, counted from 1.
    pub line: usize,
    /// The key.
    pub name: String,
}

impl Node {
    /// What sort of value it is, in words.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "yes or no",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a table of keys and values",
        }
    }

    /// The value of a key; `None` when it is missing or nothing, or when this is no map.
    pub fn get(&self, name: &str) -> Option<&Node> {
        let Value::Map(entries) = &self.value else {
            return None;
        };
        entries
            .iter()
            .find(|(key, _)| key.name == name)
            .map(|(_, node)| node)
            .filter(|node| node.value != Value::Null)
    }
}

/// Reads a file; what is wrong with its syntax is one fault.
pub fn read(file: &Path, bytes: &[u8]) -> Result<Node, Faults> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let fault = Fault::new(line_at(before), "this is not UTF-8 text");
        Faults::new(file, vec![fault])
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    parse(Format::of(file, text), text).map_err(|fault| Faults::new(file, vec![fault]))
}

/// Reads a text in a known format.
pub fn parse(format: Format, text: &str) -> Result<Node, Fault> {
    match format {
        Format::Toml => toml::parse(text),
        Format::Yaml => yaml::parse(text),
        Format::Json => json::parse(text),
    }
}

/// The line in which the text after `before` goes on.
pub(crate) fn line_at(before: &[u8]) -> usize {
    before.split(|byte| *byte == b'\n').count()
}

/// Adds an entry; a key that is there already is a fault.
pub(crate) fn add(
    entries: &mut Vec<(Key, Node)>,
    seen: &mut std::collections::HashSet<String>,
    key: Key,
    node: Node,
) -> Result<(), Fault> {
    if !seen.insert(key.name.clone()) {
        return Err(Fault::new(
            key.line,
            format!("`{}` is there twice; keep one", key.name),
        ));
    }
    entries.push((key, node));
    Ok(())
}

pub(crate) fn too_deep(line: usize) -> Fault {
    Fault::new(line, format!("this is nested more than {DEEPEST} deep"))
}

#[cfg(test)]
mod tests;
