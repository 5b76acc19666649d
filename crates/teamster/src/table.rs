//! Tables for people: columns are aligned by display width, in any script.

use unicode_width::UnicodeWidthStr;

const GAP: &str = "  ";
const RESET: &str = "\u{1b}[0m";

/// The meaning of a cell, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// No special meaning.
    Plain,
    /// Everything is as it should be.
    Good,
    /// In progress, or worth a look.
    Notable,
    /// Something is wrong.
    Bad,
    /// Less important than the rest.
    Faint,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\u{1b}[32m",
            Self::Notable => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
            Self::Faint => "\u{1b}[2m",
        }
    }

    /// Returns the text in the colour of this tone.
    pub fn paint(self, text: &str, colour: bool) -> String {
        if colour && self != Self::Plain && !text.is_empty() {
            format!("{}{text}{RESET}", self.code())
        } else {
            text.to_owned()
        }
    }
}

/// One cell. Its text is already cleaned: it contains no newline and no control character.
#[derive(Clone, Debug)]
pub struct TableCell {
    text: String,
    tone: Tone,
}

impl TableCell {
    /// Creates a cell with a tone.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A table with one heading line.
#[derive(Clone, Debug)]
pub struct TextTable {
    lines: Vec<Vec<TableCell>>,
}

impl TextTable {
    /// Creates a table with these headings and no rows.
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        let headings = headings.map(|heading| TableCell::new(heading, Tone::Faint));
        Self {
            lines: vec![headings.into()],
        }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [TableCell; N]) {
        self.lines.push(cells.into());
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.lines.len() == 1
    }

    /// Renders the table as text. The last column is not padded; the others are padded to their widest cell.
    pub fn render(&self, colour: bool) -> String {
        let mut widths: Vec<usize> = Vec::new();
        for line in &self.lines {
            for (column, cell) in line.iter().enumerate() {
                if column == widths.len() {
                    widths.push(0);
                }
                widths[column] = widths[column].max(cell.text.width());
            }
        }
        let mut text = String::new();
        for line in &self.lines {
            let mut blank = 0;
            for (cell, width) in line.iter().zip(&widths) {
                if !cell.text.is_empty() {
                    text.extend(std::iter::repeat_n(' ', blank));
                    blank = 0;
                    text.push_str(&cell.tone.paint(&cell.text, colour));
                }
                blank += width - cell.text.width() + GAP.len();
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use teamster_types::text::fit;

    use super::*;

    #[test]
    fn columns_are_aligned_by_what_a_terminal_shows() {
        let mut table = TextTable::new(["NAME", "STATE", "SUBJECT"]);
        table.row(["작업자".into(), "live".into(), "고치다".into()]);
        table.row(["w".into(), "".into(), "🦀 crab".into()]);
        table.row(["worker-1".into(), "stale".into(), "".into()]);
        insta::assert_snapshot!(table.render(false), @r"
        NAME      STATE  SUBJECT
        작업자    live   고치다
        w                🦀 crab
        worker-1  stale
        ");
    }

    #[test]
    fn colours_take_no_room_and_no_colour_leaves_no_trace() {
        let mut table = TextTable::new(["A", "B"]);
        table.row([TableCell::new("x", Tone::Bad), "y".into()]);
        assert!(table.render(true).contains("\u{1b}[31mx\u{1b}[0m  y\n"));
        assert!(!table.render(false).contains('\u{1b}'));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("longer", 5), "long…");
        assert_eq!(fit("고치다고", 6), "고치…");
        assert_eq!(
            fit("고치다고", 6).width(),
            5,
            "half a character is never shown"
        );
    }
}
