//! TOML as a tree with lines.

use std::collections::HashSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{DEEPEST, DocumentKey, DocumentNode, DocumentValue, Fault, LineStarts, add, too_deep};

pub(super) fn parse(text: &str) -> Result<DocumentNode, Fault> {
    let lines = LineStarts::of(text.as_bytes());
    let table = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let said = error.message().lines().collect::<Vec<_>>().join("; ");
        Fault::new(lines.at(start), format!("not valid TOML: {said}"))
    })?;
    lines.map(table.get_ref(), 1, 0)
}

impl LineStarts {
    fn map(&self, table: &DeTable<'_>, line: usize, depth: usize) -> Result<DocumentNode, Fault> {
        let mut places: Vec<(usize, DocumentKey, &Spanned<DeValue<'_>>)> = table
            .iter()
            .map(|(key, value)| {
                let start = key.span().start;
                let key = DocumentKey {
                    line: self.at(start),
                    name: key.get_ref().to_string(),
                };
                (start, key, value)
            })
            .collect();
        // The parser sorts by name, but messages follow the order of the file.
        places.sort_by_key(|(start, ..)| *start);
        let (mut entries, mut seen) = (Vec::new(), HashSet::new());
        for (_, key, value) in places {
            let value = self.node(value, depth + 1)?;
            add(&mut entries, &mut seen, key, value)?;
        }
        Ok(DocumentNode {
            line,
            value: DocumentValue::Map(entries),
        })
    }

    fn node(&self, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<DocumentNode, Fault> {
        let line = self.at(value.span().start);
        if depth > DEEPEST {
            return Err(too_deep(line));
        }
        let value = match value.get_ref() {
            DeValue::String(text) => DocumentValue::Text(text.to_string()),
            // Integers are normalised to decimal digits; one that is too large for our types is kept as written.
            DeValue::Integer(number) => DocumentValue::Number(
                i128::from_str_radix(number.as_str(), number.radix())
                    .map_or_else(|_| number.to_string(), |number| number.to_string()),
            ),
            DeValue::Float(number) => DocumentValue::Number(number.as_str().replace('_', "")),
            DeValue::Boolean(answer) => DocumentValue::Bool(*answer),
            DeValue::Datetime(time) => DocumentValue::Text(time.to_string()),
            DeValue::Array(list) => DocumentValue::List(
                list.iter()
                    .map(|item| self.node(item, depth + 1))
                    .collect::<Result<_, _>>()?,
            ),
            DeValue::Table(table) => return self.map(table, line, depth),
        };
        Ok(DocumentNode { line, value })
    }
}
