//! Prepares texts for people: removes secrets and deceptive characters, joins lines, and limits length or width.
//!
//! | function | what it does |
//! |---|---|
//! | [`redact`] | replaces secrets |
//! | [`clean`] | removes what a viewer would act on, and limits the length in characters |
//! | [`shown`], [`shown_line`] | redact and clean, in that order |
//! | [`one_line`] | joins the words of a text by single spaces |
//! | [`clip`], [`fit`] | cut to a number of characters or columns |
//! | [`width`] | counts columns |
//!
//! The order matters: a text is redacted before it is cut, because a secret that was cut in two is no longer seen as one.
//! What must arrive as written (task files, inboxes, prompts) does not pass through here.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use unicode_width::UnicodeWidthStr;

use crate::redact::redact;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';

/// How many bytes of a text [`shown`] examines, unless more may be shown.
///
/// Text further back could only appear among the first characters if thousands of invisible ones came before it.
const LOOKED_AT: usize = 64 * 1024;

/// The maximum length of a secret, in bytes.
const LONGEST_SECRET: usize = 8 * 1024;

/// Returns the text without control characters (line feed and tab stay), escape sequences, bidi controls and other
/// invisible characters: at most `limit` characters, the last of them `…` when something was cut.
pub fn clean(text: &str, limit: usize) -> Cow<'_, str> {
    // A fast path: most program output is plain ASCII.
    let is_plain = |byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.len() <= limit && text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown: String = VisibleChars { rest: text }
        .take(limit.saturating_add(1))
        .collect();
    if let Some((end, _)) = shown.char_indices().nth(limit) {
        shown.truncate(end);
        if shown.pop().is_some() {
            shown.push('…');
        }
    }
    if shown == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(shown)
    }
}

/// Redacts and cleans a text, keeping its line ends. Returns at most `limit` characters.
pub fn shown(text: &str, limit: usize) -> String {
    // A character has at most four bytes.
    let looked_at = limit.saturating_mul(4).max(LOOKED_AT);
    let mut seen = beginning(text, looked_at);
    if seen.len() < text.len() {
        // Half of a secret would not be recognized, so the truncated end is left out.
        let end = beginning(seen, seen.len() - LONGEST_SECRET).len();
        let word = seen[end..].rfind(char::is_whitespace);
        seen = &seen[..end + word.unwrap_or(0)];
    }
    clean(&redact(seen), limit).into_owned()
}

/// Redacts and cleans a text and joins it to one line, without surrounding spaces.
pub fn shown_line(text: &str, limit: usize) -> String {
    let shown = shown(text, limit);
    if shown.contains(['\n', '\t']) || shown.trim().len() != shown.len() {
        one_line(&shown)
    } else {
        shown
    }
}

/// Joins the words of a text by single spaces, replacing all white space and line ends between them.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Returns a text of any length without terminal control characters, keeping its lines.
pub fn plain(text: &str) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| clean(&line.replace('\t', "    "), usize::MAX).into_owned())
        .collect();
    lines.join("\n")
}

/// Returns a text of any length on one line, without terminal control characters.
pub fn plain_line(text: &str) -> String {
    clean(&one_line(text), usize::MAX).into_owned()
}

/// Keeps the first `limit` characters of a text, followed by `…` when there were more.
pub fn clip(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Truncates a text to `columns` columns of a terminal, the last of them `…` when something was cut.
pub fn fit(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut cut = String::new();
    for character in text.chars() {
        cut.push(character);
        if cut.width() > columns.saturating_sub(1) {
            cut.pop();
            break;
        }
    }
    cut.push('…');
    cut
}

/// Wraps a line between words so that each part fits into `columns` columns; parts after the first are indented by
/// `indent`. A word that is too long for a line stays whole.
pub fn wrap(line: &str, columns: usize, indent: usize) -> String {
    let mut wrapped = String::with_capacity(line.len());
    let mut taken = 0;
    for word in line.split_inclusive(' ') {
        let columns_of_word = word.trim_end().width();
        if taken > indent && taken + columns_of_word > columns {
            wrapped.truncate(wrapped.trim_end().len());
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            taken = indent;
        }
        wrapped.push_str(word);
        taken += word.width();
    }
    wrapped
}

/// Returns how many columns a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Returns the first `most` bytes of a text, or slightly fewer so as not to split a character.
fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Iterates over the visible characters of a text.
struct VisibleChars<'a> {
    rest: &'a str,
}

impl Iterator for VisibleChars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            let mut chars = self.rest.chars();
            let next = chars.next()?;
            self.rest = chars.as_str();
            match next {
                ESCAPE => self.skip_sequence(),
                '\u{9b}' => self.skip_control_sequence(),
                '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.skip_string(),
                _ if is_unseen(next) => {}
                _ => return Some(next),
            }
        }
    }
}

