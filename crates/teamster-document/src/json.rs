//! JSON as a tree with lines: `serde_json` yields each value as a slice of the original text, whose offset gives its
//! line.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{DEEPEST, DocumentKey, DocumentNode, DocumentValue, Fault, LineStarts, add, too_deep};

pub(super) fn parse(text: &str) -> Result<DocumentNode, Fault> {
    let root: &RawValue = serde_json::from_str(text).map_err(|error| invalid(&error, 1))?;
    let lines = LineStarts::of(text.as_bytes());
    Source { text, lines }.node(root, 0)
}

/// Returns the fault for a part of the text that begins on this line.
fn invalid(error: &serde_json::Error, first_line: usize) -> Fault {
    let said = error.to_string();
    // The fault states the line separately.
    let said = said.split(" at line ").next().unwrap_or_default();
    Fault::new(
        first_line + error.line().max(1) - 1,
        format!("not valid JSON: {said}"),
    )
}

/// The whole text, from which its parts are borrowed.
struct Source<'a> {
    text: &'a str,
    lines: LineStarts,
}

impl<'a> Source<'a> {
    fn line(&self, part: &'a RawValue) -> usize {
        let offset = part.get().as_ptr().addr() - self.text.as_ptr().addr();
        self.lines.at(offset)
    }

    fn node(&self, part: &'a RawValue, depth: usize) -> Result<DocumentNode, Fault> {
        let line = self.line(part);
        if depth > DEEPEST {
            return Err(too_deep(line));
        }
        let written = part.get();
        let invalid = |error| invalid(&error, line);
        let value = match written.as_bytes().first() {
            Some(b'{') => {
                let mut source = serde_json::Deserializer::from_str(written);
                let entries = source.deserialize_map(RawEntries).map_err(invalid)?;
                self.map(&entries, depth)?
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(written).map_err(invalid)?;
                let nodes = items.into_iter().map(|item| self.node(item, depth + 1));
                DocumentValue::List(nodes.collect::<Result<_, _>>()?)
            }
            Some(b'"') => DocumentValue::Text(serde_json::from_str(written).map_err(invalid)?),
            Some(b't' | b'f') => DocumentValue::Bool(written == "true"),
            Some(b'n') => DocumentValue::Null,
            _ => DocumentValue::Number(written.to_owned()),
        };
        Ok(DocumentNode { line, value })
    }

    fn map(
        &self,
        raw: &[(&'a RawValue, &'a RawValue)],
        depth: usize,
    ) -> Result<DocumentValue, Fault> {
        let (mut entries, mut seen) = (Vec::new(), HashSet::new());
        for &(key, value) in raw {
            let line = self.line(key);
            let name = serde_json::from_str(key.get()).map_err(|error| invalid(&error, line))?;
            let node = self.node(value, depth + 1)?;
            add(&mut entries, &mut seen, DocumentKey { line, name }, node)?;
        }
        Ok(DocumentValue::Map(entries))
    }
}

/// Collects every entry of an object as it is written, including duplicate keys.
struct RawEntries;

impl<'de> Visitor<'de> for RawEntries {
    type Value = Vec<(&'de RawValue, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}
