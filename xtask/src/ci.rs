//! Everything a change must pass, on a machine that has a Rust toolchain and little else.

mod documents;
mod elf;
mod tests;
mod tools;

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::inject::{self, Size, Tally};
use crate::product::{Product, cargo, must};
use crate::{bench, docs, race, web};

/// Sizes of the races here; `cargo xtask evidence` has larger ones.
const RACES: usize = 5;
const RACE_TASKS: usize = 200;

type Step = (&'static str, fn() -> Result<()>);

/// The steps, in the order in which a mistake is found soonest.
const STEPS: [Step; 14] = [
    ("tools", tools::install),
    ("format", format),
    ("lints", lints),
    ("dependencies", tools::deny),
    ("web", web::check),
    ("tests", tests::run),
    ("browser", in_browser),
    ("release", release),
    ("documents", documents::run_as_written),
    ("docs", fresh_docs),
    ("kills", kills),
    ("errors", errors),
    ("races", races),
    ("bench", bench_runs),
];

/// Runs all steps, or only some; an error that lists those that failed.
pub(crate) fn run(only: &[String]) -> Result<()> {
    if let Some(unknown) = only
        .iter()
        .find(|name| !STEPS.iter().any(|(step, _)| step == name))
    {
        let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
        bail!("there is no step {unknown}; there are {}", names.join(", "));
    }
    let start = Instant::now();
    let mut ended: Vec<(&str, Duration, Result<()>)> = Vec::new();
    for (name, step) in STEPS {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        println!("\n== {name}");
        let begin = Instant::now();
        let result = step();
        if let Err(error) = &result {
            println!("FAILED: {error:#}");
        }
        println!("-- {name}: {:.1} s", begin.elapsed().as_secs_f64());
        ended.push((name, begin.elapsed(), result));
    }
    println!("\n== summary");
    for (name, took, result) in &ended {
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        println!("  {name:<14} {word:<7} {:>7.1} s", took.as_secs_f64());
    }
    println!(
        "  {:<14} {:<7} {:>7.1} s",
        "all",
        "",
        start.elapsed().as_secs_f64()
    );
    let skipped = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    for step in skipped.iter() {
        println!("SKIPPED, {step}");
    }
    let failed: Vec<String> = ended
        .iter()
        .filter_map(|(name, _, result)| Some(format!("{name}: {:#}", result.as_ref().err()?)))
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{} steps failed\n{}", failed.len(), failed.join("\n"));
}

/// The page in a browser. A machine that cannot try it says so, here and at the end.
fn in_browser() -> Result<()> {
    if let Some(lack) = web::browser::step()? {
        skip("browser", &lack);
    }
    Ok(())
}

/// Steps that could not be made here, and why.
static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn skip(step: &str, why: &dyn Display) {
    println!("  SKIPPED: {why}");
    let mut skipped = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    skipped.push(format!("{step}: {why}"));
}

fn format() -> Result<()> {
    must(&mut cargo(["fmt", "--all", "--check"]))
}

fn lints() -> Result<()> {
    must(&mut cargo([
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "--deny",
        "warnings",
    ]))
}

/// The release is one static file of a reasonable size.
fn release() -> Result<()> {
    let product = Product::build()?;
    elf::check(&product.binary)
}

fn fresh_docs() -> Result<()> {
    docs::run(&Product::build()?, true)
}

fn kills() -> Result<()> {
    judged(&inject::kills(&Product::build()?, Size::Every)?)
}

fn errors() -> Result<()> {
    judged(&inject::errors(&Product::build()?, Size::Sample)?)
}

/// Prints what came out, and fails if anything was wrong.
fn judged(tallies: &[Tally]) -> Result<()> {
    for tally in tallies {
        println!("{}", tally.line());
    }
    let violations: Vec<&String> = tallies.iter().flat_map(|tally| &tally.violations).collect();
    for violation in &violations {
        println!("  {violation}");
    }
    if !violations.is_empty() {
        bail!("{} violations", violations.len());
    }
    Ok(())
}

fn races() -> Result<()> {
    let product = Product::build()?;
    let mut failures = Vec::new();
    for (what, races) in [
        ("tasks", race::for_tasks(&product, RACES, RACE_TASKS)?),
        (
            "stale locks",
            race::for_stale_locks(&product, RACES, RACE_TASKS)?,
        ),
    ] {
        println!("{}", races.line(what));
        failures.extend(races.failures(what));
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(())
}

/// That it runs; its figures mean nothing on a shared machine.
fn bench_runs() -> Result<()> {
    bench::run(true, false, &[], &[])
}
