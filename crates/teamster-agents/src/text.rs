//! Functions that all readers share: parsing lines, shortening texts, and putting them into one line.

use serde_json::Value;

use crate::event::AgentEvent;
use crate::outcome::Exit;

/// The longest text that an event carries, in bytes, which must be enough for a plan of a thousand tasks. The log has the
/// whole text.
pub(crate) const LONGEST_TEXT: usize = 1024 * 1024;
/// The longest one-line detail, in bytes.
const LONGEST_DETAIL: usize = 500;
/// The longest reason, in bytes.
const LONGEST_REASON: usize = 4 * 1024;
/// The longest last message of an agent, in bytes. Its report is at its end.
const LONGEST_SUMMARY: usize = 256 * 1024;

/// Parses a line as an object with its type; any other line is returned as an event of its own.
pub(crate) fn object(line: &[u8]) -> Result<Option<(String, Value)>, AgentEvent> {
    let trimmed = line.trim_ascii();
    if trimmed.is_empty() {
        return Ok(None);
    }
    match serde_json::from_slice::<Value>(trimmed) {
        Ok(value) => match text(&value, "type") {
            Some(kind) => Ok(Some((kind.to_owned(), value))),
            None => Err(unknown(trimmed)),
        },
        Err(_) => Err(unknown(trimmed)),
    }
}

/// Returns the event for a line that is not understood.
pub(crate) fn unknown(line: &[u8]) -> AgentEvent {
    let start = &line[..line.len().min(LONGEST_DETAIL)];
    AgentEvent::Unknown(one_line(&String::from_utf8_lossy(start)))
}

/// Returns the text under a key.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns the number under a key; a missing or invalid number counts as 0.
pub(crate) fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns at most `limit` bytes of a text, cut between characters.
pub(crate) fn clip(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit).rev().find(|at| text.is_char_boundary(*at));
    format!("{}…", &text[..end.unwrap_or(0)])
}

/// Returns a text in one line: line ends and control characters become spaces, colour codes are removed.
pub(crate) fn one_line(text: &str) -> String {
    let start = clip(text, LONGEST_DETAIL);
    let mut plain = String::with_capacity(start.len());
    let mut rest = start.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                // This is `ESC [ … m`: skip to the first letter. In any other sequence only the escape character is removed.
                let mut ahead = rest.clone();
                if ahead.next() == Some('[') {
                    rest = ahead;
                    rest.by_ref().find(char::is_ascii_alphabetic);
                }
            }
            c if c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain.trim().to_owned()
}

/// Returns the last message of an agent, whole unless it is very long.
pub(crate) fn summary(text: &str) -> String {
    clip(text.trim(), LONGEST_SUMMARY)
}

/// Returns a reason, shortened if necessary.
pub(crate) fn reason(text: &str) -> String {
    clip(text.trim(), LONGEST_REASON)
}

/// Returns the arguments of a tool in one line: the most informative field, or else all of them.
pub(crate) fn tool_detail(input: &Value) -> String {
    const INFORMATIVE_FIELDS: [&str; 9] = [
        "command",
        "file_path",
        "notebook_path",
        "path",
        "pattern",
        "url",
        "query",
        "subject",
        "description",
    ];
    INFORMATIVE_FIELDS
        .iter()
        .find_map(|key| text(input, key))
        .map_or_else(|| one_line(&input.to_string()), one_line)
}

/// Returns the last line of an error stream that contains a letter or a digit.
pub(crate) fn last_line(stderr: &str) -> Option<String> {
    stderr
        .lines()
        .map(one_line)
        .rfind(|line| line.chars().any(char::is_alphanumeric))
}

/// Returns the last lines of an error stream that contain a letter or a digit, joined.
pub(crate) fn last_lines(stderr: &str, most: usize) -> String {
    let telling = stderr.lines().map(one_line);
    let telling: Vec<String> = telling
        .filter(|line| line.chars().any(char::is_alphanumeric))
        .collect();
    telling[telling.len().saturating_sub(most)..].join(" ")
}

/// Returns how a process ended in words: `exit code 3`, `killed by signal 9`.
pub(crate) fn describe_exit(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("killed by signal {signal}"),
        Exit::Unknown => "exit status unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(clip("äöü", 3), "ä…");
        assert_eq!(clip("äöü", 6), "äöü");
        assert_eq!(one_line("a\n\u{1b}[31mb\u{1b}[0m\r\n"), "a b");
        assert_eq!(one_line("\u{1b}"), "");
    }

    #[test]
    fn only_an_object_with_a_type_is_a_line() {
        assert_eq!(object(b"  \r\n"), Ok(None));
        assert!(object(br#"{"type":"x"}"#).unwrap().is_some());
        for line in [&b"{"[..], b"[1]", b"\xff\xfe", b"{\"type\":1}", b"null"] {
            assert!(matches!(object(line), Err(AgentEvent::Unknown(_))));
        }
        let deep = "[".repeat(100_000);
        assert!(object(deep.as_bytes()).is_err());
    }
}
