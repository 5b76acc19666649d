//! Escapes untrusted texts for Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use teamster_types::Time;
use teamster_types::text::{fit, one_line, shown};
use unicode_width::UnicodeWidthStr;

/// The width of a text in a table cell, in columns.
const CELL_WIDTH: usize = 60;
/// The limit of a text with several lines, in characters.
const LONGEST_TEXT: usize = 10_000;

/// Returns a text without secrets and control characters; line breaks stay.
pub(super) fn plain(text: &str) -> String {
    shown(text, LONGEST_TEXT).replace('\t', "    ")
}

/// Returns a text like [`plain`], in one line.
pub(super) fn line(text: &str) -> String {
    one_line(&shown(text, LONGEST_TEXT))
}

/// Returns a line with all Markdown escaped, for any position.
pub(super) fn escaped(text: &str) -> String {
    let mut shown = inside(text);
    // These begin headings, lists and rules at the beginning of a line.
    let digits = shown.chars().take_while(char::is_ascii_digit).count();
    if shown.starts_with(['#', '-', '+', '=']) {
        shown.insert(0, '\\');
    } else if digits > 0 && shown[digits..].starts_with(['.', ')']) {
        shown.insert(digits, '\\');
    }
    shown
}

/// Returns a line with all Markdown escaped, for a position behind another text.
pub(super) fn inside(text: &str) -> String {
    let text = line(text);
    let mut shown = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_between_letters = before.is_some_and(char::is_alphanumeric)
            && rest.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            '<' => shown.push_str("&lt;"),
            '&' => shown.push_str("&amp;"),
            // Inside a word it has no meaning, and names are full of it.
            '_' if is_between_letters => shown.push(c),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '>' => {
                shown.push('\\');
                shown.push(c);
            }
            _ => shown.push(c),
        }
        before = Some(c);
    }
    shown
}

/// Returns an untrusted text for a table cell.
pub(super) fn cell(text: &str) -> String {
    inside(&fit(&line(text), CELL_WIDTH))
}

/// Returns a text of several lines as a block quote.
pub(super) fn quoted(text: &str) -> String {
    let mut page = String::new();
    for text in plain(text).trim().lines() {
        let _ = writeln!(page, "{}", format!("> {}", escaped(text)).trim_end());
    }
    page
}

/// Returns a command, a name or a commit as code.
pub(super) fn code(text: &str) -> String {
    let text = line(text);
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(&text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Returns code for a table cell, where a bar ends even code.
pub(super) fn code_cell(text: &str) -> String {
    let text = line(text);
    if text.contains("\\|") || text.ends_with('\\') {
        // A backslash before a bar would undo the escape, and cannot be escaped itself in code.
        return as_element(&text);
    }
    code(&text).replace('|', "\\|")
}

fn as_element(text: &str) -> String {
    let mut shown = String::from("<code>");
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            let _ = write!(shown, "&#{};", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.push_str("</code>");
    shown
}

/// The width of a small terminal, in columns. No text that a decision depends on is broken at its edge.
pub(super) const COLUMNS: usize = 80;
/// The most lines of one untrusted text.
const MOST_LINES: usize = 4;

/// Returns an untrusted text in lines that fit a small terminal: the first begins with `first`, the others are indented
/// as far. A text that is too long ends with `…`.
pub(super) fn wrapped(first: &str, text: &str) -> String {
    let indent = " ".repeat(first.width());
    let room = COLUMNS.saturating_sub(first.width()).max(20);
    let mut lines: Vec<String> = vec![String::new()];
    for word in line(text).split(' ').filter(|word| !word.is_empty()) {
        // A word that is longer than a line is cut like any other text.
        let word = fit(word, room);
        let last = lines
            .last_mut()
            .filter(|last| last.is_empty() || last.width() + 1 + word.width() <= room);
        match last {
            Some(last) if last.is_empty() => last.push_str(&word),
            Some(last) => {
                last.push(' ');
                last.push_str(&word);
            }
            None => lines.push(word),
        }
    }
    if lines.len() > MOST_LINES {
        lines.truncate(MOST_LINES);
        if let Some(last) = lines.last_mut() {
            *last = fit(&format!("{last} …"), room);
            if !last.ends_with('…') {
                last.push('…');
            }
        }
    }
    let mut text = String::new();
    for (place, line) in lines.iter().enumerate() {
        let before = if place == 0 { first } else { indent.as_str() };
        let _ = writeln!(text, "{}", format!("{before}{line}").trim_end());
    }
    text
}

/// Returns lines unchanged, between fences that they cannot close.
pub(super) fn block(text: &str) -> String {
    let text = plain(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_matches('\n'))
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or(0)
}

/// Returns the last lines of a text.
pub(super) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Returns the abbreviated hash of a commit.
pub(super) fn short(commit: &str) -> String {
    line(commit).chars().take(12).collect()
}

/// Returns a time, to the second.
pub(super) fn moment(time: Time) -> String {
    let text = time.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{}Z", seconds.replace('T', " ")),
        None => text,
    }
}

/// Returns a duration, to the second.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", span.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Returns a number with its noun.
pub(super) fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// A table with columns that are aligned for people who read it as text. Its cells are already escaped.
pub(super) struct MarkdownTable {
    rows: Vec<Vec<String>>,
}

impl MarkdownTable {
    pub(super) fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self {
            rows: vec![headings.map(str::to_owned).into()],
        }
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    pub(super) fn render(&self) -> String {
        let columns = self.rows[0].len();
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().map(|row| row[column].width());
                cells.max().unwrap_or(0).max(3)
            })
            .collect();
        let mut page = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            for (cell, width) in row.iter().zip(&widths) {
                let blank = " ".repeat(width - cell.width());
                let _ = write!(page, "| {cell}{blank} ");
            }
            page.push_str("|\n");
            if number == 0 {
                for width in &widths {
                    let _ = write!(page, "|{}", "-".repeat(width + 2));
                }
                page.push_str("|\n");
            }
        }
        page
    }
}
