//! Reading a map whose keys are known: what is missing, misspelt or of another kind is a fault, and reading goes on.

use super::{Fault, Node, Value};

/// A map that is being read.
pub(crate) struct Form<'a> {
    node: &'a Node,
    /// What it is called in messages.
    who: String,
}

/// A text and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl<'a> Form<'a> {
    /// Takes a map for `who`; `None` and a fault when it is none.
    pub(crate) fn new(
        node: &'a Node,
        who: impl Into<String>,
        faults: &mut Vec<Fault>,
    ) -> Option<Self> {
        let who = who.into();
        if matches!(node.value, Value::Map(_)) {
            return Some(Self { node, who });
        }
        let message = format!("{who} is {}, not a table of keys and values", node.kind());
        faults.push(Fault::new(node.line, message));
        None
    }

    /// A misspelt `blockedBy` would quietly let a task run too early, so every key must be known.
    pub(crate) fn known(&self, keys: &[&str], faults: &mut Vec<Fault>) {
        let Value::Map(entries) = &self.node.value else {
            return;
        };
        for (key, _) in entries {
            if !keys.contains(&key.name.as_str()) {
                let message = format!(
                    "{} has the unknown key `{}`; known are {}",
                    self.who,
                    key.name,
                    keys.join(", ")
                );
                faults.push(Fault::new(key.line, message));
            }
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.node.get(key)
    }

    /// Where a key stands, else where the map begins.
    pub(crate) fn line_of(&self, key: &str) -> usize {
        self.get(key).map_or(self.node.line, |node| node.line)
    }

    /// A text.
    pub(crate) fn text(&self, key: &str, faults: &mut Vec<Fault>) -> Option<Line> {
        let node = self.get(key)?;
        if let Value::Text(text) = &node.value {
            return Some(Line {
                line: node.line,
                text: text.clone(),
            });
        }
        faults.push(self.other(key, node, "a text"));
        None
    }

    /// A text that must be there and say something.
    pub(crate) fn needed(&self, key: &str, faults: &mut Vec<Fault>) -> Option<Line> {
        if self.get(key).is_none() {
            faults.push(Fault::new(
                self.node.line,
                format!("{} has no `{key}`", self.who),
            ));
            return None;
        }
        self.text(key, faults).filter(|found| {
            let is_empty = found.text.trim().is_empty();
            if is_empty {
                let message = format!("{} has an empty `{key}`", self.who);
                faults.push(Fault::new(found.line, message));
            }
            !is_empty
        })
    }

    /// A list, as it is.
    pub(crate) fn list(&self, key: &str, faults: &mut Vec<Fault>) -> Option<&'a [Node]> {
        let node = self.get(key)?;
        if let Value::List(list) = &node.value {
            return Some(list);
        }
        faults.push(self.other(key, node, "a list"));
        None
    }

    fn other(&self, key: &str, node: &Node, wanted: &str) -> Fault {
        let message = format!(
            "{} has a `{key}` that is {}, not {wanted}",
            self.who,
            node.kind()
        );
        Fault::new(node.line, message)
    }

    /// A list of texts; a number counts as its digits, because planners like to number things.
    pub(crate) fn texts(&self, key: &str, faults: &mut Vec<Fault>) -> Vec<Line> {
        let mut found = Vec::new();
        for node in self.list(key, faults).unwrap_or_default() {
            match &node.value {
                Value::Text(text) | Value::Number(text) if !text.trim().is_empty() => {
                    found.push(Line {
                        line: node.line,
                        text: text.clone(),
                    });
                }
                Value::Text(_) => {
                    let message = format!("{} has an empty text in `{key}`", self.who);
                    faults.push(Fault::new(node.line, message));
                }
                _ => {
                    let message =
                        format!("{} has {} in `{key}`, not a text", self.who, node.kind());
                    faults.push(Fault::new(node.line, message));
                }
            }
        }
        found
    }
}
