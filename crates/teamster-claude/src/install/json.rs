//! Finds the position of every value in a JSON text, so that it can be edited without touching anything else.
//!
//! Strict RFC 8259: a text that the client could not read is not edited either. A byte-order mark is skipped.

use std::ops::Range;

/// The maximum nesting depth, so that no text can exhaust the stack. No real settings are that deep.
const DEEPEST: usize = 256;

/// A value and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonNode {
    pub(super) span: Range<usize>,
    pub(super) shape: JsonShape,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JsonShape {
    Object(Vec<JsonMember>),
    Array(Vec<JsonNode>),
    Text(String),
    True,
    Other,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonMember {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) value: JsonNode,
}

/// Where and why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JsonFault {
    pub(super) at: usize,
    pub(super) what: &'static str,
}

impl JsonNode {
    /// Returns the members of an object, or `None` for any other value.
    pub(super) fn members(&self) -> Option<&[JsonMember]> {
        match &self.shape {
            JsonShape::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Returns the elements of an array, or `None` for any other value.
    pub(super) fn elements(&self) -> Option<&[JsonNode]> {
        match &self.shape {
            JsonShape::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// Returns the value of a key. The client uses the last of several equal keys.
    pub(super) fn get(&self, key: &str) -> Option<&JsonNode> {
        let members = self.members()?.iter().rev();
        members
            .into_iter()
            .find(|member| member.key == key)
            .map(|member| &member.value)
    }

    /// Returns the text of a string, or `None` for any other value.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.shape {
            JsonShape::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the range of each member or element.
    pub(super) fn items(&self) -> Vec<Range<usize>> {
        match &self.shape {
            JsonShape::Object(members) => members
                .iter()
                .map(|member| member.key_span.start..member.value.span.end)
                .collect(),
            JsonShape::Array(elements) => elements.iter().map(|one| one.span.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the name of the value's type.
    pub(super) fn kind(&self, text: &str) -> &'static str {
        match (&self.shape, text.as_bytes().get(self.span.start)) {
            (JsonShape::Object(_), _) => "an object",
            (JsonShape::Array(_), _) => "an array",
            (JsonShape::Text(_), _) => "a string",
            (_, Some(b'n')) => "null",
            (_, Some(b't' | b'f')) => "a boolean",
            _ => "a number",
        }
    }
}

impl JsonFault {
    /// Returns line and column, starting at 1.
    pub(super) fn place(self, text: &str) -> (usize, usize) {
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[start..].chars().count() + 1;
        (line, column)
    }
}

/// Parses the whole text as one value.
pub(super) fn scan(text: &str) -> Result<JsonNode, JsonFault> {
    let mut scanner = Scanner {
        bytes: text.as_bytes(),
        text,
        at: if text.starts_with('\u{feff}') { 3 } else { 0 },
        depth: 0,
    };
    scanner.space();
    let node = scanner.value()?;
    scanner.space();
    if scanner.at < text.len() {
        return Err(scanner.wrong("text after the end"));
    }
    Ok(node)
}

struct Scanner<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        if is_it {
            self.at += 1;
        }
        is_it
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Returns the fault at this position, with a specific message for common mistakes.
    fn wrong(&self, what: &'static str) -> JsonFault {
        let what = match (self.peek(), self.bytes.get(self.at + 1)) {
            (None, _) => "an unexpected end",
            (Some(b'/'), Some(b'/' | b'*')) | (Some(b'#'), _) => "a comment",
            (Some(b'\''), _) => "a single quote",
            _ => what,
        };
        JsonFault { at: self.at, what }
    }

    fn value(&mut self) -> Result<JsonNode, JsonFault> {
        let start = self.at;
        let shape = match self.peek() {
            Some(b'{') => self.object()?,
            Some(b'[') => self.array()?,
            Some(b'"') => JsonShape::Text(self.string()?),
            Some(b't') => self.word("true", JsonShape::True)?,
            Some(b'f') => self.word("false", JsonShape::Other)?,
            Some(b'n') => self.word("null", JsonShape::Other)?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => return Err(self.wrong("expected a value")),
        };
        Ok(JsonNode {
            span: start..self.at,
            shape,
        })
    }

    fn deeper(&mut self) -> Result<(), JsonFault> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong("too deep nesting"));
        }
        Ok(())
    }

    fn object(&mut self) -> Result<JsonShape, JsonFault> {
        self.deeper()?;
        self.at += 1;
        self.space();
        let mut members = Vec::new();
        if !self.take(b'}') {
            loop {
                let start = self.at;
                if self.peek() != Some(b'"') {
                    return Err(self.no_item(b'}', "expected a key"));
                }
                let key = self.string()?;
                let key_span = start..self.at;
                self.space();
                if !self.take(b':') {
                    return Err(self.wrong("expected a colon"));
                }
                self.space();
                let value = self.value()?;
                members.push(JsonMember {
                    key,
                    key_span,
                    value,
                });
                if self.ends(b'}')? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(JsonShape::Object(members))
    }

    fn array(&mut self) -> Result<JsonShape, JsonFault> {
        self.deeper()?;
        self.at += 1;
        self.space();
        let mut elements = Vec::new();
        if !self.take(b']') {
            loop {
                if self.peek() == Some(b']') {
                    return Err(self.no_item(b']', "expected a value"));
                }
                elements.push(self.value()?);
                if self.ends(b']')? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(JsonShape::Array(elements))
    }

    /// Skips the end of an item. Returns false when a comma announces another item.
    fn ends(&mut self, close: u8) -> Result<bool, JsonFault> {
        self.space();
        if self.take(close) {
            return Ok(true);
        }
        if !self.take(b',') {
            return Err(self.wrong("expected a comma"));
        }
        self.space();
        Ok(false)
    }

    fn no_item(&self, close: u8, what: &'static str) -> JsonFault {
        if self.peek() == Some(close) {
            JsonFault {
                at: self.at,
                what: "a trailing comma",
            }
        } else {
            self.wrong(what)
        }
    }

    fn word(&mut self, word: &str, shape: JsonShape) -> Result<JsonShape, JsonFault> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(shape)
        } else {
            Err(self.wrong("expected a value"))
        }
    }

    fn number(&mut self) -> Result<JsonShape, JsonFault> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(JsonShape::Other)
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.wrong("invalid number"));
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, JsonFault> {
        self.at += 1;
        let mut text = String::new();
        let mut plain = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    text.push_str(&self.text[plain..self.at]);
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    text.push_str(&self.text[plain..self.at]);
                    self.at += 1;
                    text.push(self.escape()?);
                    plain = self.at;
                }
                Some(0x20..) => self.at += 1,
                None => return Err(self.wrong("")),
                Some(_) => return Err(self.wrong("a control character in a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonFault> {
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.wrong("an unknown escape")),
        };
        self.at += 1;
        Ok(character)
    }

    /// Parses the digits of `\u`. A single surrogate is not a character, but the client accepts it.
    fn unicode(&mut self) -> Result<char, JsonFault> {
        let unit = self.four_digits()?;
        if !(0xd800..0xdc00).contains(&unit) || !self.bytes[self.at..].starts_with(b"\\u") {
            return Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let before = self.at;
        self.at += 2;
        let low = self.four_digits()?;
        if (0xdc00..0xe000).contains(&low) {
            let point = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            return Ok(char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        self.at = before;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn four_digits(&mut self) -> Result<u32, JsonFault> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.wrong("an unknown escape"));
            };
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> (usize, usize, &'static str) {
        let fault = scan(text).unwrap_err();
        let (line, column) = fault.place(text);
        (line, column, fault.what)
    }

    #[test]
    fn every_value_knows_where_it_stands() {
        let text = "\u{feff} {\"a\\u0062\": [1, {\"c\":true}], \"d\" : \"\\ud83d\\ude00\"}\n";
        let root = scan(text).unwrap();
        let at = |node: &JsonNode| text[node.span.clone()].to_owned();
        let array = root.get("ab").unwrap();
        assert_eq!(at(array), "[1, {\"c\":true}]");
        let inner = &array.elements().unwrap()[1];
        assert_eq!(at(inner.get("c").unwrap()), "true");
        assert_eq!(root.get("d").unwrap().text(), Some("😀"));
        let items: Vec<&str> = root.items().into_iter().map(|item| &text[item]).collect();
        assert_eq!(
            items,
            [
                "\"a\\u0062\": [1, {\"c\":true}]",
                "\"d\" : \"\\ud83d\\ude00\""
            ]
        );
    }

    #[test]
    fn what_is_wrong_has_a_name_and_a_place() {
        assert_eq!(fault("{\n  // x\n}"), (2, 3, "a comment"));
        assert_eq!(fault("{\"a\": 1 /* x */}"), (1, 9, "a comment"));
        assert_eq!(fault("{\"a\": 1,\n}"), (2, 1, "a trailing comma"));
        assert_eq!(fault("[1,]"), (1, 4, "a trailing comma"));
        assert_eq!(fault("{'a': 1}"), (1, 2, "a single quote"));
        assert_eq!(fault("{\"ä\": "), (1, 7, "an unexpected end"));
        assert_eq!(fault("{} {}"), (1, 4, "text after the end"));
        assert_eq!(fault(&"[".repeat(9999)).2, "too deep nesting");
    }

    #[test]
    fn it_agrees_with_another_reader() {
        for text in [
            "{}",
            "[]",
            "0",
            "-0.5e+3",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "\"\\x\"",
            "\"\\u12\"",
            "tru",
            "\"\n\"",
            "{\"a\"}",
            "{\"a\":}",
            "{,}",
            "[,]",
            "[1 2]",
            "nul",
            "NaN",
            "\"\\/\"",
            "",
            " ",
            "{\"a\":1}}",
            "\"\u{7f}\"",
            "1 1",
            "{1:2}",
        ] {
            let theirs = serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(scan(text).is_ok(), theirs, "{text:?}");
        }
    }
}
