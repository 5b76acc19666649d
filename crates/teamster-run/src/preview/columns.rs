//! Columns that stay aligned whatever the script, set in by two spaces.

use unicode_width::UnicodeWidthStr;

const INDENT: &str = "  ";
const GAP: &str = "  ";

pub(super) struct Columns<const N: usize> {
    lines: Vec<[String; N]>,
}

impl<const N: usize> Columns<N> {
    pub(super) fn new(headings: [&str; N]) -> Self {
        Self {
            lines: vec![headings.map(str::to_owned)],
        }
    }

    /// A cell is one line, whatever its text holds.
    pub(super) fn row(&mut self, cells: [&str; N]) {
        let cells = cells.map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" "));
        self.lines.push(cells);
    }

    pub(super) fn render(&self) -> String {
        let mut widths = [0; N];
        for line in &self.lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.width());
            }
        }
        let mut text = String::new();
        for line in &self.lines {
            let mut row = INDENT.to_owned();
            for (cell, width) in line.iter().zip(widths) {
                row.push_str(cell);
                row.push_str(&" ".repeat(width.saturating_sub(cell.width())));
                row.push_str(GAP);
            }
            text.push_str(row.trim_end());
            text.push('\n');
        }
        text
    }
}
