//! Text from files, made fit for a terminal.

use teamster_types::text::{clean, one_line};

/// No text is cut for its length here; whoever shows it cuts by columns where that is needed.
const WHOLE: usize = usize::MAX;

/// Returns a text as it was written, without what would drive a terminal. Its lines stay.
pub fn plain(text: &str) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| clean(&line.replace('\t', "    "), WHOLE).into_owned())
        .collect();
    lines.join("\n")
}

/// Returns a text on one line, without what would drive a terminal.
pub fn line(text: &str) -> String {
    clean(&one_line(text), WHOLE).into_owned()
}