impl VisibleChars<'_> {
    /// Skips the sequence after an escape character.
    fn skip_sequence(&mut self) {
        match self.rest.chars().next() {
            Some('[') => {
                self.rest = &self.rest[1..];
                self.skip_control_sequence();
            }
            Some(']' | 'P' | 'X' | '^' | '_') => {
                self.rest = &self.rest[1..];
                self.skip_string();
            }
            _ => {
                self.skip_all(' '..='/');
                self.skip_one('0'..='~');
            }
        }
    }

    /// Skips parameters and final byte, as in `31m`.
    fn skip_control_sequence(&mut self) {
        self.skip_all('0'..='?');
        self.skip_all(' '..='/');
        self.skip_one('@'..='~');
    }

    /// Skips a title, a link or another string up to its terminator.
    ///
    /// An unterminated string ends with its line, so that it cannot hide what follows.
    fn skip_string(&mut self) {
        let end = self
            .rest
            .find(|c| matches!(c, BELL | ESCAPE | '\u{9c}' | '\n'))
            .unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
        self.rest = (self.rest)
            .strip_prefix("\u{1b}\\")
            .or_else(|| self.rest.strip_prefix([BELL, '\u{9c}']))
            .unwrap_or(self.rest);
    }

    fn skip_all(&mut self, wanted: RangeInclusive<char>) {
        self.rest = self.rest.trim_start_matches(|c| wanted.contains(&c));
    }

    fn skip_one(&mut self, wanted: RangeInclusive<char>) {
        self.rest = (self.rest)
            .strip_prefix(|c| wanted.contains(&c))
            .unwrap_or(self.rest);
    }
}

/// Invisible characters that change or hide others.
const UNSEEN: [RangeInclusive<char>; 21] = [
    // Soft hyphen, joiners, fillers and separators that look like nothing or like a space.
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{3164}'..='\u{3164}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{2028}'..='\u{2029}',
    // Marks, overrides, embeddings and isolates of direction.
    '\u{61c}'..='\u{61c}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2066}'..='\u{2069}',
    // Invisible operators and deprecated format characters.
    '\u{2060}'..='\u{2065}',
    '\u{206a}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    // Variation selectors, which can carry hidden text; the two that only choose how an emoji looks stay.
    '\u{180b}'..='\u{180f}',
    '\u{fe00}'..='\u{fe0d}',
    '\u{e0100}'..='\u{e01ef}',
    // Shorthand and musical format characters, and tags, which can carry hidden text too.
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e007f}',
];

fn is_unseen(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control() && c != '\n' && c != '\t';
    }
    c.is_control() || UNSEEN.iter().any(|unseen| unseen.contains(&c))
}

/// The mark at the beginning of each quoted line.
pub const MARK: &str = "> ";

