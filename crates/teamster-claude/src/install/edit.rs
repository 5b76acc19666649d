//! Edits JSON text in place, in the style of its neighbours: appends an item, removes one, replaces a range.
//!
//! Written by hand because removing must be the exact inverse of appending. The syntax tree of the `jsonc-parser` crate
//! (0.34) was tried: it puts a new item on separate lines whatever its neighbours do, and removing it again restored
//! only settings with every item on its own line. As a parser, with all its options strict, it accepts control
//! characters inside strings and other white space than JSON's, which the client refuses, and it refuses a byte-order
//! mark and single surrogates, which the client reads.

use std::fmt::Write as _;
use std::ops::Range;

use serde_json::Value;

use super::json::JsonNode;

/// An item to append: a member of an object, or an element of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewItem<'a> {
    pub(super) key: Option<&'a String>,
    pub(super) value: &'a Value,
}

/// Returns the text with an item appended to `node`, in the style of its neighbours.
///
/// `parent` contains `node`, and decides for an empty one whether it is expanded to several lines.
pub(super) fn append(
    text: &str,
    style: &TextStyle,
    node: &JsonNode,
    parent: Option<&JsonNode>,
    item: NewItem<'_>,
) -> String {
    let mut new = String::new();
    let items = node.items();
    let Some(last) = items.last() else {
        let opens = parent.is_none_or(|parent| layout(text, parent) != ItemLayout::Inline);
        if opens {
            let outer = line_indent(text, node.span.start);
            let indent = format!("{outer}{}", style.unit);
            new.push_str(style.newline);
            new.push_str(&indent);
            write(style, item, Some(&indent), &mut new);
            new.push_str(style.newline);
            new.push_str(&outer);
        } else {
            write(style, item, None, &mut new);
        }
        return put(text, node.span.start + 1..node.span.end - 1, &new);
    };
    match layout(text, node) {
        ItemLayout::Lines(indent) => {
            new.push(',');
            new.push_str(style.newline);
            new.push_str(&indent);
            write(style, item, Some(&indent), &mut new);
        }
        ItemLayout::Hugging(indent) => {
            new.push_str(", ");
            write(style, item, Some(&indent), &mut new);
        }
        ItemLayout::Inline => {
            match items.len().checked_sub(2).map(|before| items[before].end) {
                Some(before) => new.push_str(&text[before..last.start]),
                None => new.push_str(style.comma()),
            }
            write(style, item, None, &mut new);
        }
    }
    put(text, last.end..last.end, &new)
}

fn write(style: &TextStyle, item: NewItem<'_>, indent: Option<&str>, text: &mut String) {
    style.key(item.key, text);
    match indent {
        Some(indent) => style.over_lines(item.value, indent, text),
        None => style.on_one_line(item.value, text),
    }
}

/// Returns the text without the item `at` of `node`, which must have others: exactly the inverse of [`append`].
pub(super) fn remove(text: &str, node: &JsonNode, at: usize) -> String {
    let items = node.items();
    let range = match (at.checked_sub(1), items.get(at + 1)) {
        (Some(before), _) => items[before].end..items[at].end,
        (None, Some(next)) => items[at].start..next.start,
        (None, None) => items[at].clone(),
    };
    put(text, range, "")
}

/// Returns the text with `range` replaced by another text.
pub(super) fn put(text: &str, range: Range<usize>, new: &str) -> String {
    let mut whole = String::with_capacity(text.len() + new.len());
    whole.push_str(&text[..range.start]);
    whole.push_str(new);
    whole.push_str(&text[range.end..]);
    whole
}

/// The style of a text: line endings, indentation, and the separator between key and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextStyle {
    pub(super) newline: &'static str,
    pub(super) unit: String,
    pub(super) colon: String,
}

/// How the items of one object or array are arranged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemLayout {
    /// Each on its own line, with this indentation.
    Lines(String),
    /// The first directly after the bracket, and each over several lines, as in `[{ … }, { … }]`.
    Hugging(String),
    /// All on one line.
    Inline,
}

impl TextStyle {
    /// Detects the style of the whole text from its first member.
    pub(super) fn of(text: &str, root: &JsonNode) -> Self {
        let newline = match text.find('\n') {
            Some(at) if text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        };
        let first = root.members().and_then(<[_]>::first);
        let colon = first
            .map(|member| &text[member.key_span.end..member.value.span.start])
            .filter(|colon| !colon.contains('\n'));
        let unit = match layout(text, root) {
            ItemLayout::Lines(indent) => {
                let outer = line_indent(text, root.span.start);
                let unit = indent.strip_prefix(outer.as_str()).unwrap_or(&indent);
                Some(unit.to_owned()).filter(|unit| !unit.is_empty())
            }
            ItemLayout::Hugging(_) | ItemLayout::Inline => None,
        };
        Self {
            newline,
            unit: unit.unwrap_or_else(|| "  ".to_owned()),
            colon: colon.unwrap_or(": ").to_owned(),
        }
    }

    /// Returns the separator of two items on one line.
    pub(super) fn comma(&self) -> &'static str {
        if self.colon.ends_with(' ') { ", " } else { "," }
    }

    /// Writes a value over several lines.
    pub(super) fn over_lines(&self, value: &Value, indent: &str, text: &mut String) {
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

    /// Writes a value on one line.
    pub(super) fn on_one_line(&self, value: &Value, text: &mut String) {
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

    /// Writes a key with its colon.
    pub(super) fn key(&self, key: Option<&String>, text: &mut String) {
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

/// Returns how the items of an object or array are arranged. An empty one counts as being on one line.
pub(super) fn layout(text: &str, node: &JsonNode) -> ItemLayout {
    let items = node.items();
    let mut gap_start = node.span.start + 1;
    let mut lines = None;
    for item in &items {
        let gap = &text[gap_start..item.start];
        if let Some(newline) = gap.rfind('\n') {
            let indent = &gap[newline + 1..];
            // A comma may precede its item.
            lines = Some(indent.split(',').next().unwrap_or(indent).to_owned());
        }
        gap_start = item.end;
    }
    match (lines, items.last()) {
        (Some(indent), _) => ItemLayout::Lines(indent),
        (None, Some(last)) if text[node.span.clone()].contains('\n') => {
            ItemLayout::Hugging(line_indent(text, last.start))
        }
        _ => ItemLayout::Inline,
    }
}

/// Returns the white space at the beginning of the line that `at` is on.
pub(super) fn line_indent(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    text[start..]
        .chars()
        .take_while(|c| matches!(c, ' ' | '\t'))
        .collect()
}
