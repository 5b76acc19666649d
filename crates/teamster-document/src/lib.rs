//! Files that people write: plans, presets, scripts and settings, in TOML, YAML or JSON.
//!
//! # What it owns
//!
//! The parsing of such files into typed values.
//!
//! # How it works
//!
//! The three formats become one tree ([`DocumentNode`]) that records the line of every value, and
//! [`DocumentNode::read`] deserialises a type from that tree with serde. A file format is therefore a struct that
//! derives `Deserialize`: a new key is a new field.
//!
//! A reader reports as many problems of a file as it can, each [`Fault`] with its line: an unknown key, a value of the
//! wrong type, a value that its type rejects. A field that is [`Lined`] records its line, and reading continues when it
//! is invalid; an error in any other field ends the reading of its struct.
//!
//! # What it refuses
//!
//! Ambiguous input: duplicate keys, YAML aliases and tags, several documents in one file, excessive nesting. It touches no
//! files.

use std::fmt;
use std::path::Path;

mod json;
mod reader;
mod toml;
mod values;
mod yaml;

pub use values::{Lined, TextOr, Word};

/// The maximum nesting depth. No plan is nested deeper, and without a limit a malicious file could overflow the stack.
const DEEPEST: usize = 32;

/// One problem, and its line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub message: String,
    /// Whether the problem is only an unknown key, which a newer version of teamster may know.
    pub is_unknown_key: bool,
}

impl Fault {
    /// Creates a fault on a line.
    pub fn new(line: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
            is_unknown_key: false,
        }
    }
}

/// All problems of one file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults {
    /// The file, as the user named it.
    pub file: String,
    /// The problems, in line order; never empty.
    pub list: Vec<Fault>,
}

impl Faults {
    /// Sorts the faults of a file and removes duplicates.
    pub fn new(file: &Path, mut list: Vec<Fault>) -> Self {
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

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentFormat {
    /// The file is TOML.
    Toml,
    /// The file is YAML.
    Yaml,
    /// The file is JSON.
    Json,
}

impl DocumentFormat {
    /// Returns the format by the file extension, otherwise by how the text begins.
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
pub struct DocumentNode {
    /// The line, counted from 1.
    pub line: usize,
    /// The value.
    pub value: DocumentValue,
}

/// A value in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentValue {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, as its digits.
    Number(String),
    /// A text, without its quotes.
    Text(String),
    /// A list of values.
    List(Vec<DocumentNode>),
    /// Keys and values in the order of the file.
    Map(Vec<(DocumentKey, DocumentNode)>),
}

/// A key of a map, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentKey {
    /// The line, counted from 1.
    pub line: usize,
    /// The name of the key.
    pub name: String,
}

impl DocumentNode {
    /// Returns the type of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            DocumentValue::Null => "nothing",
            DocumentValue::Bool(_) => "true or false",
            DocumentValue::Number(_) => "a number",
            DocumentValue::Text(_) => "a text",
            DocumentValue::List(_) => "a list",
            DocumentValue::Map(_) => "a table of keys and values",
        }
    }

    /// Returns the value of a key; `None` when it is missing or null, or when this is not a map.
    pub fn get(&self, name: &str) -> Option<&DocumentNode> {
        let DocumentValue::Map(entries) = &self.value else {
            return None;
        };
        entries
            .iter()
            .find(|(key, _)| key.name == name)
            .map(|(_, node)| node)
            .filter(|node| node.value != DocumentValue::Null)
    }
}

/// Parses a file into a tree; a syntax error is one fault.
pub fn parse_file(file: &Path, bytes: &[u8]) -> Result<DocumentNode, Faults> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let fault = Fault::new(LineStarts::of(before).lines(), "this is not UTF-8 text");
        Faults::new(file, vec![fault])
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    parse(DocumentFormat::of(file, text), text).map_err(|fault| Faults::new(file, vec![fault]))
}

/// Parses a text in a known format into a tree.
pub fn parse(format: DocumentFormat, text: &str) -> Result<DocumentNode, Fault> {
    match format {
        DocumentFormat::Toml => toml::parse(text),
        DocumentFormat::Yaml => yaml::parse(text),
        DocumentFormat::Json => json::parse(text),
    }
}

/// The offsets at which the lines of a text begin, except for the first.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn of(text: &[u8]) -> Self {
        let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        Self(ends.map(|(end, _)| end + 1).collect())
    }

    /// Returns the line of an offset in the text.
    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|begin| *begin <= offset) + 1
    }

    /// Returns the number of lines.
    fn lines(&self) -> usize {
        self.0.len() + 1
    }
}

/// Adds an entry; a duplicate key is a fault.
fn add(
    entries: &mut Vec<(DocumentKey, DocumentNode)>,
    seen: &mut std::collections::HashSet<String>,
    key: DocumentKey,
    node: DocumentNode,
) -> Result<(), Fault> {
    if !seen.insert(key.name.clone()) {
        return Err(Fault::new(
            key.line,
            format!("`{}` is given twice; keep one", key.name),
        ));
    }
    entries.push((key, node));
    Ok(())
}

fn too_deep(line: usize) -> Fault {
    Fault::new(line, format!("this is nested more than {DEEPEST} deep"))
}

#[cfg(test)]
mod tests;
