//! Performance ratios, each measured in one interleaved run against a minimal baseline.
//!
//! An absolute time on a shared machine means nothing; a multiple of the floor, of the raw loop or of the same
//! command on a small team does. Every row samples its two sides alternately and compares their medians.

mod commands;
mod database;
mod processes;
mod store;
mod studio;
mod team;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::inject::in_parallel;
use crate::product::{
    Finished, Product, TempProject, build_workloads, cargo, check_names, copy_program, is_wanted,
    must, table_head, target,
};
use crate::{docs, fixture};

/// How far a row may exceed its limit before `--check` fails, as a factor.
const TOLERANCE: f64 = 1.5;
/// Tasks and workers of a large team.
const TASKS: usize = 1_000;
const WORKERS: usize = 100;

type Group = (&'static str, fn(&Bench) -> Result<Vec<Row>>);

/// The groups of rows, which can be measured separately.
const GROUPS: [Group; 11] = [
    ("hooks", commands::hooks),
    ("commands", commands::commands),
    ("store", store::measure),
    ("database", database::measure),
    ("idle", database::idle),
    ("workers", processes::workers),
    ("host", processes::host),
    ("briefings", team::told),
    ("leader", team::led),
    ("studio", studio::server),
    ("browser", studio::browser),
];

/// Measures all rows, or those of some groups, and prints them. At full size the rows of each group are written into the
/// document as soon as they are measured.
pub(crate) fn run(quick: bool, check: bool, only: &[String], limits: &[String]) -> Result<()> {
    check_names("group", only, &GROUPS.map(|(name, _)| name))?;
    let bench = Bench::build(quick)?;
    let wanted = GROUPS.iter().filter(|(name, _)| is_wanted(name, only));
    let wanted: Vec<&Group> = wanted.collect();
    // The groups disturb each other, which does not matter where nobody looks at the numbers.
    let is_judged = !quick || check || !limits.is_empty();
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let threads = if is_judged { 1 } else { cores };
    let groups = in_parallel(threads, &wanted, |(name, measure)| {
        let measured = measure(&bench).with_context(|| format!("cannot measure {name}"))?;
        if !quick && limits.is_empty() {
            let (stamp, table) = (docs::stamp(), markdown(&measured));
            let text = format!("Measured on {stamp}.\n\n{table}");
            let path = docs::put_between("docs/performance.md", name, &text)?;
            println!("{name}: written to {}", path.display());
        }
        Ok(measured)
    });
    let groups = groups.into_iter().collect::<Result<Vec<_>>>()?;
    let mut rows: Vec<Row> = groups.into_iter().flatten().collect();
    for limit in limits {
        tighten(&mut rows, limit)?;
    }
    println!("{}", aligned(&rows));
    let beyond = rows.iter().filter(|row| !row.is_within(TOLERANCE));
    let beyond: Vec<&str> = beyond.map(|row| row.key).collect();
    let (is_good, beyond) = (!check || beyond.is_empty(), beyond.join(", "));
    ensure!(is_good, "beyond {TOLERANCE} times the limit: {beyond}");
    Ok(())
}

/// Applies a `ROW=VALUE` argument.
fn tighten(rows: &mut [Row], limit: &str) -> Result<()> {
    let (key, value) = limit.split_once('=').context("a limit is ROW=VALUE")?;
    let value: f64 = value.parse().context("the value of a limit is a number")?;
    let keys: Vec<&str> = rows.iter().map(|row| row.key).collect();
    let keys = keys.join(", ");
    let row = rows.iter_mut().find(|row| row.key == key);
    let row = row.with_context(|| format!("there is no row {key}; there are {keys}"))?;
    row.limit = Some(match row.limit {
        Some(Limit::AtLeast(_)) => Limit::AtLeast(value),
        _ => Limit::AtMost(value),
    });
    Ok(())
}

/// The programs that are measured, all of them release builds, and how much is measured.
struct Bench {
    /// Whether only enough is measured to see that it works.
    quick: bool,
    product: Product,
    /// The program with the workloads that use the library.
    workloads: PathBuf,
    floor: PathBuf,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.floor);
    }
}

impl Bench {
    fn build(quick: bool) -> Result<Self> {
        // Static, like the product; the flag applies only to this program.
        let floor = "rustc --quiet --release --package floor -- -C target-feature=+crt-static";
        must(&mut cargo(floor))?;
        Ok(Self {
            quick,
            product: Product::build()?,
            workloads: build_workloads()?,
            floor: copy_program(&target().join("release/floor"))?,
        })
    }

    /// Returns the full or the quick one of two sizes.
    fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Returns the figures of a workload.
    fn figures(&self, project: &TempProject, words: &[&str]) -> Result<Value> {
        let mut command = fixture::workload(&self.workloads, project, words);
        let figures = Finished::checked(&mut command)?.json();
        figures.with_context(|| format!("the workload {words:?} printed no figures"))
    }

    /// Returns how long a workload took.
    fn seconds(&self, project: &TempProject, words: &[&str]) -> Result<f64> {
        let seconds = self.figures(project, words)?["seconds"].as_f64();
        seconds.context("a workload printed no time")
    }
}

/// Returns the value below which this percentage of the values lies.
fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

fn median(values: &[f64]) -> f64 {
    percentile(values, 50)
}

