//! Ratios of speed, each measured in one interleaved run against something that does the least that is possible.
//!
//! A time on a shared machine means nothing; how many times longer than the floor, the raw loop or the same command on
//! a small team, means something. Every row takes its two sides by turns and compares their medians.

mod browser;
mod commands;
mod hooks;
mod host;
mod recipe;
mod store;
mod studio;
mod table;
mod workers;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::product::{Answer, Place, Product, build_workloads, cargo, must, target};
use crate::{docs, drain};
use table::Row;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Samples of a hook.
    hooks: usize,
    /// Trials of many hooks at once, without a state before and with one, each.
    trials: usize,
    /// Samples of a command.
    commands: usize,
    /// Samples of a workload.
    workloads: usize,
    /// Operations in one sample of a workload.
    operations: usize,
    /// Tasks and workers of the team that `status` shows.
    tasks: usize,
    workers: usize,
    /// Tasks that processes drain.
    drained: usize,
    /// Tasks in the largest team that is claimed from.
    largest: usize,
    /// Events in the long journal.
    events: usize,
    /// Workers that do tasks,
    crew: usize,
    /// how many tasks,
    crew_tasks: usize,
    /// workers that have nothing to do,
    idle: usize,
    /// and for how long they are watched.
    idle_time: Duration,
    /// Workers of the run whose host is watched,
    hosted: usize,
    /// and for how long it is.
    hosted_time: Duration,
    /// Events of the team that Studio shows,
    studio_events: usize,
    /// of one with a long journal,
    studio_long: usize,
    /// and changes that are watched on their way to the page.
    studio_changes: usize,
}

const FULL: Size = Size {
    hooks: 101,
    trials: 100,
    commands: 41,
    workloads: 11,
    operations: 60,
    tasks: 1_000,
    workers: 100,
    drained: 500,
    largest: 10_000,
    events: 200_000,
    crew: 50,
    crew_tasks: 500,
    idle: 100,
    idle_time: Duration::from_secs(60),
    hosted: 100,
    hosted_time: Duration::from_secs(30),
    studio_events: 100_000,
    studio_long: 1_000_000,
    studio_changes: 2_000,
};

const QUICK: Size = Size {
    hooks: 11,
    trials: 5,
    commands: 5,
    workloads: 3,
    operations: 10,
    tasks: 1_000,
    workers: 100,
    drained: 100,
    largest: 2_000,
    events: 20_000,
    crew: 6,
    crew_tasks: 60,
    idle: 10,
    idle_time: Duration::from_secs(15),
    hosted: 5,
    hosted_time: Duration::from_secs(5),
    studio_events: 20_000,
    studio_long: 50_000,
    studio_changes: 300,
};

type Group = (&'static str, fn(&Programs, Size) -> Result<Vec<Row>>);

/// The rows, in groups that can be measured alone.
const GROUPS: [Group; 7] = [
    ("hooks", hooks::measure),
    ("commands", commands::measure),
    ("store", store::measure),
    ("workers", workers::measure),
    ("host", host::measure),
    ("studio", studio::measure),
    ("browser", browser::measure),
];

/// Measures all rows, or those of some groups, and prints them; a full run writes them down.
pub(crate) fn run(quick: bool, check: bool, only: &[String], limits: &[String]) -> Result<()> {
    let size = if quick { QUICK } else { FULL };
    let names = GROUPS.map(|(name, _)| name);
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        bail!(
            "there is no group {unknown}; there are {}",
            names.join(", ")
        );
    }
    let programs = Programs::build()?;
    let mut rows = Vec::new();
    for (name, measure) in GROUPS {
        if only.is_empty() || only.iter().any(|wanted| wanted == name) {
            rows.extend(measure(&programs, size)?);
        }
    }
    for limit in limits {
        tighten(&mut rows, limit)?;
    }
    println!("{}", table::aligned(&rows));
    if !quick && only.is_empty() && limits.is_empty() {
        let text = format!(
            "Measured by `cargo xtask bench` on {}.\n\n{}",
            docs::stamp(),
            table::markdown(&rows)
        );
        let path = docs::put_between("docs/performance.md", "bench", &text)?;
        println!("written to {}", path.display());
    }
    let beyond: Vec<&str> = rows
        .iter()
        .filter(|row| row.is_beyond())
        .map(|row| row.key)
        .collect();
    if check && !beyond.is_empty() {
        bail!("beyond 1.5 times the limit: {}", beyond.join(", "));
    }
    Ok(())
}

/// `ROW=VALUE` from the command line.
fn tighten(rows: &mut [Row], limit: &str) -> Result<()> {
    let (key, value) = limit.split_once('=').context("a limit is ROW=VALUE")?;
    let value: f64 = value.parse().context("the value of a limit is a number")?;
    let keys: Vec<&str> = rows.iter().map(|row| row.key).collect();
    let keys = keys.join(", ");
    let row = rows.iter_mut().find(|row| row.key == key);
    let row = row.with_context(|| format!("there is no row {key}; there are {keys}"))?;
    row.limit = Some(match row.limit {
        Some(table::Limit::AtLeast(_)) => table::Limit::AtLeast(value),
        _ => table::Limit::AtMost(value),
    });
    Ok(())
}

/// What is measured, all of it built for release.
struct Programs {
    product: Product,
    /// xtask itself, whose workloads use the library.
    workloads: PathBuf,
    floor: PathBuf,
}

impl Programs {
    fn build() -> Result<Self> {
        let product = Product::build()?;
        let workloads = build_workloads()?;
        // Static, as the product is; the flag reaches this one program only.
        must(&mut cargo([
            "rustc",
            "--quiet",
            "--release",
            "--package",
            "floor",
            "--",
            "-C",
            "target-feature=+crt-static",
        ]))?;
        let release = target().join("release");
        Ok(Self {
            product,
            workloads,
            floor: release.join("floor"),
        })
    }

    /// A workload in a place, not started yet.
    fn workload(&self, place: &Place, words: &[&str]) -> Command {
        drain::command(&self.workloads, place, words)
    }

    /// The figures of a workload.
    fn figures(&self, place: &Place, words: &[&str]) -> Result<Value> {
        let answer = Answer::of(&mut self.workload(place, words))?;
        if !answer.status.success() {
            bail!("the workload {words:?} failed: {}", answer.said());
        }
        answer
            .json()
            .with_context(|| format!("the workload {words:?} printed no figures"))
    }

    /// How long a workload took.
    fn seconds(&self, place: &Place, words: &[&str]) -> Result<f64> {
        self.figures(place, words)?["seconds"]
            .as_f64()
            .context("a workload printed no time")
    }
}

/// The middle one.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Takes samples of both sides by turns; their medians.
fn by_turns(
    samples: usize,
    mut one: impl FnMut() -> Result<f64>,
    mut other: impl FnMut() -> Result<f64>,
) -> Result<(f64, f64)> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for turn in 0..samples {
        if turn % 2 == 0 {
            ones.push(one()?);
            others.push(other()?);
        } else {
            others.push(other()?);
            ones.push(one()?);
        }
    }
    Ok((median(&ones), median(&others)))
}
