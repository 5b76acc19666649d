//! Redacts text that arrives line by line.

use std::borrow::Cow;

use super::{MASK, redact};

/// Redacts one stream of lines. A private key that spans lines is replaced as a whole: its first line by [`MASK`], the
/// others by nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineRedactor {
    is_in_key: bool,
}

impl LineRedactor {
    /// Returns the line with every secret replaced; `None` when it belongs to a private key that began on an earlier
    /// line.
    pub fn line<'a>(&mut self, line: &'a str) -> Option<Cow<'a, str>> {
        if self.is_in_key && is_key(line) {
            self.is_in_key = !line.contains("-----END ");
            return None;
        }
        self.is_in_key = begins_key(line);
        Some(redact(line))
    }
}

/// Returns whether a private key begins on this line and continues after it.
fn begins_key(line: &str) -> bool {
    line.rfind("-----BEGIN ")
        .is_some_and(|at| line[at..].contains("PRIVATE KEY") && !line[at..].contains("-----END "))
}

/// Returns whether a line that comes after the beginning of a private key belongs to it.
fn is_key(line: &str) -> bool {
    let is_attribute = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:"]
        .iter()
        .any(|name| line.trim_start().starts_with(name));
    // The parser of key blocks decides what looks like a key.
    let block = format!("-----BEGIN PRIVATE KEY-----\n{line}");
    is_attribute || line.trim().is_empty() || redact(&block).trim_end() == MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "MIIEowIBAAKCAQEAaB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJaB3dE5gH7j";

    fn shown(lines: &[&str]) -> Vec<String> {
        let mut redactor = LineRedactor::default();
        let shown = lines.iter().filter_map(|line| redactor.line(line));
        shown.map(Cow::into_owned).collect()
    }

    #[test]
    fn key_over_many_lines_goes_as_a_whole_and_takes_nothing_with_it() {
        for label in ["RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
            let (begin, end) = (
                format!("-----BEGIN {label}-----"),
                format!("-----END {label}-----"),
            );
            let lines = [
                "a",
                &begin,
                "Proc-Type: 4,ENCRYPTED",
                "",
                BODY,
                "ab==",
                &end,
                "b",
            ];
            assert_eq!(shown(&lines), ["a", MASK, "b"]);
        }
    }

    #[test]
    fn key_that_is_cut_off_ends_where_something_else_begins() {
        let begin = "-----BEGIN PRIVATE KEY-----";
        assert_eq!(shown(&[begin, BODY, BODY]), [MASK]);
        assert_eq!(
            shown(&[begin, BODY, "and so on", BODY]),
            [MASK, "and so on", BODY]
        );
    }
}
