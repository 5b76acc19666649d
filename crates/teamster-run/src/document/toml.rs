//! TOML as a tree with lines.

use std::collections::HashSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{DEEPEST, Fault, Key, Node, Value, add, line_at, too_deep};

pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let table = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let said = error.message().lines().collect::<Vec<_>>().join("; ");
        Fault::new(line(text, start), format!("not valid TOML: {said}"))
    })?;
    let mut root = map(text, table.get_ref(), 1, 0)?;
    root.line = 1;
    Ok(root)
}

fn line(text: &str, offset: usize) -> usize {
    line_at(text.as_bytes().get(..offset).unwrap_or(text.as_bytes()))
}

fn map(text: &str, table: &DeTable<'_>, at: usize, depth: usize) -> Result<Node, Fault> {
    let mut places: Vec<(usize, Key, &Spanned<DeValue<'_>>)> = table
        .iter()
        .map(|(key, value)| {
            let start = key.span().start;
            let key = Key {
                line: line(text, start),
                name: key.get_ref().to_string(),
            };
            (start, key, value)
        })
        .collect();
    // The parser sorts by name; people and messages go by the file.
    places.sort_by_key(|(start, ..)| *start);
    let (mut entries, mut seen) = (Vec::new(), HashSet::new());
    for (_, key, value) in places {
        let value = node(text, value, depth + 1)?;
        add(&mut entries, &mut seen, key, value)?;
    }
    Ok(Node {
        line: at,
        value: Value::Map(entries),
    })
}

fn node(text: &str, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, Fault> {
    let at = line(text, value.span().start);
    if depth > DEEPEST {
        return Err(too_deep(at));
    }
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => Value::Number(number.to_string()),
        DeValue::Float(number) => Value::Number(number.to_string()),
        DeValue::Boolean(answer) => Value::Bool(*answer),
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::Array(list) => Value::List(
            list.iter()
                .map(|item| node(text, item, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => return map(text, table, at, depth),
    };
    Ok(Node { line: at, value })
}
