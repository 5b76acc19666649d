//! YAML as a tree with lines.
//!
//! Only what JSON can express: no aliases and anchors, no tags, one document. An unquoted word is `null`, a boolean or
//! a number only where YAML 1.2 says so; `yes` and `on` are texts.

use std::collections::HashSet;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::{DEEPEST, DocumentKey, DocumentNode, DocumentValue, Fault, add, too_deep};

pub(super) fn parse(text: &str) -> Result<DocumentNode, Fault> {
    let mut events = Events {
        parser: Parser::new_from_str(text),
        line: 1,
    };
    let mut root = DocumentNode {
        line: 1,
        value: DocumentValue::Null,
    };
    let mut documents = 0;
    loop {
        match events.next()? {
            Event::StreamEnd => return Ok(root),
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(Fault::new(
                        events.line,
                        "a second document begins here; write one file for each",
                    ));
                }
                let first = events.next()?;
                root = events.node(first, 0)?;
            }
            _ => {}
        }
    }
}

struct Events<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// The line on which the last event began.
    line: usize,
}

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<Event<'a>, Fault> {
        match self.parser.next_event() {
            None => Ok(Event::StreamEnd),
            Some(Ok((event, span))) => {
                self.line = line_of(span);
                Ok(event)
            }
            Some(Err(error)) => Err(unreadable(&error)),
        }
    }

    fn node(&mut self, event: Event<'a>, depth: usize) -> Result<DocumentNode, Fault> {
        let line = self.line;
        if depth > DEEPEST {
            return Err(too_deep(line));
        }
        let refuse = |what: &str| {
            Err(Fault::new(
                line,
                format!("{what} is not read here; write the value itself"),
            ))
        };
        let value = match event {
            Event::Alias(_) => return refuse("an alias (`*name`)"),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor > 0 =>
            {
                return refuse("an anchor (`&name`)");
            }
            Event::Scalar(.., Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => return refuse("a tag (`!name`)"),
            Event::Scalar(text, style, ..) => scalar(&text, style),
            Event::SequenceStart(..) => {
                let mut list = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd | Event::StreamEnd => break,
                        event => list.push(self.node(event, depth + 1)?),
                    }
                }
                DocumentValue::List(list)
            }
            Event::MappingStart(..) => self.map(depth)?,
            _ => DocumentValue::Null,
        };
        Ok(DocumentNode { line, value })
    }

    fn map(&mut self, depth: usize) -> Result<DocumentValue, Fault> {
        let (mut entries, mut seen) = (Vec::new(), HashSet::new());
        loop {
            let event = match self.next()? {
                Event::MappingEnd | Event::StreamEnd => return Ok(DocumentValue::Map(entries)),
                event => event,
            };
            let key = self.node(event, depth + 1)?;
            let (DocumentValue::Text(name) | DocumentValue::Number(name)) = key.value else {
                return Err(Fault::new(key.line, "a key must be a text"));
            };
            let event = self.next()?;
            let node = self.node(event, depth + 1)?;
            let line = key.line;
            add(&mut entries, &mut seen, DocumentKey { line, name }, node)?;
        }
    }
}

fn line_of(span: Span) -> usize {
    span.start.line().max(1)
}

fn unreadable(error: &ScanError) -> Fault {
    Fault::new(
        error.marker().line().max(1),
        format!("not valid YAML: {}", error.info()),
    )
}

fn scalar(text: &str, style: ScalarStyle) -> DocumentValue {
    if style != ScalarStyle::Plain {
        return DocumentValue::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => DocumentValue::Null,
        "true" | "True" | "TRUE" => DocumentValue::Bool(true),
        "false" | "False" | "FALSE" => DocumentValue::Bool(false),
        _ if is_number(text) => DocumentValue::Number(text.to_owned()),
        _ => DocumentValue::Text(text.to_owned()),
    }
}

/// Returns whether this is a number in JSON syntax; a version such as 1.2.3 or a name such as 1e is not.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && text.parse::<f64>().is_ok()
}
