//! The one pass over the text that finds where secrets are.

use std::ops::Range;

use super::{MASK, header, key_block, named, shapes};

/// Returns the ranges of the secrets in a text, in order and without overlap.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    between_walls(text, ScanSegment::secrets)
}

/// Returns the ranges of the secrets that are recognized by their own shape: tokens and private keys.
pub(super) fn keys(text: &str) -> Vec<Range<usize>> {
    between_walls(text, ScanSegment::keys)
}

fn between_walls<'a>(
    text: &'a str,
    find: fn(&ScanSegment<'a>) -> Vec<Range<usize>>,
) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for piece in text.split(MASK) {
        let end = start + piece.len();
        let segment = ScanSegment::new(piece, end < text.len());
        found.extend(
            find(&segment)
                .into_iter()
                .map(|secret| start + secret.start..start + secret.end),
        );
        start = end + MASK.len();
    }
    found
}

/// The text between two walls (masks or the ends of the text): rules never look beyond it.
///
/// Rules read single bytes with [`ScanSegment::at`], so that a test can count how often they do.
pub(super) struct ScanSegment<'a> {
    text: &'a str,
    walled: bool,
    #[cfg(test)]
    reads: std::cell::Cell<usize>,
}

/// Returns whether a byte can be part of a word: names and most tokens consist of words.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

impl<'a> ScanSegment<'a> {
    pub(super) fn new(text: &'a str, walled: bool) -> Self {
        Self {
            text,
            walled,
            #[cfg(test)]
            reads: std::cell::Cell::new(0),
        }
    }

    /// Returns how many bytes were read so far.
    #[cfg(test)]
    pub(super) fn reads(&self) -> usize {
        self.reads.get()
    }

    /// Returns the byte at `at`, or `None` after the end of the segment.
    pub(super) fn at(&self, at: usize) -> Option<u8> {
        #[cfg(test)]
        self.reads.set(self.reads.get() + 1);
        self.text.as_bytes().get(at).copied()
    }

    pub(super) fn has(&self, at: usize, wanted: &str) -> bool {
        self.at(at) == wanted.bytes().next()
            && self.text.as_bytes()[at..].starts_with(wanted.as_bytes())
    }

