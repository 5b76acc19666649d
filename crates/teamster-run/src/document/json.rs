//! JSON as a tree with lines.
//!
//! `serde_json` decides what is valid; after that a walk over the same text only has to find where things are.

use std::collections::HashSet;

use super::{DEEPEST, Fault, Key, Node, Value, add, line_at, too_deep};

pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    serde_json::from_str::<serde_json::Value>(text).map_err(|error| {
        let said = error.to_string();
        // The line is said beside it.
        let said = said.split(" at line ").next().unwrap_or_default();
        Fault::new(error.line().max(1), format!("not valid JSON: {said}"))
    })?;
    Walk {
        text,
        at: 0,
        line: 1,
    }
    .node(0)
}

/// A place in a text that is known to be valid.
struct Walk<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Walk<'_> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn forward(&mut self, length: usize) {
        let end = (self.at + length).min(self.text.len());
        self.line += line_at(&self.text.as_bytes()[self.at..end]) - 1;
        self.at = end;
    }

    /// Over white space, commas and colons: what stands between two values of a valid text.
    fn gap(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n' | b',' | b':') {
            self.forward(1);
        }
    }

    fn node(&mut self, depth: usize) -> Result<Node, Fault> {
        self.gap();
        let line = self.line;
        if depth > DEEPEST {
            return Err(too_deep(line));
        }
        let value = match self.peek() {
            b'{' => {
                self.forward(1);
                let (mut entries, mut seen) = (Vec::new(), HashSet::new());
                loop {
                    self.gap();
                    if matches!(self.peek(), b'}' | 0) {
                        break;
                    }
                    let key = Key {
                        line: self.line,
                        name: self.string(),
                    };
                    let node = self.node(depth + 1)?;
                    add(&mut entries, &mut seen, key, node)?;
                }
                self.forward(1);
                Value::Map(entries)
            }
            b'[' => {
                self.forward(1);
                let mut list = Vec::new();
                loop {
                    self.gap();
                    if matches!(self.peek(), b']' | 0) {
                        break;
                    }
                    list.push(self.node(depth + 1)?);
                }
                self.forward(1);
                Value::List(list)
            }
            b'"' => Value::Text(self.string()),
            _ => self.word(),
        };
        Ok(Node { line, value })
    }

    fn string(&mut self) -> String {
        let begin = self.at;
        let mut escaped = false;
        let rest = self.text.as_bytes().get(begin + 1..).unwrap_or_default();
        let inner = rest
            .iter()
            .position(|byte| {
                let ends = *byte == b'"' && !escaped;
                escaped = *byte == b'\\' && !escaped;
                ends
            })
            .unwrap_or(rest.len());
        self.forward(inner + 2);
        let written = &self.text[begin..self.at];
        serde_json::from_str(written).unwrap_or_default()
    }

    fn word(&mut self) -> Value {
        let rest = &self.text[self.at..];
        let length = rest
            .find(|c: char| c.is_whitespace() || ",:]}".contains(c))
            .unwrap_or(rest.len());
        let word = rest[..length].to_owned();
        self.forward(length.max(1));
        match word.as_str() {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::Number(word),
        }
    }
}
