//! Texts that come from outside, made fit for a file that people look at.

use teamster_types::redact::{clean, redact};

/// The longest name, role or message in a state file.
pub const LONGEST_TEXT: usize = 200;
/// The longest description of a task.
pub const LONGEST_TASK: usize = 100;

/// Nothing behind this many bytes can reach the first 200 characters, except through ten thousand invisible ones.
const LOOKED_AT: usize = 64 * 1024;

/// Redacted, cleaned and cut; line ends stay.
pub fn text(text: &str, limit: usize) -> String {
    let mut end = text.len().min(LOOKED_AT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    clean(&redact(&text[..end]), limit).into_owned()
}

/// The same on one line, without spaces at its ends.
pub fn line(given: &str, limit: usize) -> String {
    let mut whole = text(given, limit);
    if whole.contains(['\n', '\t']) || whole.trim().len() != whole.len() {
        let words: Vec<&str> = whole.split_whitespace().collect();
        whole = words.join(" ");
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_redacted_before_it_is_cut() {
        let key = format!("sk-ant-api03-{}", "A1b2".repeat(24));
        let shown = line(&format!("{}{key}", "x ".repeat(95)), LONGEST_TEXT);
        assert!(shown.ends_with("[redacted]"), "{shown}");
        assert_eq!(line("  two\n lines\t ", 200), "two lines");
        assert_eq!(line("\u{1b}[31mred\u{202e}", 200), "red");
        assert_eq!(line(&"ä".repeat(300), 200).chars().count(), 200);
    }

    #[test]
    fn ten_megabytes_cost_no_more_than_their_start() {
        let long = "ä".repeat(5_000_000);
        assert_eq!(line(&long, LONGEST_TASK).chars().count(), LONGEST_TASK);
    }
}
