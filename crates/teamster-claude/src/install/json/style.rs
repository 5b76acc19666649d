//! How a text is written, and new values written in the same way.

use std::fmt::Write as _;

use serde_json::Value;

use super::scan::Node;

/// The habits of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) newline: &'static str,
    pub(crate) unit: String,
    pub(crate) colon: String,
}

/// How the items of one object or array stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Each on a line of its own, with this indentation.
    Lines(String),
    /// The first behind the bracket, and each over several lines, as in `[{ … }, { … }]`.
    Hugging(String),
    /// All on one line.
    Inline,
}

impl Style {
    /// The habits of the whole text, read from its first member.
    pub(crate) fn of(text: &str, root: &Node) -> Self {
        let newline = match text.find('\n') {
            Some(at) if text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        };
        let first = root.members().and_then(<[_]>::first);
        let colon = first
            .map(|member| &text[member.key_span.end..member.value.span.start])
            .filter(|colon| !colon.contains('\n'));
        let unit = match layout(text, root) {
            Layout::Lines(indent) => {
                let outer = line_indent(text, root.span.start);
                let unit = indent.strip_prefix(outer.as_str()).unwrap_or(&indent);
                Some(unit.to_owned()).filter(|unit| !unit.is_empty())
            }
            Layout::Hugging(_) | Layout::Inline => None,
        };
        Self {
            newline,
            unit: unit.unwrap_or_else(|| "  ".to_owned()),
            colon: colon.unwrap_or(": ").to_owned(),
        }
    }

    /// What separates two items on one line.
    pub(crate) fn comma(&self) -> &'static str {
        if self.colon.ends_with(' ') { ", " } else { "," }
    }

    /// A value, over several lines.
    pub(crate) fn over_lines(&self, value: &Value, indent: &str, text: &mut String) {
        let inner = format!("{indent}{}", self.unit);
        let items: Vec<(Option<&String>, &Value)> = match value {
            Value::Object(members) => members.iter().map(|(k, v)| (Some(k), v)).collect(),
            Value::Array(elements) => elements.iter().map(|v| (None, v)).collect(),
            _ => Vec::new(),
        };
        if items.is_empty() {
            let _ = write!(text, "{value}");
            return;
        }
        let (open, close) = brackets(value);
        text.push(open);
        for (at, (key, value)) in items.into_iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(self.newline);
            text.push_str(&inner);
            self.key(key, text);
            self.over_lines(value, &inner, text);
        }
        text.push_str(self.newline);
        text.push_str(indent);
        text.push(close);
    }

    /// A value on one line.
    pub(crate) fn on_one_line(&self, value: &Value, text: &mut String) {
        let items: Vec<(Option<&String>, &Value)> = match value {
            Value::Object(members) => members.iter().map(|(k, v)| (Some(k), v)).collect(),
            Value::Array(elements) => elements.iter().map(|v| (None, v)).collect(),
            other => {
                let _ = write!(text, "{other}");
                return;
            }
        };
        let (open, close) = brackets(value);
        text.push(open);
        for (at, (key, value)) in items.into_iter().enumerate() {
            if at > 0 {
                text.push_str(self.comma());
            }
            self.key(key, text);
            self.on_one_line(value, text);
        }
        text.push(close);
    }

    /// A key with its colon.
    pub(crate) fn key(&self, key: Option<&String>, text: &mut String) {
        if let Some(key) = key {
            let _ = write!(text, "{}{}", Value::from(key.as_str()), self.colon);
        }
    }
}

fn brackets(value: &Value) -> (char, char) {
    if value.is_object() {
        ('{', '}')
    } else {
        ('[', ']')
    }
}

/// How the items of an object or array stand. An empty one stands on one line.
pub(crate) fn layout(text: &str, node: &Node) -> Layout {
    let items = node.items();
    let mut gap_start = node.span.start + 1;
    let mut lines = None;
    for item in &items {
        let gap = &text[gap_start..item.start];
        if let Some(newline) = gap.rfind('\n') {
            let indent = &gap[newline + 1..];
            // A comma may stand in front of its item.
            lines = Some(indent.split(',').next().unwrap_or(indent).to_owned());
        }
        gap_start = item.end;
    }
    match (lines, items.last()) {
        (Some(indent), _) => Layout::Lines(indent),
        (None, Some(last)) if text[node.span.clone()].contains('\n') => {
            Layout::Hugging(line_indent(text, last.start))
        }
        _ => Layout::Inline,
    }
}

/// The white space at the beginning of the line that `at` is on.
pub(crate) fn line_indent(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    text[start..]
        .chars()
        .take_while(|c| matches!(c, ' ' | '\t'))
        .collect()
}
