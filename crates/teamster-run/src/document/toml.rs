//! TOML as a tree with lines.

use std::collections::HashSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{DEEPEST, Fault, Key, Node, Value, add, too_deep};

pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let lines = LineStarts::of(text);
    let table = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let said = error.message().lines().collect::<Vec<_>>().join("; ");
        Fault::new(lines.at(start), format!("not valid TOML: {said}"))
    })?;
    lines.map(table.get_ref(), 1, 0)
}

/// Where each line of a text begins, but for the first.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(end, _)| end + 1).collect())
    }

    /// The line of a place in the text.
    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|begin| *begin <= offset) + 1
    }

    fn map(&self, table: &DeTable<'_>, line: usize, depth: usize) -> Result<Node, Fault> {
        let mut places: Vec<(usize, Key, &Spanned<DeValue<'_>>)> = table
            .iter()
            .map(|(key, value)| {
                let start = key.span().start;
                let key = Key {
                    line: self.at(start),
                    name: key.get_ref().to_string(),
                };
                (start, key, value)
            })
            .collect();
        // The parser sorts by name; people and messages go by the file.
        places.sort_by_key(|(start, ..)| *start);
        let (mut entries, mut seen) = (Vec::new(), HashSet::new());
        for (_, key, value) in places {
            let value = self.node(value, depth + 1)?;
            add(&mut entries, &mut seen, key, value)?;
        }
        Ok(Node {
            line,
            value: Value::Map(entries),
        })
    }

    fn node(&self, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, Fault> {
        let line = self.at(value.span().start);
        if depth > DEEPEST {
            return Err(too_deep(line));
        }
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => Value::Number(number.to_string()),
            DeValue::Float(number) => Value::Number(number.to_string()),
            DeValue::Boolean(answer) => Value::Bool(*answer),
            DeValue::Datetime(time) => Value::Text(time.to_string()),
            DeValue::Array(list) => Value::List(
                list.iter()
                    .map(|item| self.node(item, depth + 1))
                    .collect::<Result<_, _>>()?,
            ),
            DeValue::Table(table) => return self.map(table, line, depth),
        };
        Ok(Node { line, value })
    }
}
