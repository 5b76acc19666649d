//! Putting an item behind the last one, taking one out, writing another text in the place of one.

use std::ops::Range;

use serde_json::Value;

use super::scan::Node;
use super::style::{Layout, Style, layout, line_indent};

/// What is put in: a member of an object, or an element of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) key: Option<&'a String>,
    pub(crate) value: &'a Value,
}

/// The text with an item behind the last one of `node`, in the style of its neighbours.
///
/// `parent` is what `node` stands in, which decides for an empty one whether it opens up.
pub(crate) fn append(
    text: &str,
    style: &Style,
    node: &Node,
    parent: Option<&Node>,
    item: Item<'_>,
) -> String {
    let mut new = String::new();
    let items = node.items();
    let Some(last) = items.last() else {
        let opens = parent.is_none_or(|parent| layout(text, parent) != Layout::Inline);
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
        Layout::Lines(indent) => {
            new.push(',');
            new.push_str(style.newline);
            new.push_str(&indent);
            write(style, item, Some(&indent), &mut new);
        }
        Layout::Hugging(indent) => {
            new.push_str(", ");
            write(style, item, Some(&indent), &mut new);
        }
        Layout::Inline => {
            match items.len().checked_sub(2).map(|before| items[before].end) {
                Some(before) => new.push_str(&text[before..last.start]),
                None => new.push_str(style.comma()),
            }
            write(style, item, None, &mut new);
        }
    }
    put(text, last.end..last.end, &new)
}

fn write(style: &Style, item: Item<'_>, indent: Option<&str>, text: &mut String) {
    style.key(item.key, text);
    match indent {
        Some(indent) => style.over_lines(item.value, indent, text),
        None => style.on_one_line(item.value, text),
    }
}

/// The text without the item `at` of `node`, which must have others: exactly what [`append`] put in, comma and all.
pub(crate) fn remove(text: &str, node: &Node, at: usize) -> String {
    let items = node.items();
    let range = match (at.checked_sub(1), items.get(at + 1)) {
        (Some(before), _) => items[before].end..items[at].end,
        (None, Some(next)) => items[at].start..next.start,
        (None, None) => items[at].clone(),
    };
    put(text, range, "")
}

/// The text with another text in the place of `range`.
pub(crate) fn put(text: &str, range: Range<usize>, new: &str) -> String {
    let mut whole = String::with_capacity(text.len() + new.len());
    whole.push_str(&text[..range.start]);
    whole.push_str(new);
    whole.push_str(&text[range.end..]);
    whole
}