/// Samples both sides alternately and returns their medians.
fn by_turns(
    samples: usize,
    mut one: impl FnMut() -> Result<f64>,
    mut other: impl FnMut() -> Result<f64>,
) -> Result<(f64, f64)> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for turn in 0..samples {
        if turn % 2 == 0 {
            ones.push(one()?);
        }
        others.push(other()?);
        if turn % 2 == 1 {
            ones.push(one()?);
        }
    }
    Ok((median(&ones), median(&others)))
}

fn float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::NAN, f64::from)
}

/// The limit of a ratio.
#[derive(Clone, Copy, Debug)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// One ratio.
#[derive(Debug)]
struct Row {
    /// The name on the command line.
    key: &'static str,
    what: String,
    against: String,
    ratio: f64,
    limit: Option<Limit>,
    /// The times behind the ratio, which are meaningful only on this machine.
    times: String,
}

impl Row {
    /// Returns a row without a limit. A ratio that is not a number means that the other side is not installed on this
    /// machine.
    fn new(key: &'static str, what: &str, against: &str, ratio: f64, times: String) -> Self {
        Self {
            key,
            what: what.to_owned(),
            against: against.to_owned(),
            ratio,
            limit: None,
            times,
        }
    }

    fn at_most(mut self, limit: f64) -> Self {
        self.limit = Some(Limit::AtMost(limit));
        self
    }

    fn at_least(mut self, limit: f64) -> Self {
        self.limit = Some(Limit::AtLeast(limit));
        self
    }

    /// Returns the ratio of two times in seconds.
    fn of_times(key: &'static str, what: &str, against: &str, one: f64, other: f64) -> Self {
        let times = format!("{:.2} ms : {:.2} ms", one * 1e3, other * 1e3);
        Self::new(key, what, against, one / other, times)
    }

    /// Returns the used part of a limit, both in the same unit; it may be at most 1.
    fn of_limit(
        key: &'static str,
        what: &str,
        (value, limit): (f64, f64),
        unit: &str,
        times: String,
    ) -> Self {
        let against = format!("{limit} {unit}");
        Self::new(key, what, &against, value / limit, times).at_most(1.0)
    }

    /// Returns the used part of a memory limit, in MB.
    fn of_memory(key: &'static str, what: &str, value: f64, limit: f64) -> Self {
        Self::of_limit(key, what, (value, limit), "MB", format!("{value:.1} MB"))
    }

    /// Returns the used part of an allowed share of one core.
    fn of_share(key: &'static str, what: &str, share: f64, allowed: f64, times: String) -> Self {
        let against = format!("{:.1} % of a core", allowed * 100.0);
        Self::new(key, what, &against, share / allowed, times).at_most(1.0)
    }

    fn is_within(&self, tolerance: f64) -> bool {
        match self.limit {
            Some(Limit::AtMost(limit)) => self.ratio <= tolerance * limit,
            Some(Limit::AtLeast(limit)) => self.ratio >= limit / tolerance,
            None => true,
        }
    }

    fn cells(&self) -> [String; 6] {
        // A small ratio needs more digits to be distinguished from its limit.
        let times = |ratio: f64| format!("{ratio:.0$} ×", if ratio < 0.5 { 3 } else { 2 });
        let (measured, wanted) = match self.limit {
            Some(Limit::AtLeast(limit)) => (
                format!("{:.0} %", self.ratio * 100.0),
                format!("≥ {:.0} %", limit * 100.0),
            ),
            Some(Limit::AtMost(limit)) => (times(self.ratio), format!("≤ {}", times(limit))),
            None if self.ratio.is_nan() => ("not there".to_owned(), String::new()),
            None => (times(self.ratio), String::new()),
        };
        let verdict = match self.limit {
            None => "",
            _ if self.is_within(1.0) => "ok",
            _ if self.is_within(TOLERANCE) => "over the limit",
            _ => "BEYOND",
        };
        let (key, what) = (self.key.to_owned(), self.what.clone());
        let against = self.against.clone();
        [key, what, against, measured, wanted, verdict.to_owned()]
    }
}

const HEADINGS: [&str; 6] = ["row", "what", "against", "measured", "must be", ""];

/// Returns the table for a terminal, with the times.
fn aligned(rows: &[Row]) -> String {
    let mut lines = vec![(HEADINGS.map(str::to_owned), "")];
    lines.extend(rows.iter().map(|row| (row.cells(), row.times.as_str())));
    let length = |cells: &[String; 6], column: usize| cells[column].chars().count();
    let widths: [usize; 6] = std::array::from_fn(|column| {
        let lengths = lines.iter().map(|(cells, _)| length(cells, column));
        lengths.max().unwrap_or(0)
    });
    let mut text = String::new();
    for (cells, times) in &lines {
        for (column, cell) in cells.iter().enumerate() {
            let padding = " ".repeat(widths[column] - length(cells, column) + 2);
            let _ = write!(text, "{cell}{padding}");
        }
        let _ = writeln!(text, "{times}");
    }
    text
}

/// Returns the table for a document, without the times.
fn markdown(rows: &[Row]) -> String {
    let mut text = table_head(&HEADINGS.join(" | ")) + "\n";
    for row in rows {
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    text
}