/// Quotes a foreign text with a mark before every line, so that no part of it can pass for teamster's own words.
/// Returns it without a final line end.
///
/// Every character that a reader may take for a line end starts a new line here: a text cannot begin a line of its own
/// with one that we overlook.
pub fn quoted(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let lines: Vec<String> = text
        .trim_end_matches(ends_line)
        .split(ends_line)
        .map(|line| format!("{MARK}{line}").trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// Returns whether a reader may take this character for the end of a line.
pub fn ends_line(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: usize = usize::MAX;

    #[test]
    fn line_is_wrapped_between_words() {
        assert_eq!(wrap("a line that fits", 20, 2), "a line that fits");
        assert_eq!(
            wrap("a line that does not fit", 10, 2),
            "a line\n  that\n  does not\n  fit"
        );
        assert_eq!(
            wrap("한국어 단어들이 있다", 10, 2),
            "한국어\n  단어들이\n  있다"
        );
        assert_eq!(
            wrap("see https://localhost/a/long/address now", 12, 2),
            "see\n  https://localhost/a/long/address\n  now"
        );
    }

    #[test]
    fn secret_that_the_limit_of_looking_cuts_in_two_is_not_shown() {
        let secret = format!("sk-ant-api03-{}", "a1B2".repeat(24));
        for visible in 0..secret.len() {
            let hidden = "x".repeat(LOOKED_AT - visible - 10);
            let text = format!("\u{1b}]0;{hidden}\u{7} {secret} {}", "y".repeat(LOOKED_AT));
            let shown = shown(&text, 200);
            assert!(!shown.contains(&secret[..16]), "{visible}: {shown}");
        }
    }

    #[test]
    fn plain_text_is_borrowed_as_it_is() {
        for text in [
            "",
            "a",
            "two\nlines\tand a tab",
            "한국어 🦀 é ❤\u{fe0f}",
            "[31m is text",
        ] {
            assert!(matches!(clean(text, ALL), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn escape_sequences_go_as_a_whole() {
        for (text, expected) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[38;5;196;1mred\u{1b}[m", "red"),
            ("\u{1b}[?25l\u{1b}[2J\u{1b}[1;1Hhome", "home"),
            ("\u{1b}[3 qcursor", "cursor"),
            ("\u{9b}31mred", "red"),
            ("\u{1b}]0;evil title\u{7}text", "text"),
            (
                "\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\ after",
                "link after",
            ),
            ("\u{9d}0;title\u{9c}text", "text"),
            ("\u{1b}P1$tx\u{1b}\\text", "text"),
            ("\u{1b}(Bascii", "ascii"),
            ("\u{1b}7saved\u{1b}8", "saved"),
            ("\u{1b}cReset", "Reset"),
            // An incomplete sequence loses only its escape character.
            ("\u{1b}한", "한"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
            ("\u{1b}[31", ""),
            ("\u{1b}[한", "한"),
            // An unterminated string hides no other line, and no other sequence.
            ("\u{1b}]0;never ended\nnext line", "\nnext line"),
            ("\u{1b}]0;a\u{1b}[31mred", "red"),
        ] {
            assert_eq!(clean(text, ALL), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_seen_goes() {
        for (text, expected) in [
            ("a\0b\r\nc\u{8}\u{7f}", "ab\nc"),
            ("user\u{202e}gpj.exe", "usergpj.exe"),
            ("\u{2066}isolate\u{2069}", "isolate"),
            ("zero\u{200b}width\u{200d}joiner\u{feff}", "zerowidthjoiner"),
            ("soft\u{ad}hyphen", "softhyphen"),
            ("tag\u{e0041}\u{e007f}s", "tags"),
            ("one\u{2028}line", "oneline"),
            ("c1\u{85}\u{84}", "c1"),
        ] {
            assert_eq!(clean(text, ALL), expected, "{text:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut_by_characters_and_says_so() {
        assert_eq!(clean("hello", 5), "hello");
        assert_eq!(clean("hello!", 5), "hell…");
        assert_eq!(clean("한국어 문장", 4), "한국어…");
        assert_eq!(clean("ab", 1), "…");
        assert_eq!(clean("ab", 0), "");
        assert_eq!(clean("", 0), "");
        assert_eq!(clean("\u{1b}[31mhello\u{1b}[0m", 5), "hello");
        assert_eq!(clean("hell\u{200b}o", 5), "hello");
    }

    #[test]
    fn a_text_is_redacted_before_it_is_cut() {
        let key = format!("sk-ant-api03-{}", "A1b2".repeat(24));
        let shown = shown_line(&format!("{}{key}", "x ".repeat(95)), 200);
        assert!(shown.ends_with("[redacted]"), "{shown}");
        assert_eq!(shown_line("  two\n lines\t ", 200), "two lines");
        assert_eq!(shown_line("\u{1b}[31mred\u{202e}", 200), "red");
        assert_eq!(shown_line(&"ä".repeat(300), 200).chars().count(), 200);
    }

    #[test]
    fn ten_megabytes_cost_no_more_than_their_start() {
        let long = "ä".repeat(5_000_000);
        assert_eq!(shown_line(&long, 100).chars().count(), 100);
    }

    #[test]
    fn texts_are_cut_to_characters_and_columns() {
        assert_eq!(clip("hello", 5), "hello");
        assert_eq!(clip("hello!", 5), "hello…");
        assert_eq!(clip("한국어", 2), "한국…");
        assert_eq!(clip("", 0), "");
        assert_eq!(fit("hello", 5), "hello");
        assert_eq!(fit("hello!", 5), "hell…");
        assert_eq!(fit("한국어", 5), "한국…");
        assert_eq!(fit("한국어", 6), "한국어");
        assert_eq!(width("한a"), 3);
        assert_eq!(one_line("  two\n lines\t "), "two lines");
        assert_eq!(shown_line("a  b", 200), "a  b");
    }

    proptest! {
        #[test]
        fn cleaning_twice_is_cleaning_once_and_keeps_to_the_limit(
            text in r"(\PC|[\x00-\x20\x1b\]\[;m\\\x{80}-\x{a0}\x{200b}-\x{206f}]){0,60}", limit in 0..50_usize,
        ) {
            let once = clean(&text, limit).into_owned();
            prop_assert!(once.chars().count() <= limit);
            prop_assert!(!once.chars().any(is_unseen));
            prop_assert!(matches!(clean(&once, limit), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn every_line_is_marked_whatever_ends_it() {
        let text = "a\n\nb\r\nc\rd\u{b}e\u{c}f\u{85}g\u{2028}h\u{2029}i\n";
        assert_eq!(
            quoted(text),
            "> a\n>\n> b\n> c\n> d\n> e\n> f\n> g\n> h\n> i"
        );
        assert_eq!(quoted(""), ">");
    }

    proptest! {
        #[test]
        fn no_text_leaves_its_marks(text in any::<String>()) {
            for line in quoted(&text).split(ends_line) {
                prop_assert!(line.starts_with('>'), "{line:?}");
            }
        }
    }
}