    /// Returns the text of a range whose ends lie next to ASCII characters.
    pub(super) fn text(&self, range: Range<usize>) -> &'a str {
        &self.text[range]
    }

    /// Returns the first `most` bytes of a range, or slightly fewer so as not to split a character.
    pub(super) fn beginning(&self, range: Range<usize>, most: usize) -> &'a str {
        let mut end = range.end.min(range.start + most);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        &self.text[range.start..end]
    }

    /// Returns whether the text that ends at `end` is adjacent to a `[redacted]`, and so was examined when that was
    /// inserted.
    pub(super) fn is_walled(&self, end: usize) -> bool {
        self.walled && end == self.text.len()
    }

    /// Returns the end of the run of bytes of one kind that begins at `from`, examining at most `most` bytes.
    pub(super) fn while_at(&self, from: usize, most: usize, of_kind: impl Fn(u8) -> bool) -> usize {
        let mut at = from;
        while at - from < most && self.at(at).is_some_and(&of_kind) {
            at += 1;
        }
        at
    }

    pub(super) fn secrets(&self) -> Vec<Range<usize>> {
        self.walk(Self::secret_at)
    }

    fn keys(&self) -> Vec<Range<usize>> {
        self.walk(Self::key_at)
    }

    /// Scans the text once and returns what `find` recognizes at each place, given the beginning of the word around it.
    fn walk(&self, find: fn(&Self, usize, u8, usize) -> Option<Range<usize>>) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut at = 0;
        // Where the word around `at` begins. No rule looks further back, and a secret ends a word.
        let mut word = 0;
        while let Some(byte) = self.at(at) {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric();
            if at > word && is_letter(byte) && self.at(at - 1).is_some_and(is_letter) {
                // No rule applies inside a run of letters, which most text consists of: skip to its last letter.
                at = self.while_at(at, usize::MAX, is_letter) - 1;
            }
            if let Some(end) = self.skip_escape(at) {
                (at, word) = (end, end);
            } else if let Some(secret) = find(self, at, byte, word) {
                (at, word) = (secret.end, secret.end);
                found.push(secret);
            } else {
                at += 1;
                if !is_word(byte) {
                    word = at;
                }
            }
        }
        found
    }

    /// Returns the secret that is recognized at `at`, in a word that begins at `word`.
    fn secret_at(&self, at: usize, byte: u8, word: usize) -> Option<Range<usize>> {
        if byte == b':' && at > word {
            return self.url_credentials(at);
        }
        if !is_word(byte) {
            return None;
        }
        if let Some(key) = self.key_at(at, byte, word) {
            return Some(key);
        }
        let ends = !self.at(at + 1).is_some_and(is_word);
        if ends {
            return header::find(self, word..at + 1).or_else(|| named::find(self, word..at + 1));
        }
        None
    }

    /// Returns the token or the private key that begins at `at`, in a word that begins at `word`.
    fn key_at(&self, at: usize, byte: u8, word: usize) -> Option<Range<usize>> {
        if !is_word(byte) {
            return None;
        }
        if byte == b'-'
            && let Some(end) = key_block::find(self, at)
        {
            return Some(at..end);
        }
        let begins = at == word || !self.at(at - 1)?.is_ascii_alphanumeric();
        if begins && let Some(end) = shapes::find(self, at, at == word) {
            return Some(at..end);
        }
        None
    }

    /// Returns the range of `user:password` in `scheme://user:password@host`; the colon of the scheme is at `colon`.
    fn url_credentials(&self, colon: usize) -> Option<Range<usize>> {
        let start = ["://", ":\\/\\/"]
            .iter()
            .find(|slashes| self.has(colon, slashes))
            .map(|slashes| colon + slashes.len())?;
        let (mut at, mut sign, mut divided) = (start, None, false);
        while let Some(byte) = self.at(at) {
            match byte {
                b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' | ..=b' ' => break,
                b'@' => sign = Some(at),
                b':' if sign.is_none() => divided = true,
                _ => {}
            }
            at += 1;
        }
        let secret = start..sign?;
        let telling = divided || super::values::is_opaque(self.beginning(secret.clone(), 128));
        (telling && !secret.is_empty()).then_some(secret)
    }

    /// Returns the end of an escape sequence that separates words: `\n` as JSON writes it, `%3D`, a color.
    ///
    /// Otherwise the `n` of `\nghp_…` would be taken for the beginning of the word.
    fn skip_escape(&self, at: usize) -> Option<usize> {
        let is_hex = |byte: u8| byte.is_ascii_hexdigit();
        let hex = |from, digits| {
            (self.while_at(from, digits, is_hex) == from + digits).then_some(from + digits)
        };
        match self.at(at)? {
            b'%' => hex(at + 1, 2),
            0x1b => self.skip_colour(at),
            b'\\' => match self.at(at + 1)? {
                b'n' | b'r' | b't' | b'b' | b'f' => Some(at + 2),
                b'u' => hex(at + 2, 4).map(|end| self.skip_written_colour(at, end)),
                b'x' => hex(at + 2, 2).map(|end| self.skip_written_colour(at, end)),
                b'e' => Some(self.skip_written_colour(at, at + 2)),
                b'0' if self.has(at, "\\033") => Some(self.skip_written_colour(at, at + 4)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the end of an escape written as `\u001b`, including the `[31m` after it, or of any other escape.
    fn skip_written_colour(&self, at: usize, end: usize) -> usize {
        let is_escape =
            ["\\u001b", "\\u001B", "\\x1b", "\\x1B", "\\e", "\\033"].contains(&self.text(at..end));
        let colour = is_escape.then(|| self.skip_colour(end - 1)).flatten();
        colour.unwrap_or(end)
    }

    /// Returns the end of `[31m` after the escape character at `escape`.
    fn skip_colour(&self, escape: usize) -> Option<usize> {
        if self.at(escape + 1)? != b'[' {
            return None;
        }
        let end = self.while_at(escape + 2, 32, |byte| matches!(byte, b'0'..=b'?'));
        matches!(self.at(end)?, b'@'..=b'~').then_some(end + 1)
    }

    /// Skips spaces, tabs and colors.
    pub(super) fn skip_blank(&self, from: usize) -> usize {
        let mut at = from;
        loop {
            match self.at(at) {
                Some(b' ' | b'\t') => at += 1,
                Some(0x1b) => match self.skip_colour(at) {
                    Some(end) => at = end,
                    None => return at,
                },
                _ => return at,
            }
        }
    }

    /// Returns the quotation mark at `from`, with the number of backslashes that escape it.
    pub(super) fn quote(&self, from: usize) -> Option<Quote> {
        let at = self.while_at(from, 8, |byte| byte == b'\\');
        let mark = self
            .at(at)
            .filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
        Some(Quote {
            mark,
            depth: at - from,
            end: at + 1,
        })
    }
}

/// A quotation mark, possibly inside a string that is itself quoted.
#[derive(Clone, Copy)]
pub(super) struct Quote {
    mark: u8,
    depth: usize,
    /// The offset after the mark.
    pub(super) end: usize,
}

impl Quote {
    /// Returns the end of the text that this mark opens: at its counterpart, or else where the enclosing text ends.
    pub(super) fn close(self, segment: &ScanSegment<'_>, most: usize) -> usize {
        let mut backslashes = 0;
        let mut other = None;
        let mut at = self.end;
        while at - self.end < most {
            match segment.at(at) {
                Some(b'\\') => {
                    backslashes += 1;
                    at += 1;
                    continue;
                }
                Some(byte) if byte == self.mark && self.is_closed_behind(backslashes) => {
                    // The backslashes before a deeper mark belong to the mark.
                    return if self.depth == 0 {
                        at
                    } else {
                        at - backslashes
                    };
                }
                Some(b'"') if ends_json(segment, at) => return at - backslashes,
                Some(b'"' | b'\'' | b'`') => other = other.or(Some(at - backslashes)),
                None if segment.is_walled(at) => return at,
                Some(b'\n' | b'\r') | None => return other.unwrap_or(at),
                Some(_) => {}
            }
            backslashes = 0;
            at += 1;
        }
        at
    }

    /// Returns whether a mark after this many backslashes is the counterpart of this one.
    fn is_closed_behind(self, backslashes: usize) -> bool {
        if self.depth == 0 {
            backslashes.is_multiple_of(2)
        } else {
            backslashes <= self.depth
        }
    }
}

/// Returns whether the mark at `mark` ends a JSON string, and so everything that was opened inside it.
fn ends_json(segment: &ScanSegment<'_>, mark: usize) -> bool {
    match segment.at(mark + 1) {
        Some(next) => matches!(next, b',' | b'}' | b']' | b':'),
        None => !segment.is_walled(mark + 1),
    }
}

#[cfg(test)]
mod tests {
    use crate::redact::tests::{assert_shown, assert_stays};

    #[test]
    fn credentials_in_urls_go() {
        for (text, expected) in [
            ("https://user:pass@host", "https://[redacted]@host"),
            (
                "https://user:pass@host/a?b#c",
                "https://[redacted]@host/a?b#c",
            ),
            (
                "DATABASE_URL=postgres://app:s3cret@db:5432/app",
                "DATABASE_URL=postgres://[redacted]@db:5432/app",
            ),
            (
                "SECRET_URL=postgres://app:s3cret@db:5432/app",
                "SECRET_URL=postgres://[redacted]@db:5432/app",
            ),
            ("redis://:p4ss@cache", "redis://[redacted]@cache"),
            ("amqp://u:p@ss@host", "amqp://[redacted]@host"),
            (
                "git clone https://x-access-token:abc@github.com/a/b.git",
                "git clone https://[redacted]@github.com/a/b.git",
            ),
            ("https://aB3dE5gH7jK9mN1p@host", "https://[redacted]@host"),
            (
                "a https://u:p@h b mongodb+srv://u:p@h c",
                "a https://[redacted]@h b mongodb+srv://[redacted]@h c",
            ),
            (
                r#"{"u":"https:\/\/u:p@h\/x"}"#,
                r#"{"u":"https:\/\/[redacted]@h\/x"}"#,
            ),
            ("https://u:비밀@h", "https://[redacted]@h"),
        ] {
            assert_shown(text, expected);
        }
        for text in [
            "https://host:8080/a@b",
            "https://host/user:pass@x",
            "https://host?u=a:b@c",
            "ssh://git@github.com:22/a/b",
            "https://user@host",
            "git@github.com:a/b.git",
            "mail me@example.com",
            "https://",
            "://a:b@c",
            "https://host:80 and me@x",
        ] {
            assert_stays(text);
        }
    }
}
