//! Makes text from files safe for a terminal.

use teamster_types::text::{clean, one_line};

/// Texts are not shortened here; the caller cuts them to the available columns.
const WHOLE: usize = usize::MAX;

/// Returns a text without terminal control characters, keeping its lines.
pub fn plain(text: &str) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| clean(&line.replace('\t', "    "), WHOLE).into_owned())
        .collect();
    lines.join("\n")
}

/// Returns a text on one line, without terminal control characters.
pub fn line(text: &str) -> String {
    clean(&one_line(text), WHOLE).into_owned()
}
