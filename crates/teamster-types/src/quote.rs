//! Text of others inside a text of ours: every line of it is marked, so that no part of it can pass for our words.

/// The mark at the beginning of each line.
pub const MARK: &str = "> ";

/// Returns the text with a mark before every line, and without an end of line at its end.
///
/// Whatever a reader may take for the end of a line ends one here: a text cannot begin a line of its own by a character
/// that we overlook.
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
    use proptest::prelude::*;

    use super::*;

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
