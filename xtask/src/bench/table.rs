//! The table of rows, for a terminal and for a document.

use std::fmt::Write as _;

/// What a ratio must be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// One ratio.
#[derive(Debug)]
pub(super) struct Row {
    /// Names it on the command line.
    pub(super) key: &'static str,
    pub(super) what: String,
    pub(super) against: String,
    pub(super) ratio: f64,
    pub(super) limit: Option<Limit>,
    /// Times behind the ratio, for a person at this machine.
    pub(super) times: String,
}

impl Row {
    /// A row whose other side is not on this machine: it says so, and fails nothing.
    pub(super) fn missing(key: &'static str, what: String, against: &str) -> Self {
        Self {
            key,
            what,
            against: against.to_owned(),
            ratio: f64::NAN,
            limit: None,
            times: String::new(),
        }
    }

    /// Beyond one and a half times its limit.
    pub(super) fn is_beyond(&self) -> bool {
        match self.limit {
            Some(Limit::AtMost(limit)) => self.ratio > 1.5 * limit || self.ratio.is_nan(),
            Some(Limit::AtLeast(limit)) => self.ratio < limit / 1.5 || self.ratio.is_nan(),
            None => false,
        }
    }

    fn verdict(&self) -> &'static str {
        let is_within = match self.limit {
            Some(Limit::AtMost(limit)) => self.ratio <= limit,
            Some(Limit::AtLeast(limit)) => self.ratio >= limit,
            None => return "",
        };
        match (is_within, self.is_beyond()) {
            (true, _) => "ok",
            (false, false) => "over the limit",
            (false, true) => "BEYOND",
        }
    }

    fn measured(&self) -> String {
        match self.limit {
            Some(Limit::AtLeast(_)) => format!("{:.0} %", self.ratio * 100.0),
            _ if self.ratio.is_nan() => "not there".to_owned(),
            _ => times(self.ratio),
        }
    }

    fn wanted(&self) -> String {
        match self.limit {
            Some(Limit::AtMost(limit)) => format!("≤ {}", times(limit)),
            Some(Limit::AtLeast(limit)) => format!("≥ {:.0} %", limit * 100.0),
            None => String::new(),
        }
    }

    fn cells(&self) -> [String; 6] {
        [
            self.key.to_owned(),
            self.what.clone(),
            self.against.clone(),
            self.measured(),
            self.wanted(),
            self.verdict().to_owned(),
        ]
    }
}

/// A small ratio needs more digits to be told from its limit.
fn times(ratio: f64) -> String {
    if ratio < 0.5 {
        format!("{ratio:.3} ×")
    } else {
        format!("{ratio:.2} ×")
    }
}

const HEADINGS: [&str; 6] = ["row", "what", "against", "measured", "must be", ""];

/// For a terminal, with the times.
pub(super) fn aligned(rows: &[Row]) -> String {
    let lines: Vec<[String; 6]> = std::iter::once(HEADINGS.map(str::to_owned))
        .chain(rows.iter().map(Row::cells))
        .collect();
    let width = |column: usize| {
        let widths = lines.iter().map(|cells| cells[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let mut text = String::new();
    let times = std::iter::once("").chain(rows.iter().map(|row| row.times.as_str()));
    for (cells, times) in lines.iter().zip(times) {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(line, "{cell}{}  ", " ".repeat(width - cell.chars().count()));
        }
        let _ = writeln!(text, "{}", format!("{line}{times}").trim_end());
    }
    text
}

/// For a document, without them.
pub(super) fn markdown(rows: &[Row]) -> String {
    let mut text = format!(
        "| {} |\n|{}\n",
        HEADINGS.join(" | "),
        "---|".repeat(HEADINGS.len())
    );
    for row in rows {
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    text
}
